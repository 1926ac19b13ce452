"""`Leadership`: the tasks of the leader of a generation: read metadata, assign partitions, watch for changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.model import Topic
from kcli.client.metadata import partition_count, replica_racks
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ProtocolError
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    by_topic,
    decode_subscription,
    encode_assignment,
)

if TYPE_CHECKING:
    from kcli.assignors.lookup import Strategy
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster, TopicInfo
    from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember


class Leadership:
    """Leadership in one generation. Requests new metadata, so that the assignment is for the current topics.

    A static member that returns as the leader of a stable group must not assign, only watch (KIP-814). Raise
    ProtocolError for a malformed subscription.
    """

    def __init__(
        self, client: ConsumerNetworkClient, strategy: Strategy, response: JoinGroupResponse, *, with_racks: bool
    ) -> None:
        self._client = client
        self._strategy = strategy
        self._with_racks = with_racks
        self._members = read_members(response.members)
        self._must_assign = not response.skip_assignment
        self.topics = topics_of(self._members)
        self.snapshot: Snapshot | None = None  # of the topics at the assignment; None before it
        client.metadata.add_topics(sorted(self.topics))
        self._ticket = client.metadata.request_update(at_once=True)

    def knows_topics(self) -> bool:
        """True if the topics' metadata has arrived."""
        return self._client.metadata.is_answered(self._ticket)

    def assign_partitions(self) -> dict[str, bytes]:
        """Return the assignment of each member by member id, encoded for SyncGroup."""
        cluster = self._client.metadata.cluster
        self.snapshot = topic_snapshot(cluster, self.topics, {}, with_racks=self._with_racks)
        if not self._must_assign:
            return {}
        return assign_partitions(self._strategy, self._members, assignor_topics(cluster, self.topics))


def become_leader(
    client: ConsumerNetworkClient, config: ConsumerConfig, strategies: Sequence[Strategy], response: JoinGroupResponse
) -> Leadership:
    """Return the leadership after the JoinGroup response. Raise BrokerError if the member lacks the chosen assignor."""
    strategy = next((strategy for strategy in strategies if strategy.name == response.protocol_name), None)
    if strategy is None:
        text = f"the group chose the assignor {response.protocol_name!r}, which this member does not support"
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text, group=config.group_id)
    return Leadership(client, strategy, response, with_racks=bool(config.client_rack))


class JoinedMember(NamedTuple):
    """A member that has joined, with its subscription."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


def read_members(members: Iterable[JoinGroupResponseMember]) -> list[JoinedMember]:
    """Return the members in a JoinGroup response.

    Raise ProtocolError for a malformed subscription; it names the member.
    """
    joined = []
    for member in members:
        try:
            subscription = decode_subscription(member.metadata)
        except ProtocolError as error:
            raise ProtocolError(f"the subscription of member {member.member_id} is malformed: {error}") from error
        joined.append(JoinedMember(member.member_id, member.group_instance_id, subscription))
    return joined


def topics_of(members: Iterable[JoinedMember]) -> frozenset[str]:
    """Return all subscribed topics."""
    return frozenset(topic for member in members for topic in member.subscription.topics)


def assignor_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic]:
    """Return the topics that exist, in the form for assignors."""
    known = ((name, cluster.topics.get(name)) for name in names)
    return {
        name: Topic(partition_count(topic), replica_racks(cluster, topic))
        for name, topic in known
        if topic and topic.partitions
    }


# Watched by the leader: the number of partitions of each existing topic and, with client.rack, the replicas' racks.
Snapshot = Mapping[str, Topic]


def topic_snapshot(cluster: Cluster, names: Iterable[str], before: Snapshot, *, with_racks: bool) -> Snapshot:
    """Return a snapshot of topics; a change of it requires a rebalance.

    A topic with unknown metadata stays as in `before`.
    """
    snapshot = {}
    for name in names:
        topic = cluster.topics.get(name)
        if topic is not None and topic.partitions:
            snapshot[name] = Topic(partition_count(topic), replica_racks(cluster, topic) if with_racks else ())
        elif name in before and (topic is None or (topic.error.retriable and not _is_gone(topic))):
            snapshot[name] = before[name]
    return snapshot


def _is_gone(topic: TopicInfo) -> bool:
    return topic.error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def assign_partitions(
    strategy: Strategy, members: Iterable[JoinedMember], topics: Mapping[str, Topic]
) -> dict[str, bytes]:
    """Return the assignment of each member by member id, encoded for SyncGroup."""
    assignor_members = [
        strategy.member(member.member_id, member.subscription, member.instance_id) for member in members
    ]
    assignments = strategy.assign(topics, assignor_members)
    return {
        member_id: encode_assignment(Assignment(assigned_partitions=by_topic(partitions)))
        for member_id, partitions in assignments.items()
    }

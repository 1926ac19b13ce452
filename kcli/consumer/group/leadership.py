"""`Leadership`: what the leader of a generation does: learn about all topics, share them out, watch them."""

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
    """One generation's. Metadata is asked anew: what is shared out are the topics as they are now.

    A static member that comes back as leader of a group at rest is not to share out anything (KIP-814), but to watch.
    ProtocolError if a member's subscription makes no sense.
    """

    def __init__(
        self, client: ConsumerNetworkClient, strategy: Strategy, answer: JoinGroupResponse, *, with_racks: bool
    ) -> None:
        self._client = client
        self._strategy = strategy
        self._with_racks = with_racks
        self._members = read_members(answer.members)
        self._shares_out = not answer.skip_assignment
        self.topics = topics_of(self._members)
        self.snapshot: Snapshot | None = None  # of the topics as they were shared out; None: not yet
        client.metadata.add_topics(sorted(self.topics))
        self._ticket = client.metadata.request_update(at_once=True)

    def can_share_out(self) -> bool:
        """Whether the topics are known by now."""
        return self._client.metadata.is_answered(self._ticket)

    def share_out(self) -> dict[str, bytes]:
        """Everybody's share by member id, as SyncGroup carries it."""
        cluster = self._client.metadata.cluster
        self.snapshot = snapshot_of(cluster, self.topics, {}, with_racks=self._with_racks)
        if not self._shares_out:
            return {}
        return share_out(self._strategy, self._members, topic_facts(cluster, self.topics))


def take_the_lead(
    client: ConsumerNetworkClient, config: ConsumerConfig, strategies: Sequence[Strategy], answer: JoinGroupResponse
) -> Leadership:
    """We are the leader, by the `answer` to JoinGroup. BrokerError if the group has chosen a strategy that we lack."""
    strategy = next((strategy for strategy in strategies if strategy.name == answer.protocol_name), None)
    if strategy is None:
        text = f"the group chose the assignor {answer.protocol_name!r}, which this member does not know"
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text, group=config.group_id)
    return Leadership(client, strategy, answer, with_racks=bool(config.client_rack))


class Joined(NamedTuple):
    """One member that has joined, with what it wants."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


def read_members(members: Iterable[JoinGroupResponseMember]) -> list[Joined]:
    """The members as the broker tells them to the leader. ProtocolError names the one that makes no sense."""
    found = []
    for member in members:
        try:
            subscription = decode_subscription(member.metadata)
        except ProtocolError as error:
            raise ProtocolError(f"the subscription of member {member.member_id} is malformed: {error}") from error
        found.append(Joined(member.member_id, member.group_instance_id, subscription))
    return found


def topics_of(members: Iterable[Joined]) -> frozenset[str]:
    """All topics that somebody wants."""
    return frozenset(topic for member in members for topic in member.subscription.topics)


def topic_facts(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic]:
    """The topics among these that exist, as assignors see them."""
    known = ((name, cluster.topics.get(name)) for name in names)
    return {
        name: Topic(partition_count(topic), replica_racks(cluster, topic))
        for name, topic in known
        if topic and topic.partitions
    }


# What the leader watches: the number of partitions of each topic that exists and, if racks matter, where they are.
Snapshot = Mapping[str, Topic]


def snapshot_of(cluster: Cluster, names: Iterable[str], before: Snapshot, *, with_racks: bool) -> Snapshot:
    """What a leader must share out anew when it changes. A topic that cannot be told about now is as `before`."""
    found = {}
    for name in names:
        topic = cluster.topics.get(name)
        if topic is not None and topic.partitions:
            found[name] = Topic(partition_count(topic), replica_racks(cluster, topic) if with_racks else ())
        elif name in before and (topic is None or (topic.error.retriable and not _is_gone(topic))):
            found[name] = before[name]
    return found


def _is_gone(topic: TopicInfo) -> bool:
    return topic.error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def share_out(strategy: Strategy, members: Iterable[Joined], topics: Mapping[str, Topic]) -> dict[str, bytes]:
    """What each member gets, by member id, as bytes for SyncGroup."""
    seen = [strategy.member(it.member_id, it.subscription, it.instance_id) for it in members]
    shares = strategy.assign(topics, seen)
    return {
        member_id: encode_assignment(Assignment(assigned_partitions=by_topic(share)))
        for member_id, share in shares.items()
    }

"""What the leader of a classic group does: reads what the members want, and works out who gets what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.model import Topic
from kcli.client.metadata import partition_count, replica_racks
from kcli.errors import ProtocolError
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    by_topic,
    decode_subscription,
    encode_assignment,
)

if TYPE_CHECKING:
    from kcli.assignors.strategies import Strategy
    from kcli.client.metadata import Cluster, TopicInfo
    from kcli.protocol.messages.join_group import JoinGroupResponseMember


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

"""The target assignment of a consumer group: what its assignor makes of members, topics and the previous target.

The assignors are those of `kcli.assignors`; they know topics by name, the group's records by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.assignors.lookup import assign_by, name_on_server
from kcli.assignors.model import Member, Topic
from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, Target
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView


def compute_targets(
    group: ConsumerGroup, members: Sequence[ConsumerGroupMember], cluster: ClusterView, default_assignor: str
) -> dict[str, Target]:
    """Return the target assignment of these members by member id, by the assignor that most of them prefer.

    The previous target of a static member is that of the holder of its instance id.
    """
    topics = {
        name: Topic(len(topic.partitions), id=topic.topic_id)
        for name in group.subscribed_topics(members)
        if (topic := cluster.topics.get(name)) is not None
    }
    previous = {member.member_id: group.target(member.member_id, member.instance_id) for member in members}
    assignment = assign_by(
        name_on_server(preferred_assignor(group.server_assignors(members)) or default_assignor),
        topics,
        [
            Member(
                member.member_id,
                group.topics_of(member),
                tuple(_named(previous[member.member_id], cluster)),
                rack=member.rack_id,
                instance_id=member.instance_id,
            )
            for member in members
        ],
    )
    return {member_id: _by_id(partitions, cluster) for member_id, partitions in assignment.items()}


def preferred_assignor(counts: Counter[str]) -> str | None:
    """Return the assignor that most members prefer; None if none has a preference.

    In a tie "uniform" comes before "range": the order of Kafka's hash table.
    """
    return max(counts, key=lambda name: (counts[name], name), default=None)


def _named(target: Target, cluster: ClusterView) -> Iterable[TopicPartition]:
    for topic_id, numbers in target.items():
        topic = cluster.topic_by_id(topic_id)
        if topic is not None:
            yield from (TopicPartition(topic.name, number) for number in sorted(numbers))


def _by_id(partitions: Iterable[TopicPartition], cluster: ClusterView) -> Target:
    numbers: dict[UUID, list[int]] = {}
    for tp in partitions:
        numbers.setdefault(cluster.topics[tp.topic].topic_id, []).append(tp.partition)
    return {topic_id: frozenset(each) for topic_id, each in numbers.items()}

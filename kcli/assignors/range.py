"""Range: each topic cut into as many runs of neighbouring partitions as it has subscribers."""

from collections.abc import Sequence

from kcli.assignors.model import Assignment, Member, Topics, java_order, static_first
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """What Kafka's RangeAssignor answers (racks are not heeded yet)."""
    assignment: Assignment = {member.id: [] for member in members}
    for topic in sorted(topics, key=java_order):
        subscribers = [member for member in static_first(members) if topic in member.topics]
        first = 0
        for place, member in enumerate(subscribers):
            each, left = divmod(topics[topic].partitions, len(subscribers))
            count = each + (place < left)
            assignment[member.id] += [TopicPartition(topic, p) for p in range(first, first + count)]
            first += count
    return assignment

"""Round robin: deal all partitions of the subscribed topics, topic by topic, to the subscribers in turn."""

from collections.abc import Sequence

from kcli.assignors.model import Assignment, Member, Topics, static_first, subscribed
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the assignment of Kafka's RoundRobinAssignor.

    Topics are sorted by name, and static members come before the others. A member that does not subscribe to the topic
    is skipped. Source: Kafka's RoundRobinAssignor.
    """
    assignment: Assignment = {member.id: [] for member in members}
    ordered = static_first(members)
    index = 0
    for topic, info in subscribed(topics, members).items():
        for partition in range(info.partitions):
            while topic not in ordered[index].topics:
                index = (index + 1) % len(ordered)
            assignment[ordered[index].id].append(TopicPartition(topic, partition))
            index = (index + 1) % len(ordered)
    return assignment

"""Round robin: all subscribed partitions, topic by topic, dealt in turn to those members that want the topic."""

from collections.abc import Sequence

from kcli.assignors.model import Assignment, Member, Topics, java_order, static_first
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """What Kafka's RoundRobinAssignor answers. Topics go by name, members static ones first."""
    assignment: Assignment = {member.id: [] for member in members}
    if not members:
        return assignment
    circle = static_first(members)
    wanted: set[str] = set().union(*(member.topics for member in members))
    turn = 0
    for topic in sorted(wanted & topics.keys(), key=java_order):
        for partition in range(topics[topic].partitions):
            while topic not in circle[turn].topics:
                turn = (turn + 1) % len(circle)
            assignment[circle[turn].id].append(TopicPartition(topic, partition))
            turn = (turn + 1) % len(circle)
    return assignment

"""Round robin: all subscribed partitions, topic by topic, dealt in turn to those members that want the topic."""

from collections.abc import Sequence

from kcli.assignors.model import Assignment, Member, Topics, static_first, subscribed
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """What Kafka's RoundRobinAssignor answers. Topics go by name, static members before the others.

    Members that do not want the topic lose their turn. Source: Kafka's RoundRobinAssignor.
    """
    assignment: Assignment = {member.id: [] for member in members}
    circle = static_first(members)
    turn = 0
    for topic, facts in subscribed(topics, members).items():
        for partition in range(facts.partitions):
            while topic not in circle[turn].topics:
                turn = (turn + 1) % len(circle)
            assignment[circle[turn].id].append(TopicPartition(topic, partition))
            turn = (turn + 1) % len(circle)
    return assignment

"""The server's range (KIP-848): each topic cut into runs of neighbouring partitions, one for each of its subscribers.

It knows neither racks nor what members had; what keeps partitions where they are is that static members come first, by
their instance ids. Topics with equally many partitions and the same subscribers come out co-partitioned all by
themselves. Source: org.apache.kafka.coordinator.group.assignor.RangeAssignor.
"""

from collections.abc import Sequence

from kcli.assignors.model import Assignment, Member, Topics, static_first, subscribed, subscribers
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """What the group coordinator answers, each member's partitions sorted."""
    members = static_first(members)
    assignment: Assignment = {member.id: [] for member in members}
    topics = subscribed(topics, members)
    for topic, places in subscribers(topics, members).items():
        count = topics[topic].partitions
        each, extras = divmod(count, len(places))
        end = 0
        for turn, place in enumerate(places[:count]):
            start, end = end, end + each + (turn < extras)
            assignment[members[place].id] += [TopicPartition(topic, p) for p in range(start, end)]
    return {member: sorted(partitions) for member, partitions in assignment.items()}

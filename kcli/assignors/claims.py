"""Who really owns what, of all that members say they own. Pure.

Members join with what they had, and some of them slept through a rebalance: of several claims to a partition that of
the newest generation holds (KIP-341, KIP-792), and two of the same generation cancel each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kcli.assignors.model import Member, Topics
from kcli.structs import TopicPartition


class Claims(NamedTuple):
    """The claims that hold, by member id, and the partitions whose newest claims cancel each other."""

    held: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]

    def owners(self) -> dict[TopicPartition, str]:
        """The member that holds a partition."""
        return {partition: member for member, partitions in self.held.items() for partition in partitions}


def settle(topics: Topics, members: Sequence[Member]) -> Claims:
    """Settle claims to partitions that exist; all others are void. Whether the owner still wants them is not asked."""
    best: dict[TopicPartition, Member] = {}
    disputed: set[TopicPartition] = set()
    for member in members:
        for partition in existing(topics, member):
            rival = best.get(partition)
            if rival is None or rival.generation < member.generation:
                best[partition] = member
                disputed.discard(partition)
            elif rival.generation == member.generation:
                disputed.add(partition)
    held: dict[str, list[TopicPartition]] = {member.id: [] for member in members}
    for partition, member in best.items():
        if partition not in disputed:
            held[member.id].append(partition)
    return Claims(held, disputed)


def existing(topics: Topics, member: Member) -> list[TopicPartition]:
    """What a member says it owns, once each, less what is not there: a topic may have been made anew and smaller."""
    return [
        partition
        for partition in dict.fromkeys(member.owned)
        if partition.topic in topics and 0 <= partition.partition < topics[partition.topic].partitions
    ]

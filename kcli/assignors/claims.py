"""Ownership of partitions, settled from the claims of all members. Pure.

Members join with the partitions they owned, and some of them missed a rebalance. Of several claims to a partition, the
claim of the newest generation is valid (KIP-341, KIP-792). Two claims of the same generation cancel each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kcli.assignors.model import Member, Topics
from kcli.structs import TopicPartition


class Claims(NamedTuple):
    """The valid claims by member id, and the partitions whose newest claims cancel each other."""

    valid: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]

    def owners(self) -> dict[TopicPartition, str]:
        """Return the owner of each partition."""
        return {partition: member for member, partitions in self.valid.items() for partition in partitions}


def settle(topics: Topics, members: Sequence[Member]) -> Claims:
    """Settle the claims to existing partitions; all others are void. The subscription of the owner is not checked."""
    newest: dict[TopicPartition, Member] = {}
    disputed: set[TopicPartition] = set()
    for member in members:
        for partition in existing(topics, member):
            rival = newest.get(partition)
            if rival is None or rival.generation < member.generation:
                newest[partition] = member
                disputed.discard(partition)
            elif rival.generation == member.generation:
                disputed.add(partition)
    valid: dict[str, list[TopicPartition]] = {member.id: [] for member in members}
    for partition, member in newest.items():
        if partition not in disputed:
            valid[member.id].append(partition)
    return Claims(valid, disputed)


def existing(topics: Topics, member: Member) -> list[TopicPartition]:
    """Return the partitions a member claims, without duplicates and without those that do not exist.

    A topic may have been deleted and created again with fewer partitions.
    """
    return [
        partition
        for partition in dict.fromkeys(member.owned)
        if partition.topic in topics and 0 <= partition.partition < topics[partition.topic].partitions
    ]

"""Cooperative sticky (KIP-429): the sticky outcome, less what its owner must revoke before another may have it."""

from collections.abc import Sequence

from kcli.assignors import sticky
from kcli.assignors.model import Assignment, Member, Topics


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """The assignment of this rebalance. What moves is given to nobody; its new owner gets it in the next rebalance."""
    owner = {partition: member.id for member in members for partition in member.owned}
    return {
        member: [partition for partition in partitions if owner.get(partition, member) == member]
        for member, partitions in sticky.assign(topics, members).items()
    }

"""Sticky: balance first, then as few partitions as possible change hands. Source: KIP-54, Kafka's StickyAssignor."""

from collections.abc import Sequence

from kcli.assignors import sticky_equal, sticky_unequal
from kcli.assignors.claims import Claims, settle
from kcli.assignors.model import Assignment, Member, Topics, subscribed


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """What Kafka's StickyAssignor answers, but for what it leaves to the order of a hash table.

    Members that want the same topics differ by at most one partition; others are as even as no single move could
    improve.
    """
    topics = subscribed(topics, members)
    return assign_settled(topics, members, settle(topics, members))


def assign_settled(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """The same for claims that are settled, among topics that are `subscribed`."""
    if not members:
        return {}
    if all(member.topics == members[0].topics for member in members):
        return sticky_equal.assign(topics, members, claims)
    return sticky_unequal.assign(topics, members, claims)

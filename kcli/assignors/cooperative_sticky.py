"""Cooperative sticky (KIP-429): the sticky outcome, less what its owner must revoke before another may have it."""

from collections.abc import Sequence

from kcli.assignors.claims import settle
from kcli.assignors.model import Assignment, Member, Topics, subscribed
from kcli.assignors.sticky import assign_settled


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """The assignment of this rebalance. What moves is given to nobody; its new owner gets it in the next rebalance.

    A partition that two members claim with equal right is withheld from both. Kafka's CooperativeStickyAssignor does
    so among equal subscriptions only; otherwise it lets whoever claims a partition have it at once, though another
    may still be reading it.

    Where racks count and subscriptions differ, some groups never come to rest: each rebalance moves what the one
    before has moved. Kafka's class does the same, and a leader of ours must not decide otherwise than one of theirs.
    """
    topics = subscribed(topics, members)
    claims = settle(topics, members)
    owners = claims.owners()
    return {
        member: [each for each in partitions if owners.get(each, member) == member and each not in claims.disputed]
        for member, partitions in assign_settled(topics, members, claims).items()
    }

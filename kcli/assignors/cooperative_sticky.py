"""Cooperative sticky (KIP-429): the sticky result without the partitions that their owner must revoke first."""

from collections.abc import Sequence

from kcli.assignors.claims import settle
from kcli.assignors.model import Assignment, Member, Topics, subscribed
from kcli.assignors.sticky import assign_settled


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the assignment of this rebalance. A partition that moves is unassigned until the next rebalance.

    A partition that two members claim with the same generation is withheld from both. Kafka's CooperativeStickyAssignor
    does so only with equal subscriptions; otherwise it assigns such a partition at once, although another member may
    still read it.

    Where racks matter and subscriptions differ, some groups never settle: each rebalance moves what the previous one
    has moved. Kafka's class does the same, and a leader must decide as a leader of Kafka's Java client does.
    """
    topics = subscribed(topics, members)
    claims = settle(topics, members)
    owners = claims.owners()
    return {
        member: [each for each in partitions if owners.get(each, member) == member and each not in claims.disputed]
        for member, partitions in assign_settled(topics, members, claims).items()
    }

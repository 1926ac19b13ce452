"""Sticky assignor (KIP-54): balance first, then as few moves as possible. Pure.

This module has the case of members with equal subscriptions; `sticky_unequal` has the general one. With equal
subscriptions each member gets `low` partitions, and some get one more. Members keep their partitions up to that number,
lowest partition numbers first. Free partitions then go first to members below `low`, in turn, and at last to as many
members at `low` as may have one more. Where racks matter, free partitions go first to members that have a replica in
their rack, scarce ones before others. Members are sorted by id. Source: Kafka's StickyAssignor and
AbstractStickyAssignor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from kcli.assignors import sticky_unequal
from kcli.assignors.claims import Claims, settle
from kcli.assignors.java_hashing import grown_table, hash_of_text, walk
from kcli.assignors.model import Assignment, Member, Topics, java_order, subscribed
from kcli.assignors.racks import RackMatch, rack_match
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the assignment of Kafka's StickyAssignor, except where that depends on the order of a hash table.

    Members with equal subscriptions differ by at most one partition. Otherwise no single move could improve the
    balance.
    """
    topics = subscribed(topics, members)
    return assign_settled(topics, members, settle(topics, members))


def assign_cooperatively(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the sticky assignment without the partitions that their owner must revoke first (KIP-429).

    A partition that moves is unassigned until the next rebalance.

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


def assign_settled(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """Return the assignment for settled claims and `subscribed` topics."""
    if not members:
        return {}
    if all(member.topics == members[0].topics for member in members):
        return _assign_equal(topics, members, claims)
    return sticky_unequal.assign(topics, members, claims)


def _assign_equal(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """Return the assignment of `topics`, to all of which all `members` (at least one) subscribe."""
    racks = rack_match(topics, members)
    shares = _Shares(sorted((member.id for member in members), key=java_order), topics, racks)
    shares.keep(claims)
    assigned = {partition for partitions in shares.assignment.values() for partition in partitions}
    all_partitions = (TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions))
    free = [partition for partition in all_partitions if partition not in assigned]
    if racks.members:
        free = shares.assign_within_racks(_scarce_first(free, racks))
    shares.assign_remaining(free)
    return shares.assignment


def _scarce_first(free: list[TopicPartition], racks: RackMatch) -> list[TopicPartition]:
    members = Counter(racks.members.values())
    return sorted(free, key=lambda partition: sum(members[rack] for rack in racks.racks_of(partition)))


class _Shares:
    """Shares being filled: `below` has members with less than `low`, `at_low` those that may get one more."""

    def __init__(self, members: list[str], topics: Topics, racks: RackMatch) -> None:
        self.members = members
        self.racks = racks
        # `extras` members may still get one partition more than `low`.
        self.low, self.extras = divmod(sum(topic.partitions for topic in topics.values()), len(members))
        self.assignment: Assignment = {member: [] for member in members}
        self.below = _Row(racks)
        self.at_low = _Row(racks)

    def keep(self, claims: Claims) -> None:
        """Let members keep their partitions, as far as their share and their rack allow.

        Of the members that own more than `low`, the first ones in Kafka's hash table of members keep one more.
        """
        high = self.low + (self.extras > 0)
        for member in walk(self.members, grown_table(len(self.members)), hash_of_text):
            claimed = [each for each in claims.valid[member] if self.racks.allows(member, each)]
            claimed.sort(key=lambda each: (each.partition, java_order(each.topic)))
            if len(claimed) >= high and self.extras:
                self.extras -= 1
                self.assignment[member] = claimed[:high]
            else:
                self.assignment[member] = claimed[: self.low]
        for member in self.members:
            if len(self.assignment[member]) < self.low:
                self.below.append(member)
            elif len(self.assignment[member]) == self.low:
                self.at_low.append(member)

    def assign_within_racks(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Assign to members in the partitions' racks; return the partitions that remain."""
        unassigned: list[TopicPartition] = []
        start = 0
        for partition in free:
            racks = self.racks.racks_of(partition)
            place = self.below.find(racks, start)
            if place is not None:
                start = self._fill(place, partition) % max(1, len(self.below.members))
            elif self.extras and (place := self.at_low.find(racks, 0)) is not None:
                self._add_extra(place, partition)
            else:
                unassigned.append(partition)
        return unassigned

    def assign_remaining(self, free: Iterable[TopicPartition]) -> None:
        """Assign each partition to the next member."""
        start = 0
        for partition in free:
            if self.below.members:
                start = self._fill(start % len(self.below.members), partition)
            else:
                self._add_extra(0, partition)

    def _fill(self, place: int, partition: TopicPartition) -> int:
        """Assign to a member below `low`; return the place of the next member."""
        member = self.below.members[place]
        self.assignment[member].append(partition)
        if len(self.assignment[member]) < self.low:
            return place + 1
        self.at_low.append(self.below.pop(place))
        return place

    def _add_extra(self, place: int, partition: TopicPartition) -> None:
        self.assignment[self.at_low.pop(place)].append(partition)
        self.extras -= 1


class _Row:
    """Members in order, with a count per rack that avoids useless searches."""

    def __init__(self, racks: RackMatch) -> None:
        self.members: list[str] = []
        self.racks = racks.members
        self.counts: Counter[str | None] = Counter()

    def append(self, member: str) -> None:
        self.members.append(member)
        self.counts[self.racks.get(member)] += 1

    def pop(self, place: int) -> str:
        member = self.members.pop(place)
        self.counts[self.racks.get(member)] -= 1
        return member

    def find(self, racks: frozenset[str], start: int) -> int | None:
        """Return the place of the first member in one of these racks, searching from `start` and then from the
        beginning.
        """
        if any(self.counts[rack] for rack in racks):
            for place in chain(range(start, len(self.members)), range(start)):
                if self.racks.get(self.members[place]) in racks:
                    return place
        return None

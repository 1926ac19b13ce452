"""Sticky assignment among members that all want the same topics. Pure.

Everybody gets `low` partitions and some one more. Members keep what they hold up to that, lowest partition numbers
first; what is free then goes first to those below `low`, in turn, and at last to as many at `low` as may have one more.
Where racks count, free partitions go first to members that have a replica in their rack, scarce ones before others.
Members stand in order of their ids. Source: Kafka's AbstractStickyAssignor, its way for equal subscriptions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from kcli.assignors.claims import Claims
from kcli.assignors.java_hashing import grown_table, hash_of_text, walk
from kcli.assignors.model import Assignment, Member, Topics, java_order
from kcli.assignors.racks import Nearness, nearness
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """The assignment of `topics`, which all `members` want (at least one of them)."""
    near = nearness(topics, members)
    shares = _Shares(sorted((member.id for member in members), key=java_order), topics, near)
    shares.keep(claims)
    kept = {partition for partitions in shares.assignment.values() for partition in partitions}
    everything = (TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions))
    free = [partition for partition in everything if partition not in kept]
    if near.members:
        free = shares.deal_near(_scarce_first(free, near))
    shares.deal(free)
    return shares.assignment


def _scarce_first(free: list[TopicPartition], near: Nearness) -> list[TopicPartition]:
    members = Counter(near.members.values())
    return sorted(free, key=lambda partition: sum(members[rack] for rack in near.racks_of(partition)))


class _Shares:
    """Shares being filled: `below` are members with less than `low`, `at_low` those who may get their last one."""

    def __init__(self, members: list[str], topics: Topics, near: Nearness) -> None:
        self.members = members
        self.near = near
        # So many members may get one more than `low`, and have not got it yet.
        self.low, self.extras = divmod(sum(topic.partitions for topic in topics.values()), len(members))
        self.assignment: Assignment = {member: [] for member in members}
        self.below = _Row(near)
        self.at_low = _Row(near)

    def keep(self, claims: Claims) -> None:
        """Let members have what they hold, as far as their share and their rack allow.

        Of those that hold more than `low` the first ones in Kafka's hash table of members keep one more.
        """
        high = self.low + (self.extras > 0)
        for member in walk(self.members, grown_table(len(self.members)), hash_of_text):
            held = [each for each in claims.held[member] if self.near.allows(member, each)]
            held.sort(key=lambda each: (each.partition, java_order(each.topic)))
            if len(held) >= high and self.extras:
                self.extras -= 1
                self.assignment[member] = held[:high]
            else:
                self.assignment[member] = held[: self.low]
        for member in self.members:
            if len(self.assignment[member]) < self.low:
                self.below.append(member)
            elif len(self.assignment[member]) == self.low:
                self.at_low.append(member)

    def deal_near(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Deal to members of the partitions' racks; returns what has found nobody."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in free:
            racks = self.near.racks_of(partition)
            place = self.below.find(racks, turn)
            if place is not None:
                turn = self._raise(place, partition) % max(1, len(self.below.members))
            elif self.extras and (place := self.at_low.find(racks, 0)) is not None:
                self._top_up(place, partition)
            else:
                left.append(partition)
        return left

    def deal(self, free: Iterable[TopicPartition]) -> None:
        """Deal to whoever is next."""
        turn = 0
        for partition in free:
            if self.below.members:
                turn = self._raise(turn % len(self.below.members), partition)
            else:
                self._top_up(0, partition)

    def _raise(self, place: int, partition: TopicPartition) -> int:
        """Give to a member below `low`; returns the place of the one behind it."""
        member = self.below.members[place]
        self.assignment[member].append(partition)
        if len(self.assignment[member]) < self.low:
            return place + 1
        self.at_low.append(self.below.pop(place))
        return place

    def _top_up(self, place: int, partition: TopicPartition) -> None:
        self.assignment[self.at_low.pop(place)].append(partition)
        self.extras -= 1


class _Row:
    """Members in a row, with a count by rack that spares looking for what is not there."""

    def __init__(self, near: Nearness) -> None:
        self.members: list[str] = []
        self.racks = near.members
        self.counts: Counter[str | None] = Counter()

    def append(self, member: str) -> None:
        self.members.append(member)
        self.counts[self.racks.get(member)] += 1

    def pop(self, place: int) -> str:
        member = self.members.pop(place)
        self.counts[self.racks.get(member)] -= 1
        return member

    def find(self, racks: frozenset[str], start: int) -> int | None:
        """The place of the first member in one of these racks, from `start` on and then from the beginning."""
        if any(self.counts[rack] for rack in racks):
            for place in chain(range(start, len(self.members)), range(start)):
                if self.racks.get(self.members[place]) in racks:
                    return place
        return None

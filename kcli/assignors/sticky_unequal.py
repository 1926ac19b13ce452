"""Sticky assignment for members with different subscriptions. Pure.

Members keep their partitions. Free partitions are assigned, topics with the fewest subscribers first, always to the
subscriber with the fewest partitions. Then partitions move one by one from a member to a subscriber that has at least
two less, until no such move is left: first the newly assigned ones, whose move interrupts nobody, then all. A partition
that a member owned before a newer claim took it goes back to that member if possible. Where racks matter, members keep
and get first the partitions with a replica in their rack; balance comes before racks. Source: Kafka's
AbstractStickyAssignor, its general algorithm.

Each such move reduces the sum of squared sizes, so the loop ends. A reverse move (`Moves.reverse_move`) may not reduce
it, and Kafka's own class could loop without end. Here the number of such moves is bounded by the number of partitions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

from kcli.assignors.claims import Claims, existing
from kcli.assignors.model import Assignment, Member, Topics, java_order, subscribers
from kcli.assignors.racks import RackMatch, rack_match
from kcli.structs import TopicPartition

_by_topic = attrgetter("topic")


def assign(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """Return the assignment of `topics`, each of which has at least one subscriber."""
    balance = _Balance(topics, members)
    racks = rack_match(topics, members)
    all_kept = balance.keep(claims, racks)
    partitions = balance.ordered_partitions()
    free = [partition for partition in partitions if partition not in balance.owner]
    balance.assign_free(balance.assign_free(free, racks) if racks.members else free, None)
    former_owners = balance.former_owners(topics)
    if all_kept:
        balance.even_out(free, former_owners)
    balance.even_out(partitions, former_owners)
    return balance.assignment()


class _Balance:
    """An assignment in progress. Members are numbered in the order of their ids."""

    def __init__(self, topics: Topics, members: Sequence[Member]) -> None:
        self.topics = topics
        self.members = sorted(members, key=lambda member: java_order(member.id))
        self.sizes = Sizes(len(members))
        self.owner: dict[TopicPartition, int] = {}
        self.subscribers = subscribers(topics, self.members)
        self.subsets = {topic: Subset(numbers, self.sizes) for topic, numbers in self.subscribers.items()}
        self.previous_owners: dict[TopicPartition, int] = {}
        self.moves = Moves(self.previous_owners)
        self.extra_moves = sum(topic.partitions for topic in topics.values())

    def __repr__(self) -> str:
        return f"<_Balance {len(self.owner)} partitions, {len(self.members)} members>"

    def ordered_partitions(self) -> list[TopicPartition]:
        """Return all partitions, those of topics with the fewest subscribers first."""
        order = sorted(self.topics, key=lambda topic: (len(self.subscribers[topic]), java_order(topic)))
        return [TopicPartition(topic, p) for topic in order for p in range(self.topics[topic].partitions)]

    def keep(self, claims: Claims, racks: RackMatch) -> bool:
        """Let members keep the partitions that they own and subscribe to; return whether they keep all of them."""
        all_kept = True
        for number, member in enumerate(self.members):
            for partition in claims.valid[member.id]:
                self.previous_owners[partition] = number
                if partition.topic in member.topics and racks.allows(member.id, partition):
                    self._assign(partition, number)
                else:
                    all_kept = False
        return all_kept

    def assign_free(self, free: Iterable[TopicPartition], racks: RackMatch | None) -> list[TopicPartition]:
        """Assign each partition to its smallest subscriber, of those that `racks` allows; return the unassigned
        partitions.
        """
        unassigned: list[TopicPartition] = []
        for topic, partitions in groupby(free, _by_topic):
            candidates = self._candidates(topic, racks)
            for partition in partitions:
                allowed = (None, *racks.racks_of(partition)) if racks else (None,)
                smallest = [candidate.first() for rack in allowed if (candidate := candidates.get(rack))]
                if smallest:
                    self._assign(partition, min(smallest, key=self.sizes.keys.__getitem__))
                else:
                    unassigned.append(partition)
        return unassigned

    def _candidates(self, topic: str, racks: RackMatch | None) -> dict[str | None, SmallestFirst]:
        """Return the subscribers of a topic by rack; None: those that match every rack."""
        if racks is None:
            return {None: SmallestFirst(self.subsets[topic])}
        by_rack: dict[str | None, list[int]] = {}
        for number in self.subscribers[topic]:
            by_rack.setdefault(racks.members.get(self.members[number].id), []).append(number)
        return {rack: SmallestFirst(Subset(numbers, self.sizes)) for rack, numbers in by_rack.items()}

    def former_owners(self, topics: Topics) -> dict[TopicPartition, int]:
        """Return the member with the newest outdated claim to each partition, if it still subscribes to the topic."""
        newest = max(member.generation for member in self.members)
        result: dict[TopicPartition, int] = {}
        for number, member in enumerate(self.members):
            if member.generation < newest:
                for partition in existing(topics, member):
                    rival = result.get(partition)
                    if rival is None or self.members[rival].generation < member.generation:
                        result[partition] = number
        return {each: number for each, number in result.items() if each.topic in self.members[number].topics}

    def even_out(self, partitions: Sequence[TopicPartition], former_owners: dict[TopicPartition, int]) -> None:
        """Move partitions repeatedly, until none of these can go to a member with at least two less."""
        by_topic = [(topic, list(of_topic)) for topic, of_topic in groupby(partitions, _by_topic)]
        moved = True
        while moved:
            moved = False
            for topic, of_topic in by_topic:
                largest = max(self.sizes.keys[self.owner[partition]] for partition in of_topic)
                if self.sizes[self.sizes.number(largest)] >= self.subsets[topic].fewest() + 2:
                    moved |= self._even_out_topic(of_topic, SmallestFirst(self.subsets[topic]), former_owners)

    def _even_out_topic(
        self, partitions: Iterable[TopicPartition], smallest: SmallestFirst, former_owners: dict[TopicPartition, int]
    ) -> bool:
        moved = False
        for partition in partitions:
            largest = self.sizes[self.owner[partition]] - 2
            former_owner = former_owners.get(partition)
            if former_owner is not None and self.sizes[former_owner] <= largest:
                target = former_owner
            elif self.sizes[smallest.first()] <= largest:
                target = smallest.first()
            else:
                continue
            for changed in self._move(partition, target):
                smallest.changed(changed)
            moved = True
        return moved

    def _move(self, partition: TopicPartition, target: int) -> tuple[int, int]:
        """Move this partition, or the reverse move of another one; return the two members whose size changes."""
        reverse = self.moves.reverse_move(partition, self.owner[partition], target)
        if reverse is not None:
            improves = self.sizes[self.owner[reverse]] >= self.sizes[target] + 2
            if improves or self.extra_moves:
                partition = reverse
                self.extra_moves -= not improves
        source = self.owner[partition]
        self.moves.record(partition, source, target)
        self.sizes.add(source, -1)
        self._assign(partition, target)
        return source, target

    def _assign(self, partition: TopicPartition, number: int) -> None:
        self.owner[partition] = number
        self.sizes.add(number, 1)

    def assignment(self) -> Assignment:
        """Return the assignment; each member's partitions are sorted."""
        result: Assignment = {member.id: [] for member in self.members}
        for partition in sorted(self.owner):
            result[self.members[self.owner[partition]].id].append(partition)
        return result


class Moves:
    """Moves made while an assignment is balanced, so that no two partitions of a topic are exchanged.

    A move is (first source, last target). `previous_owners` are the members that owned partitions before: of several
    possible reverse moves, one that returns a partition to its previous owner is preferred.
    """

    def __init__(self, previous_owners: Mapping[TopicPartition, int]) -> None:
        self._previous_owners = previous_owners
        self._by_partition: dict[TopicPartition, tuple[int, int]] = {}
        self._by_move: dict[tuple[str, int, int], set[TopicPartition]] = {}

    def reverse_move(self, partition: TopicPartition, source: int, target: int) -> TopicPartition | None:
        """Return a partition of the same topic that has moved in the other direction: it can go back instead."""
        first, _ = self._by_partition.get(partition, (source, target))
        reverse_moves = self._by_move.get((partition.topic, target, first))
        return (
            min(reverse_moves, key=lambda each: (self._previous_owners.get(each) != target, each))
            if reverse_moves
            else None
        )

    def record(self, partition: TopicPartition, source: int, target: int) -> None:
        """Record a move. Of several moves of a partition the first source and the last target count."""
        first, last = self._by_partition.pop(partition, (source, None))
        if last is not None:
            self._by_move[partition.topic, first, last].discard(partition)
        if first != target:
            self._by_partition[partition] = first, target
            self._by_move.setdefault((partition.topic, first, target), set()).add(partition)


class Sizes:
    """The number of partitions of each member, as one integer that sorts by size and then by member number."""

    def __init__(self, members: int) -> None:
        self._members = members
        self.keys = list(range(members))

    def __getitem__(self, number: int) -> int:
        return self.keys[number] // self._members

    def add(self, number: int, partitions: int) -> None:
        """Add to the number of partitions of a member."""
        self.keys[number] += partitions * self._members

    def number(self, key: int) -> int:
        """Return the member number of a key."""
        return key % self._members


class Subset:
    """At least one of the members."""

    def __init__(self, numbers: Sequence[int], sizes: Sizes) -> None:
        self.sizes = sizes
        first, *others = numbers
        # One call into C reads all keys: there may be millions of them.
        self._keys: Callable[[list[int]], tuple[int, ...]] | None = itemgetter(first, *others) if others else None
        self._single = first

    def keys(self) -> tuple[int, ...]:
        """Return the current keys of these members."""
        return self._keys(self.sizes.keys) if self._keys else (self.sizes.keys[self._single],)

    def fewest(self) -> int:
        """Return the size of the smallest member."""
        return self.sizes[self.sizes.number(min(self.keys()))]


class SmallestFirst:
    """A queue of members, smallest first. It notices growth itself; `changed` reports a member that shrinks."""

    def __init__(self, members: Subset) -> None:
        self._sizes = members.sizes
        self._heap = list(members.keys())
        heapq.heapify(self._heap)

    def first(self) -> int:
        """Return the member with the fewest partitions, of several the first by number."""
        while True:
            number = self._sizes.number(self._heap[0])
            now = self._sizes.keys[number]
            if self._heap[0] == now:
                return number
            heapq.heapreplace(self._heap, now)

    def changed(self, number: int) -> None:
        """Report that the size of a member has changed."""
        heapq.heappush(self._heap, self._sizes.keys[number])

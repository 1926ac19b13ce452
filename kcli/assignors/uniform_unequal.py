"""Uniform assignment for members with different subscriptions. Pure.

Members keep their previous partitions of topics to which they still subscribe. Free partitions are assigned topic by
topic, those with the most partitions per subscriber first, always to the subscriber with the fewest partitions. Then,
in the same order and repeatedly, partitions of a topic move from its largest subscribers to its smallest, until these
differ by at most one or have no more partitions of that topic.

It stops after a pass without a move, or after sixteen passes. So with overlapping subscriptions a chain of moves may
remain that would improve the balance. Kafka does the same to limit the time. Source: Kafka's
UniformHeterogeneousAssignmentBuilder of 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcli.assignors.claims import Claims
from kcli.assignors.model import Assignment, Member, Topics, subscribers
from kcli.assignors.server_order import order_of_topics, walk_members
from kcli.structs import TopicPartition

MAX_PASSES = 16


def assign(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """Return the assignment of `topics`, each of which has at least one subscriber."""
    balance = _Balance(topics, walk_members(members), claims)
    balance.assign_free()
    balance.even_out()
    return balance.assignment()


class _Balance:
    """An assignment in progress. Members are numbered in the coordinator's order."""

    def __init__(self, topics: Topics, members: Sequence[Member], claims: Claims) -> None:
        self.members = members
        self.subscribers = subscribers(topics, members)
        self.owners: dict[str, list[int | None]] = {name: [None] * topic.partitions for name, topic in topics.items()}
        self.sizes = [0] * len(members)
        for number, member in enumerate(members):
            for topic, p in claims.valid[member.id]:
                if topic in member.topics:
                    self.owners[topic][p] = number
                    self.sizes[number] += 1
        by_id = order_of_topics(topics)

        def fullest_first(name: str) -> tuple[object, ...]:
            count = len(self.subscribers[name])
            return -topics[name].partitions / count, count, by_id(name)

        self.topics = sorted(topics, key=fullest_first)

    def __repr__(self) -> str:
        return f"<_Balance {len(self.topics)} topics, {len(self.members)} members>"

    def assign_free(self) -> None:
        """Assign each free partition to the smallest subscriber."""
        for topic in self.topics:
            owners = self.owners[topic]
            if None not in owners:
                continue
            levels = Levels(self.subscribers[topic], self.sizes)
            for p, owner in enumerate(owners):
                if owner is None:
                    owners[p] = target = levels.next_smallest()
                    self.sizes[target] += 1

    def even_out(self) -> None:
        """Move partitions until no topic has changed since the last one that did."""
        shared = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        last: str | None = None
        for _ in range(MAX_PASSES):
            for topic in shared:
                if topic == last:
                    return
                moved = self._even_out_topic(topic)
                if moved or last is None:
                    last = topic

    def _even_out_topic(self, topic: str) -> bool:
        sizes = [self.sizes[number] for number in self.subscribers[topic]]
        if max(sizes) - min(sizes) <= 1:
            return False
        owners = self.owners[topic]
        by_owner: dict[int, list[int]] = {}
        for p, owner in enumerate(owners):
            assert owner is not None
            by_owner.setdefault(owner, []).append(p)
        levels = Levels(self.subscribers[topic], self.sizes)
        moved = False
        while (source := levels.next_largest(lambda number: bool(by_owner.get(number)))) is not None:
            p = by_owner[source].pop()
            target = levels.next_smallest()
            if levels.even():
                break
            owners[p] = target
            self.sizes[source] -= 1
            self.sizes[target] += 1
            moved = True
        return moved

    def assignment(self) -> Assignment:
        """Return the assignment."""
        result: Assignment = {member.id: [] for member in self.members}
        for topic, owners in self.owners.items():
            for p, owner in enumerate(owners):
                assert owner is not None
                result[self.members[owner].id].append(TopicPartition(topic, p))
        return result


class Levels:
    """Subscribers of one topic as two levels: the smallest being filled, and the largest being emptied.

    The members are sorted by their number of partitions. From the left, each member on the lowest level gets one; then
    all of these have one more, and the members that already had that many join them. From the right, the same
    downwards. Once the levels differ by at most one, no move improves the balance. `sizes` (the partitions of each
    member, of all topics) belongs to the caller, who changes it after each answer; the levels only read it at their
    borders.
    """

    def __init__(self, numbers: Sequence[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._row = sorted(numbers, key=sizes.__getitem__)
        self._low, self._low_end, self._next_low = sizes[self._row[0]] - 1, 0, 0
        # The large members are in `_row` from `_high_start` up to `_high_end`; after it are those that cannot give any.
        self._high, self._high_start, self._high_end = sizes[self._row[-1]] + 1, len(self._row), len(self._row)
        self._next_high = self._high_start - 1

    def __repr__(self) -> str:
        return f"<Levels {len(self._row)} members, low={self._low} high={self._high}>"

    def even(self) -> bool:
        """Return whether the levels, after the last answers, differ by at most one."""
        return self._high - self._low <= 1

    def next_smallest(self) -> int:
        """Return the member that gets the next partition."""
        if self._next_low >= self._low_end:
            self._low += 1
            while self._low_end < len(self._row) and self._sizes[self._row[self._low_end]] == self._low:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._row[self._next_low - 1]

    def next_largest(self, can_give: Callable[[int], bool]) -> int | None:
        """Return the member that gives the next partition; None if no member can. A member that cannot is not asked
        again.
        """
        while (place := self._next_large_place()) is not None:
            number = self._row[place]
            if can_give(number):
                return number
            self._high_end -= 1
            self._row[place], self._row[self._high_end] = self._row[self._high_end], number
        return None

    def _next_large_place(self) -> int | None:
        if self._next_high < self._high_start:
            self._lower_high_level()
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._next_high + 1

    def _lower_high_level(self) -> None:
        """Start the next level after all large members have given one; members with that size join them."""
        if self._high_end <= self._high_start and self._high_start > 0:  # nobody of them could give: the next ones
            self._high = self._sizes[self._row[self._high_start - 1]]
        else:
            self._high -= 1
        while self._high_start > 0 and self._sizes[self._row[self._high_start - 1]] == self._high:
            self._high_start -= 1
        self._next_high = self._high_end - 1

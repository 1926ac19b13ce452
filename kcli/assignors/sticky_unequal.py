"""Sticky assignment among members that want different topics. Pure.

Members keep what they hold. What is free goes, topics with the fewest subscribers first, always to the subscriber with
the fewest partitions. Then partitions move one by one from a member to a subscriber that has at least two less, until
no such move is left: those dealt just now first, which costs nobody anything, then all. A partition that a member held
before a newer claim took it goes back to that member if it can. Where racks count, members keep and get first what has
a replica in their rack; balance comes before racks. Source: Kafka's AbstractStickyAssignor, its general way.

Each such move makes the sum of squared sizes smaller, so there is an end to them. A move made in another's stead may
not, and Kafka's own class could go round in circles; here only so many of them are made as there are partitions.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from kcli.assignors.claims import Claims, existing
from kcli.assignors.model import Assignment, Member, Topics, java_order, subscribers
from kcli.assignors.moves import Moves
from kcli.assignors.poorest import Poorest, Sizes, Some
from kcli.assignors.racks import Nearness, nearness
from kcli.structs import TopicPartition

_by_topic = attrgetter("topic")


def assign(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """The assignment of `topics`, each of which at least one member wants."""
    balance = _Balance(topics, members)
    near = nearness(topics, members)
    all_kept = balance.keep(claims, near)
    partitions = balance.in_order()
    free = [partition for partition in partitions if partition not in balance.owner]
    balance.deal(balance.deal(free, near) if near.members else free, None)
    formers = balance.formers(topics)
    if all_kept:
        balance.even_out(free, formers)
    balance.even_out(partitions, formers)
    return balance.assignment()


class _Balance:
    """An assignment in the making. Members are numbered in the order of their ids."""

    def __init__(self, topics: Topics, members: Sequence[Member]) -> None:
        self.topics = topics
        self.members = sorted(members, key=lambda member: java_order(member.id))
        self.sizes = Sizes(len(members))
        self.owner: dict[TopicPartition, int] = {}
        self.subscribers = subscribers(topics, self.members)
        self.some = {topic: Some(numbers, self.sizes) for topic, numbers in self.subscribers.items()}
        self.homes: dict[TopicPartition, int] = {}
        self.moves = Moves(self.homes)
        self.patience = sum(topic.partitions for topic in topics.values())

    def __repr__(self) -> str:
        return f"<_Balance {len(self.owner)} partitions, {len(self.members)} members>"

    def in_order(self) -> list[TopicPartition]:
        """All partitions, those of topics with the fewest subscribers first."""
        order = sorted(self.topics, key=lambda topic: (len(self.subscribers[topic]), java_order(topic)))
        return [TopicPartition(topic, p) for topic in order for p in range(self.topics[topic].partitions)]

    def keep(self, claims: Claims, near: Nearness) -> bool:
        """Let members have what they hold, want and may have; whether that is all that they hold."""
        all_kept = True
        for number, member in enumerate(self.members):
            for partition in claims.held[member.id]:
                self.homes[partition] = number
                if partition.topic in member.topics and near.allows(member.id, partition):
                    self._give(partition, number)
                else:
                    all_kept = False
        return all_kept

    def deal(self, free: Iterable[TopicPartition], near: Nearness | None) -> list[TopicPartition]:
        """Give each to its poorest subscriber, with `near` among those it allows; returns what nobody may have."""
        left: list[TopicPartition] = []
        for topic, partitions in groupby(free, _by_topic):
            rows = self._rows(topic, near)
            for partition in partitions:
                racks = (None, *near.racks_of(partition)) if near else (None,)
                able = [row.first() for rack in racks if (row := rows.get(rack))]
                if able:
                    self._give(partition, min(able, key=self.sizes.keys.__getitem__))
                else:
                    left.append(partition)
        return left

    def _rows(self, topic: str, near: Nearness | None) -> dict[str | None, Poorest]:
        """The subscribers of a topic by rack; None: those that are at home everywhere."""
        if near is None:
            return {None: Poorest(self.some[topic])}
        racks: dict[str | None, list[int]] = {}
        for number in self.subscribers[topic]:
            racks.setdefault(near.members.get(self.members[number].id), []).append(number)
        return {rack: Poorest(Some(numbers, self.sizes)) for rack, numbers in racks.items()}

    def formers(self, topics: Topics) -> dict[TopicPartition, int]:
        """Who has the newest claim to a partition of those older than the newest generation, and still wants it."""
        newest = max(member.generation for member in self.members)
        found: dict[TopicPartition, int] = {}
        for number, member in enumerate(self.members):
            if member.generation < newest:
                for partition in existing(topics, member):
                    rival = found.get(partition)
                    if rival is None or self.members[rival].generation < member.generation:
                        found[partition] = number
        return {each: number for each, number in found.items() if each.topic in self.members[number].topics}

    def even_out(self, partitions: Sequence[TopicPartition], formers: dict[TopicPartition, int]) -> None:
        """Move partitions, over and over, until none of these can go to somebody with at least two less."""
        by_topic = [(topic, list(those)) for topic, those in groupby(partitions, _by_topic)]
        moved = True
        while moved:
            moved = False
            for topic, those in by_topic:
                most = max(self.sizes.keys[self.owner[partition]] for partition in those)
                if self.sizes[self.sizes.number(most)] >= self.some[topic].fewest() + 2:
                    moved |= self._even_out_topic(those, Poorest(self.some[topic]), formers)

    def _even_out_topic(
        self, partitions: Iterable[TopicPartition], poorest: Poorest, formers: dict[TopicPartition, int]
    ) -> bool:
        moved = False
        for partition in partitions:
            most = self.sizes[self.owner[partition]] - 2
            former = formers.get(partition)
            if former is not None and self.sizes[former] <= most:
                taker = former
            elif self.sizes[poorest.first()] <= most:
                taker = poorest.first()
            else:
                continue
            for changed in self._move(partition, taker):
                poorest.changed(changed)
            moved = True
        return moved

    def _move(self, partition: TopicPartition, taker: int) -> tuple[int, int]:
        """Move this partition, or one in its stead that goes back to where it was; tells who has changed size."""
        stead = self.moves.instead(partition, self.owner[partition], taker)
        if stead is not None:
            evens_out = self.sizes[self.owner[stead]] >= self.sizes[taker] + 2
            if evens_out or self.patience:
                partition = stead
                self.patience -= not evens_out
        giver = self.owner[partition]
        self.moves.note(partition, giver, taker)
        self.sizes.add(giver, -1)
        self._give(partition, taker)
        return giver, taker

    def _give(self, partition: TopicPartition, number: int) -> None:
        self.owner[partition] = number
        self.sizes.add(number, 1)

    def assignment(self) -> Assignment:
        """The outcome, each member's partitions sorted."""
        found: Assignment = {member.id: [] for member in self.members}
        for partition in sorted(self.owner):
            found[self.members[self.owner[partition]].id].append(partition)
        return found

"""The offsets that __consumer_offsets amounts to: its records applied one after another. Pure: no I/O, no clock.

Offsets committed inside a transaction (KIP-98) wait under their producer until its marker tells what becomes of
them. This broker runs no transactions yet, but a real Kafka's directory may hold some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from kcli.broker.group.expiry import CommittedOffset
from kcli.structs import TopicPartition

# The number of the log and the producer's id: a marker in one log ends what the producer wrote there, nothing else.
Producer: TypeAlias = tuple[int, int]
Offsets: TypeAlias = dict[TopicPartition, CommittedOffset]
_NOTHING: Mapping[TopicPartition, CommittedOffset] = MappingProxyType({})


class OffsetCache:
    """Committed offsets by group and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, Offsets] = {}
        # By producer, then group and partition: the place of the record in its log, and the offset.
        self._pending: dict[Producer, dict[tuple[str, TopicPartition], tuple[int, CommittedOffset]]] = {}
        # Where the newest record of an offset lies, kept only for as long as a transaction is open.
        self._places: dict[tuple[str, TopicPartition], int] = {}

    def __repr__(self) -> str:
        count = sum(map(len, self._groups.values()))
        return f"<OffsetCache {count} offsets of {len(self._groups)} groups, {len(self._pending)} open transactions>"

    def groups(self) -> Iterator[str]:
        """The groups that have offsets, those only committed in an open transaction included."""
        yield from self._groups
        waiting = {group for pending in self._pending.values() for group, _ in pending}
        yield from sorted(waiting - self._groups.keys())

    def of_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All of a group's offsets; empty for an unknown group."""
        return self._groups.get(group, _NOTHING)

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction holds an offset for this partition."""
        return any((group, partition) in pending for pending in self._pending.values())

    def has_open_transaction(self, group: str) -> bool:
        """Whether an open transaction holds an offset of the group."""
        return any(group == other for pending in self._pending.values() for other, _ in pending)

    def put(self, group: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]) -> None:
        """Offsets that were committed outside of transactions."""
        self._groups.setdefault(group, {}).update(offsets)

    def replay(
        self,
        place: int,
        producer: Producer | None,
        group: str,
        partition: TopicPartition,
        committed: CommittedOffset | None,
    ) -> None:
        """A record of a log: its place there, its producer if it is part of a transaction, and the offset or None."""
        if committed is None:
            self.remove(group, [partition])
        elif producer is not None:
            self._pending.setdefault(producer, {})[group, partition] = place, committed
        else:
            self._groups.setdefault(group, {})[partition] = committed
            if self._pending:
                self._places[group, partition] = place

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        """A transaction's marker: what it committed counts, unless a later record already said otherwise."""
        for (group, partition), (place, offset) in self._pending.pop(producer, {}).items():
            if committed and place > self._places.get((group, partition), -1):
                self._groups.setdefault(group, {})[partition] = offset
                if self._pending:
                    self._places[group, partition] = place
        if not self._pending:
            self._places.clear()

    def remove(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget offsets, those of open transactions too."""
        offsets = self._groups.get(group, {})
        for partition in partitions:
            offsets.pop(partition, None)
            for pending in self._pending.values():
                pending.pop((group, partition), None)
        if not offsets:
            self._groups.pop(group, None)

    def partitions_to_forget(self, group: str) -> list[TopicPartition]:
        """All partitions for which the group has an offset, in or outside of transactions."""
        found = dict.fromkeys(self.of_group(group))
        for pending in self._pending.values():
            found.update((partition, None) for other, partition in pending if other == group)
        return list(found)

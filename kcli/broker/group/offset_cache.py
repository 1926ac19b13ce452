"""Committed offsets of all groups in memory, by group and partition. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from kcli.broker.group.expiry import CommittedOffset
from kcli.structs import TopicPartition

_NO_OFFSETS: Mapping[TopicPartition, CommittedOffset] = MappingProxyType({})


class OffsetCache:
    """Committed offsets, and the partitions whose offset an open transaction may still commit ("unstable")."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._unstable: dict[str, set[TopicPartition]] = {}

    def __repr__(self) -> str:
        return f"<OffsetCache {sum(map(len, self._groups.values()))} offsets of {len(self._groups)} groups>"

    def groups(self) -> Iterator[str]:
        """Yield the groups with offsets, including those with offsets of open transactions only."""
        yield from {**self._groups, **self._unstable}

    def of_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group; empty for an unknown group."""
        return self._groups.get(group, _NO_OFFSETS)

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """Return whether an open transaction has an offset for this partition."""
        return partition in self._unstable.get(group, ())

    def has_open_transaction(self, group: str) -> bool:
        """Return whether an open transaction has an offset of the group."""
        return group in self._unstable

    def put(self, group: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]) -> None:
        """Store offsets that were committed without a transaction, or by one that has ended."""
        self._groups.setdefault(group, {}).update(offsets)

    def mark_unstable(self, group: str, partition: TopicPartition) -> None:
        """Record that an open transaction has an offset for this partition."""
        self._unstable.setdefault(group, set()).add(partition)

    def remove(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove offsets, including those of open transactions."""
        offsets, unstable = self._groups.get(group, {}), self._unstable.get(group, set())
        for partition in partitions:
            offsets.pop(partition, None)
            unstable.discard(partition)
        if not offsets:
            self._groups.pop(group, None)
        if not unstable:
            self._unstable.pop(group, None)

    def partitions_of(self, group: str) -> list[TopicPartition]:
        """Return all partitions with an offset of the group, in or outside of transactions."""
        return list(dict.fromkeys([*self.of_group(group), *self._unstable.get(group, ())]))

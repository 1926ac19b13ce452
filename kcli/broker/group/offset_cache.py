"""Committed offsets of all groups in memory, by group and partition, and those of open transactions. Pure.

An offset that a transaction commits is pending until the transaction ends in the partition of `__consumer_offsets` that
the group belongs to (KIP-98, KIP-447). The latest record in the log wins: an ended transaction does not replace an
offset that was stored after its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from kcli.broker.group.expiry import CommittedOffset
from kcli.structs import TopicPartition

_NO_OFFSETS: Mapping[TopicPartition, CommittedOffset] = MappingProxyType({})

#: Partition of `__consumer_offsets`, and producer id.
Producer: TypeAlias = tuple[int, int]
_Pending: TypeAlias = "dict[tuple[str, TopicPartition], CommittedOffset | None]"


class OffsetCache:
    """Committed offsets, and pending offsets of the open transactions.

    A partition with a pending offset is unstable: an open transaction may still change its committed offset.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        # The value None: an offset that was stored later has replaced it, but the partition remains unstable.
        self._pending: dict[Producer, _Pending] = {}
        # The transactions by partition, in the order of their last records.
        self._open: dict[str, dict[TopicPartition, dict[Producer, None]]] = {}

    def __repr__(self) -> str:
        count = sum(map(len, self._groups.values()))
        return f"<OffsetCache {count} offsets of {len(self._groups)} groups, {len(self._pending)} transactions>"

    def groups(self) -> Iterator[str]:
        """Yield the groups with offsets, including those with pending offsets only."""
        yield from {**self._groups, **self._open}

    def of_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group; empty for an unknown group."""
        return self._groups.get(group, _NO_OFFSETS)

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """Return whether an open transaction has an offset for this partition."""
        return partition in self._open.get(group, ())

    def has_open_transaction(self, group: str) -> bool:
        """Return whether an open transaction has an offset of the group."""
        return group in self._open

    def put(self, group: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]) -> None:
        """Store offsets that were committed without a transaction. They replace the pending ones."""
        committed = self._groups.setdefault(group, {})
        open_transactions = self._open.get(group)
        for partition, offset in offsets:
            committed[partition] = offset
            if open_transactions:
                for producer in open_transactions.get(partition, ()):
                    self._pending[producer][group, partition] = None

    def put_pending(
        self, producer: Producer, group: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset | None]]
    ) -> None:
        """Store offsets of an open transaction; None: a later record has replaced this one already."""
        pending = self._pending.setdefault(producer, {})
        open_transactions = self._open.setdefault(group, {})
        for partition, offset in offsets:
            pending[group, partition] = offset
            producers = open_transactions.setdefault(partition, {})
            producers.pop(producer, None)
            producers[producer] = None

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        """Store the pending offsets of a committed transaction, or drop those of an aborted one."""
        for (group, partition), offset in self._pending.pop(producer, {}).items():
            if is_commit and offset is not None:
                self._groups.setdefault(group, {})[partition] = offset
                for other in self._open[group][partition]:
                    if other == producer:
                        break
                    self._pending[other][group, partition] = None
            self._close(group, partition, producer)

    def remove(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove offsets, including pending ones."""
        offsets, open_transactions = self._groups.get(group, {}), self._open.get(group, {})
        for partition in partitions:
            offsets.pop(partition, None)
            for producer in list(open_transactions.get(partition, ())):
                pending = self._pending[producer]
                del pending[group, partition]
                if not pending:
                    del self._pending[producer]
                self._close(group, partition, producer)
        if not offsets:
            self._groups.pop(group, None)

    def partitions_of(self, group: str) -> list[TopicPartition]:
        """Return all partitions with an offset of the group, in or outside of transactions."""
        return list(dict.fromkeys([*self.of_group(group), *self._open.get(group, ())]))

    def _close(self, group: str, partition: TopicPartition, producer: Producer) -> None:
        """Remove a transaction of a partition, and what is empty then."""
        by_partition = self._open[group]
        del by_partition[partition][producer]
        if not by_partition[partition]:
            del by_partition[partition]
        if not by_partition:
            del self._open[group]

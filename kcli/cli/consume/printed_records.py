"""The records that a read has printed: their numbers and rates, and the limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.cli.output.table import plain_table

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


class Limits(NamedTuple):
    """Early ends of a read: the number of printed records, and the time without progress. None: no limit."""

    max_records: int | None = None
    idle_ms: float | None = None

    def is_reached(self, records: int) -> bool:
        """True if this number of printed records is the limit."""
        return self.max_records is not None and records >= self.max_records


UNLIMITED = Limits()


class Count(NamedTuple):
    """A number of records, and the bytes of their keys and values."""

    records: int = 0
    bytes: int = 0

    def plus(self, other: Count) -> Count:
        return Count(self.records + other.records, self.bytes + other.bytes)


class PrintedRecords:
    """The number of printed records by partition, in the order in which partitions first occurred.

    `first_unprinted` has the offset of the first matching record that was received and not printed, by partition.
    """

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self.counts: dict[TopicPartition, Count] = {tp: Count() for tp in partitions}
        self.total = Count()
        self.first_unprinted: dict[TopicPartition, int] = {}

    def add(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Count printed records."""
        if columns.partitions is None:
            self._add(tp, Count(len(columns), columns.payload_bytes))
            return
        import numpy as np

        records = np.bincount(columns.partitions)
        sizes = columns.key_lengths.clip(min=0) + columns.value_lengths.clip(min=0)
        totals = np.bincount(columns.partitions, weights=sizes)
        for number in np.flatnonzero(records).tolist():
            self._add(tp._replace(partition=number), Count(int(records[number]), int(totals[number])))

    def _add(self, tp: TopicPartition, count: Count) -> None:
        self.counts[tp] = self.counts.get(tp, Count()).plus(count)
        self.total = self.total.plus(count)

    def stop_at(self, tp: TopicPartition, offset: int) -> None:
        """Record that nothing of the partition is printed from this offset on."""
        self.first_unprinted.setdefault(tp, offset)

    def stats(self, elapsed_ms: float) -> str:
        """Return a line per partition, and a total: records, bytes, and both per second over `elapsed_ms`."""
        seconds = max(elapsed_ms, 1.0) / 1000
        headings = ["TOPIC", "PARTITION", "RECORDS", "BYTES", "RECORDS/S", "BYTES/S"]
        rows: list[list[Any]] = [[*tp, *_numbers(count, seconds)] for tp, count in self.counts.items()]
        rows.append(["total", None, *_numbers(self.total, seconds)])
        return f"{plain_table(headings, rows)}\nin {seconds:.3f} s"


def _numbers(count: Count, seconds: float) -> list[int]:
    records, size = count
    return [records, size, round(records / seconds), round(size / seconds)]

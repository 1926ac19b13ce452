"""How many records of each partition were printed: counted, and said. Pure: time comes in as a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


class Count(NamedTuple):
    """Records, and the bytes of their keys and values."""

    records: int = 0
    bytes: int = 0

    def plus(self, other: Count) -> Count:
        return Count(self.records + other.records, self.bytes + other.bytes)


class Tally:
    """Counts by partition, in the order in which the partitions came up.

    `left` has the partitions of which wanted records came that were not printed, and the offset of the first of them.
    """

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self.counts: dict[TopicPartition, Count] = {tp: Count() for tp in partitions}
        self.total = Count()
        self.left: dict[TopicPartition, int] = {}

    def add(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Count what was printed."""
        count = Count(len(columns), columns.payload_bytes)
        self.counts[tp] = self.counts.get(tp, Count()).plus(count)
        self.total = self.total.plus(count)

    def leave(self, tp: TopicPartition, offset: int) -> None:
        """From this record on nothing of the partition will be printed."""
        self.left.setdefault(tp, offset)

    def stats(self, elapsed_ms: float) -> str:
        """A line per partition, and their sum: records, bytes, and both per second over `elapsed_ms`."""
        seconds = max(elapsed_ms, 1.0) / 1000
        rows = [["TOPIC", "PARTITION", "RECORDS", "BYTES", "RECORDS/S", "BYTES/S"]]
        for tp, count in self.counts.items():
            rows.append([tp.topic, str(tp.partition), *_numbers(count, seconds)])
        rows.append(["total", "-", *_numbers(self.total, seconds)])
        return f"{align(rows)}\nin {seconds:.3f} s"


def _numbers(count: Count, seconds: float) -> list[str]:
    records, size = count
    return [str(records), str(size), f"{records / seconds:.0f}", f"{size / seconds:.0f}"]


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with columns of even width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

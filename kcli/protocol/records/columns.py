"""Decoded records as numpy columns over one buffer; a `Record` is made only for the row that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.batch_table import BatchFacts, BatchTable
from kcli.protocol.records.record import Record
from kcli.protocol.records.record_fields import read_headers
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_TIMESTAMP, CREATE_TIME, APPEND_TIME = -1, 0, 1
_TIMESTAMP_TYPES = {NO_TIMESTAMP: "none", CREATE_TIME: "create", APPEND_TIME: "append"}
_ROWS_PER_STEP = 4096


class RecordColumns:
    """`len(self)` records of one partition, in strictly increasing offset order, over one `buffer`.

    All columns are arrays of the same length, int64 unless stated. Keys and values are spans (start, length) of
    `buffer`; a length of -1 is null. `header_starts` to `header_ends` are the encoded headers after their count.
    `timestamp_types` (int8) is `CREATE_TIME` (set by the producer), `APPEND_TIME` (by the broker) or `NO_TIMESTAMP`.
    `within` names the batches of the records: a table and its first and end row; None: unknown.

    Records of several partitions of one topic, merged in order of time, have `partitions`: the number of each record's
    partition. Only within a partition do their offsets increase.

        for record in columns: ...                     # one `Record` per row
        columns.take(columns.timestamps_ms >= since)   # a selection, without copying keys or values
    """

    __slots__ = (
        "buffer",
        "header_counts",
        "header_ends",
        "header_starts",
        "key_lengths",
        "key_starts",
        "offsets",
        "partitions",
        "timestamp_types",
        "timestamps_ms",
        "value_lengths",
        "value_starts",
        "within",
    )

    def __init__(
        self,
        buffer: Buffer,
        *,
        offsets: Ints,
        timestamps_ms: Ints,
        key_starts: Ints,
        key_lengths: Ints,
        value_starts: Ints,
        value_lengths: Ints,
        header_starts: Ints,
        header_counts: Ints,
        header_ends: Ints,
        timestamp_types: NDArray[np.int8],
        within: tuple[BatchTable, int, int] | None = None,
        partitions: Ints | None = None,
    ) -> None:
        self.buffer = buffer
        self.offsets = offsets
        self.partitions = partitions
        self.timestamps_ms = timestamps_ms
        self.key_starts = key_starts
        self.key_lengths = key_lengths
        self.value_starts = value_starts
        self.value_lengths = value_lengths
        self.header_starts = header_starts
        self.header_counts = header_counts
        self.header_ends = header_ends
        self.timestamp_types = timestamp_types
        self.within = within

    @classmethod
    def empty(cls) -> RecordColumns:
        """Return no records, over an empty buffer."""
        arrays: dict[str, Any] = {name: np.empty(0, np.int64) for name in _ARRAYS}
        arrays["timestamp_types"] = np.empty(0, np.int8)
        return cls(b"", **arrays)

    @classmethod
    def join(cls, parts: list[RecordColumns]) -> RecordColumns:
        """Concatenate the records of several columns over the same buffer."""
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        return cls(parts[0].buffer, **arrays)

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        if not len(self):
            return "<RecordColumns empty>"
        return f"<RecordColumns {len(self)} records, offsets {self.offsets[0]}..{self.offsets[-1]}>"

    @property
    def payload_bytes(self) -> int:
        """Total size of all keys and values in bytes."""
        return int(self.key_lengths.clip(min=0).sum() + self.value_lengths.clip(min=0).sum())

    def take(self, selection: slice | NDArray[Any] | list[int]) -> RecordColumns:
        """Return the records selected by a slice, a boolean mask or an array of indices, over the same buffer."""
        arrays: dict[str, Any] = {name: getattr(self, name)[selection] for name in _ARRAYS}
        partitions = None if self.partitions is None else self.partitions[selection]
        return RecordColumns(self.buffer, within=self.within, partitions=partitions, **arrays)

    def partition_numbers(self, partition: int) -> list[int]:
        """Return the partition number of each record; `partition` is that of records that are not merged."""
        return [partition] * len(self) if self.partitions is None else self.partitions.tolist()

    def keys(self) -> list[bytes | None]:
        """Return every key, copied from the buffer; None is null."""
        return _copy_spans(self.buffer, self.key_starts, self.key_lengths)

    def values(self) -> list[bytes | None]:
        """Return every value, copied from the buffer; None is null."""
        return _copy_spans(self.buffer, self.value_starts, self.value_lengths)

    def headers(self, index: int) -> list[tuple[str, bytes | None]]:
        """Return the headers of one record, in order.

        A name may occur twice, and invalid UTF-8 in it is replaced.
        """
        count = int(self.header_counts[index])
        if not count:
            return []
        return read_headers(self.buffer, int(self.header_starts[index]), int(self.header_ends[index]), count)

    def timestamp_type(self, index: int) -> str:
        """Return `"create"`, `"append"` or `"none"` for one record."""
        return _TIMESTAMP_TYPES[int(self.timestamp_types[index])]

    def row(self, index: int) -> Record:
        """Return one record by value."""
        return next(iter(self.take([index])))

    def batch_facts(self) -> BatchFacts:
        """Return the batch of each record. ValueError for records whose batches are unknown.

        It costs nothing unless it is called: offsets ascend from batch to batch, so the batch of a record is the first
        one that reaches its offset.
        """
        if self.within is None:
            raise ValueError("the batches of these records are not known")
        batches, first, end = self.within
        owners = batches.next_offsets[first:end].searchsorted(self.offsets, side="right") + first
        return BatchFacts(batches, owners, self.offsets)

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), _ROWS_PER_STEP):
            part = self.take(slice(start, start + _ROWS_PER_STEP))
            rows = zip(part.offsets.tolist(), part.timestamps_ms.tolist(), part.keys(), part.values(), strict=True)
            for index, (offset, timestamp_ms, key, value) in enumerate(rows):
                yield Record(offset, timestamp_ms, key, value, part.headers(index))


_ARRAYS = tuple(name for name in RecordColumns.__slots__ if name not in ("buffer", "partitions", "within"))


def _copy_spans(buffer: Buffer, starts: Ints, lengths: Ints) -> list[bytes | None]:
    view = memoryview(buffer)
    return [
        None if length < 0 else bytes(view[start : start + length])
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]

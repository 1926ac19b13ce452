"""Decoded records as numpy columns over one buffer; a `Record` exists only for the row that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.headers import read_headers
from kcli.protocol.records.record import Headers, Record
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.header_columns import Batches

NO_TIMESTAMP, CREATE_TIME, APPEND_TIME = -1, 0, 1
_TIMESTAMP_TYPES = {NO_TIMESTAMP: "none", CREATE_TIME: "create", APPEND_TIME: "append"}
_ROWS_AT_ONCE = 4096


class RecordColumns:
    """`len(self)` records of one partition, in strictly increasing offset order, over one `buffer`.

    All columns are int64 arrays of the same length. Keys and values are spans (start, length) of `buffer`; a length
    of -1 is null. `header_starts` to `header_ends` are the undecoded headers behind their count. `timestamp_types`
    (int8) says who set the timestamp: `CREATE_TIME` the producer, `APPEND_TIME` the broker, `NO_TIMESTAMP` nobody.
    `within`: the batches that they are of, from one index to another; see `batch_facts`. None: not known.
    """

    __slots__ = (
        "buffer",
        "header_counts",
        "header_ends",
        "header_starts",
        "key_lengths",
        "key_starts",
        "offsets",
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
        within: tuple[Batches, int, int] | None = None,
    ) -> None:
        self.buffer = buffer
        self.offsets = offsets
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
        """No records over an empty buffer."""
        arrays: dict[str, Any] = {name: np.empty(0, np.int64) for name in _ARRAYS}
        arrays["timestamp_types"] = np.empty(0, np.int8)
        return cls(b"", **arrays)

    @classmethod
    def join(cls, parts: list[RecordColumns]) -> RecordColumns:
        """The records of several columns over the same buffer, one behind the other."""
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
        """The bytes of all keys and values together."""
        return int(self.key_lengths.clip(min=0).sum() + self.value_lengths.clip(min=0).sum())

    def take(self, selection: slice | NDArray[Any] | list[int]) -> RecordColumns:
        """The records that a slice, a boolean mask or an array of indices selects, over the same buffer."""
        arrays: dict[str, Any] = {name: getattr(self, name)[selection] for name in _ARRAYS}
        return RecordColumns(self.buffer, within=self.within, **arrays)

    def keys(self) -> list[bytes | None]:
        """Every key, copied out of the buffer."""
        return _copy_spans(self.buffer, self.key_starts, self.key_lengths)

    def values(self) -> list[bytes | None]:
        """Every value, copied out of the buffer."""
        return _copy_spans(self.buffer, self.value_starts, self.value_lengths)

    def headers(self, index: int) -> Headers:
        """Headers of one record, in order; a name may come twice, and bad UTF-8 in it is replaced."""
        count = int(self.header_counts[index])
        if not count:
            return []
        return read_headers(self.buffer, int(self.header_starts[index]), int(self.header_ends[index]), count)

    def timestamp_type(self, index: int) -> str:
        """`"create"`, `"append"` or `"none"`."""
        return _TIMESTAMP_TYPES[int(self.timestamp_types[index])]

    def row(self, index: int) -> Record:
        """One record by value."""
        return next(iter(self.take([index])))

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), _ROWS_AT_ONCE):
            part = self.take(slice(start, start + _ROWS_AT_ONCE))
            rows = zip(part.offsets.tolist(), part.timestamps_ms.tolist(), part.keys(), part.values(), strict=True)
            for index, (offset, timestamp_ms, key, value) in enumerate(rows):
                yield Record(offset, timestamp_ms, key, value, part.headers(index))


_ARRAYS = tuple(name for name in RecordColumns.__slots__ if name not in ("buffer", "within"))


def _copy_spans(buffer: Buffer, starts: Ints, lengths: Ints) -> list[bytes | None]:
    view = memoryview(buffer)
    return [
        None if length < 0 else bytes(view[start : start + length])
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]

"""Records by value: one that was read (`Record`); one to be written (`NewRecord`), and many of these (`NewRecords`).

Imports no numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

#: Names with values, in the order of the record. A name may occur twice; a value of None is null.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

#: Types of the control records that end a transaction (KIP-98).
ABORT_MARKER, COMMIT_MARKER = 0, 1


class Record(NamedTuple):
    """One record. `timestamp_ms` is -1 for a record without a timestamp (message format 0)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record to be written. Its offset follows from its place in the batch."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class NewRecords:
    """Many records to be written, as columns: row i of each column belongs to record i.

    `timestamps_ms` is one time for all records, or one for each. `keys` and `headers` have one entry for each record;
    None: all keys are null, no record has headers. The columns are not changed after they were passed in, so they may
    be shared, and so may their rows: `[headers] * count` are the same headers for all records.
    """

    __slots__ = ("headers", "keys", "timestamps_ms", "values")

    def __init__(
        self,
        values: Sequence[bytes | None],
        timestamps_ms: int | Sequence[int],
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        self.values = values
        self.timestamps_ms = timestamps_ms
        self.keys = keys
        self.headers = headers

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        given = [name for name in ("keys", "headers") if getattr(self, name) is not None]
        return f"<NewRecords {len(self)} values{''.join(f', {name}' for name in given)}>"

    @classmethod
    def of(cls, rows: Iterable[NewRecord]) -> NewRecords:
        """Return the columns of these rows."""
        columns = list(zip(*rows, strict=True))
        if not columns:
            return cls((), 0)
        keys, values, timestamps_ms, headers = columns
        one_time = timestamps_ms.count(timestamps_ms[0]) == len(timestamps_ms)
        return cls(
            values,
            timestamps_ms[0] if one_time else timestamps_ms,
            None if keys.count(None) == len(keys) else keys,
            headers if any(headers) else None,
        )

    @classmethod
    def joined(cls, parts: Sequence[NewRecords]) -> NewRecords:
        """Return the records of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        times = {part.timestamps_ms if isinstance(part.timestamps_ms, int) else None for part in parts}
        one_time = times.pop() if len(times) == 1 else None
        return cls(
            _chained(part.values for part in parts),
            _chained(part.each_timestamp_ms() for part in parts) if one_time is None else one_time,
            _chained(part.each_key() for part in parts) if any(part.keys is not None for part in parts) else None,
            _chained(part.each_headers() for part in parts)
            if any(part.headers is not None for part in parts)
            else None,
        )

    def part(self, start: int, end: int) -> NewRecords:
        """Return the records from index `start` to before `end`."""
        if start == 0 and end == len(self):
            return self
        times_ms = self.timestamps_ms
        return NewRecords(
            self.values[start:end],
            times_ms if isinstance(times_ms, int) else times_ms[start:end],
            None if self.keys is None else self.keys[start:end],
            None if self.headers is None else self.headers[start:end],
        )

    def select(self, indices: Sequence[int]) -> NewRecords:
        """Return the records at these indices, in their order."""
        times_ms = self.timestamps_ms
        return NewRecords(
            _at(self.values, indices),
            times_ms if isinstance(times_ms, int) else _at(times_ms, indices),
            None if self.keys is None else _at(self.keys, indices),
            None if self.headers is None else _at(self.headers, indices),
        )

    def each_timestamp_ms(self) -> Iterable[int]:
        """Return the timestamp of each record."""
        times_ms = self.timestamps_ms
        return repeat(times_ms, len(self)) if isinstance(times_ms, int) else times_ms

    def each_key(self) -> Iterable[bytes | None]:
        """Return the key of each record."""
        return repeat(None, len(self)) if self.keys is None else self.keys

    def each_headers(self) -> Iterable[Headers]:
        """Return the headers of each record."""
        return repeat((), len(self)) if self.headers is None else self.headers

    def rows(self) -> Iterator[NewRecord]:
        """Return the records one by one."""
        return map(NewRecord, self.each_key(), self.values, self.each_timestamp_ms(), self.each_headers())


def _chained(columns: Iterable[Iterable[T]]) -> list[T]:
    return list(chain.from_iterable(columns))


def _at(column: Sequence[T], indices: Sequence[int]) -> Sequence[T]:
    """Return the entries at `indices`. `itemgetter` takes them in half the time of a loop, but at least two."""
    return itemgetter(*indices)(column) if len(indices) > 1 else [column[index] for index in indices]


def control_type(key: bytes | None) -> int | None:
    """Return the type in the key of a control record, an int16 after an int16 version; None if there is none."""
    return int.from_bytes(key[2:4], "big", signed=True) if key is not None and len(key) >= 4 else None

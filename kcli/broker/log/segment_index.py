"""What a segment knows of its batches: both indexes, where the offsets end, the largest time. Checked against the log.

The log is believed, never an index: offsets and times behind the last indexed batch are read from the log itself, the
index entry they are read from must name a batch that is there, and so must the largest time.
"""

from __future__ import annotations

import operator
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice

from kcli.broker.log.file_records import LogDamage, find, next_whole, walk
from kcli.network.file_slice import SliceableFile
from kcli.protocol.records.batch import BatchInfo

# Kafka begins anew with the interval each time it opens a segment, and its cleaner gives many batches one entry.
_TOO_SPARSE_INTERVALS, _TOO_SPARSE_BYTES = 16, 1 << 20

MOST_RELATIVE = (1 << 31) - 1


class WrongIndex(Exception):
    """An index that cannot be, or that does not fit its log; the text says in which way."""


class SegmentIndex:
    """`next_offset` is behind the last batch. `max_timestamp_offset` ends the first batch with the largest time.

    `end_position` is where the last whole batch ends, and `damages` has the places before the file's end that are none;
    both are only looked for when the index is made from the log.
    """

    __slots__ = (
        "_since_entry",
        "base_offset",
        "damages",
        "end_position",
        "interval_bytes",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = self.next_offset = self.max_timestamp_offset = base_offset
        self.interval_bytes = interval_bytes
        self.max_timestamp_ms = NO_TIMESTAMP
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.damages: list[LogDamage] = []
        self.end_position = 0
        self._since_entry = 0

    def __repr__(self) -> str:
        return f"<SegmentIndex {self.base_offset}..{self.next_offset - 1} {len(self.offsets)} entries>"

    def note(self, info: BatchInfo, position: int) -> None:
        """A batch was written at `position`: it is indexed when enough bytes have come since the last one that was."""
        self.next_offset = info.last_offset + 1
        if info.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = info.max_timestamp_ms, info.last_offset
        if self._since_entry > self.interval_bytes:
            self.offsets.append(info.last_offset, position)
            self.times.append(self.max_timestamp_ms, self.max_timestamp_offset)
            self._since_entry = 0
        self._since_entry += info.size

    def resume(self, damage: LogDamage) -> None:
        """The next batch lies behind damage: it gets an entry, so that it can be found without passing there."""
        self.damages.append(damage)
        self._since_entry = self.interval_bytes + 1

    def complete(self) -> None:
        """Index the largest time, as Kafka does when a segment is done."""
        self.times.append(self.max_timestamp_ms, self.max_timestamp_offset)

    @classmethod
    def build(cls, base_offset: int, interval_bytes: int, file: SliceableFile, size: int) -> SegmentIndex:
        """Made from the headers in the log. Behind damage it goes on at the next whole batch, which gets an entry."""
        index = cls(base_offset, interval_bytes)
        start: int | None = 0
        while start is not None:
            try:
                for position, info in walk(file, start, size):
                    if info.base_offset < index.next_offset or info.last_offset - base_offset > MOST_RELATIVE:
                        raise LogDamage(position, f"is a batch of offset {info.base_offset}, which cannot be there")
                    index.note(info, position)
                    index.end_position = position + info.size
                break
            except LogDamage as damage:
                index.resume(damage)
                start = next_whole(file, damage.position, size, index.next_offset)
        index.complete()
        return index

    @property
    def ends_whole(self) -> bool:
        """Whether nothing follows on the last whole batch."""
        return not self.damages or self.damages[-1].position < self.end_position

    @classmethod
    def read(
        cls, base_offset: int, interval_bytes: int, data: tuple[bytes, bytes], file: SliceableFile, size: int
    ) -> SegmentIndex:
        """From the contents of both index files. `WrongIndex` when they do not fit the log, or it is damaged there."""
        index = cls(base_offset, interval_bytes)
        try:
            index.offsets = OffsetIndex(base_offset, data[0])
            index.times = TimeIndex(base_offset, data[1])
        except ValueError as wrong:
            raise WrongIndex(str(wrong)) from None
        index.max_timestamp_ms, index.max_timestamp_offset = index.times.last
        index._read_tail(file, size)
        index._check_time(file, size)
        return index

    def _read_tail(self, file: SliceableFile, size: int) -> None:
        most, start = self.offsets.last or (None, 0)
        if start >= size > 0:
            raise WrongIndex("it points behind the log's end")
        told_ms = self.max_timestamp_ms
        most_bytes = max(_TOO_SPARSE_INTERVALS * self.interval_bytes, _TOO_SPARSE_BYTES)
        batch_bytes = 0
        try:
            for position, info in walk(file, start, size):
                if most is not None and position == start and info.last_offset > most:
                    raise WrongIndex("it does not fit the log")
                if self._since_entry - batch_bytes > most_bytes:
                    raise WrongIndex("it ends too early")
                batch_bytes = info.size
                self.next_offset = info.last_offset + 1
                self._since_entry += info.size
                if info.max_timestamp_ms > told_ms:
                    raise WrongIndex("the time index ends too early")
        except LogDamage:
            raise WrongIndex("it does not fit the log") from None

    def _check_time(self, file: SliceableFile, size: int) -> None:
        time_ms, offset = self.times.last
        if time_ms == NO_TIMESTAMP:
            return
        try:
            found = find(file, size, offset, self.offsets.floor(offset))
        except LogDamage:
            raise WrongIndex("it does not fit the log") from None
        named = next(walk(file, found[0], size), None) if found else None
        if named is None or named[1].base_offset > offset or named[1].max_timestamp_ms != time_ms:
            raise WrongIndex("the time index does not fit the log")


OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
NO_TIMESTAMP = -1

_TIME_ENTRY = struct.Struct(">qi")
_IS_LITTLE = sys.byteorder == "little"


class OffsetIndex:
    """Entries (last offset of a batch, position of that batch), rising in both."""

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        """`ValueError` says why `data` cannot be such an index."""
        both = array("i", _whole_entries(data, OFFSET_ENTRY_BYTES))
        if _IS_LITTLE:
            both.byteswap()
        self.base_offset = base_offset
        self._offsets, self._positions = both[0::2], both[1::2]
        if not (_is_rising(self._offsets) and _is_rising(self._positions)):
            raise ValueError("its entries are out of order")
        if both and (both[0] < 0 or both[1] < 0):
            raise ValueError("its first entry is negative")

    def __repr__(self) -> str:
        return f"<OffsetIndex {self.base_offset} {len(self)} entries, last {self.last}>"

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry, None when there is none."""
        return (self.base_offset + self._offsets[-1], self._positions[-1]) if self._offsets else None

    def append(self, last_offset: int, position: int) -> None:
        """Note where the batch that ends with `last_offset` lies."""
        self._offsets.append(last_offset - self.base_offset)
        self._positions.append(position)

    def floor(self, offset: int) -> tuple[int, int] | None:
        """The last entry at or below `offset`, None when there is none: then look from the segment's start on."""
        relative = offset - self.base_offset
        found = bisect_right(self._offsets, relative) - 1
        return (self.base_offset + self._offsets[found], self._positions[found]) if found >= 0 else None

    def encode(self) -> bytes:
        """The entries as in the file."""
        both = array("i", bytes(OFFSET_ENTRY_BYTES * len(self)))
        both[0::2], both[1::2] = self._offsets, self._positions
        if _IS_LITTLE:
            both.byteswap()
        return both.tobytes()


class TimeIndex:
    """Entries (largest time so far in ms, last offset of the batch that has it), rising in both."""

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        """`ValueError` says why `data` cannot be such an index."""
        self.base_offset = base_offset
        self._times, self._offsets = array("q"), array("i")
        for time_ms, relative in _TIME_ENTRY.iter_unpack(_whole_entries(data, TIME_ENTRY_BYTES)):
            self._times.append(time_ms)
            self._offsets.append(relative)
        if not (_is_rising(self._times) and _is_rising(self._offsets)):
            raise ValueError("its entries are out of order")
        if self._times and (self._times[0] < 0 or self._offsets[0] < 0):
            raise ValueError("its first entry is negative")

    def __repr__(self) -> str:
        return f"<TimeIndex {self.base_offset} {len(self)} entries, last {self.last}>"

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> tuple[int, int]:
        """The largest time, and the last offset of its batch; -1 and the base offset when there is none."""
        if not self._times:
            return NO_TIMESTAMP, self.base_offset
        return self._times[-1], self.base_offset + self._offsets[-1]

    def append(self, time_ms: int, offset: int) -> None:
        """Note the largest time so far, unless it is no larger than the last entry's."""
        if time_ms > (self._times[-1] if self._times else NO_TIMESTAMP):
            self._times.append(time_ms)
            self._offsets.append(offset - self.base_offset)

    def before(self, time_ms: int) -> int:
        """An offset such that no record before it has this time or a later one."""
        found = bisect_left(self._times, time_ms) - 1
        return self.base_offset + (self._offsets[found] if found >= 0 else 0)

    def encode(self) -> bytes:
        """The entries as in the file."""
        return b"".join(map(_TIME_ENTRY.pack, self._times, self._offsets))


def _whole_entries(data: bytes, entry_bytes: int) -> bytes:
    """`data` without the zeros that fill it up; `ValueError` if it ends within an entry."""
    if len(data) % entry_bytes:
        raise ValueError(f"its {len(data)} bytes are no whole number of entries")
    used = len(data.rstrip(b"\0"))
    return data[: used + -used % entry_bytes]


def _is_rising(numbers: array[int]) -> bool:
    return all(map(operator.lt, numbers, islice(numbers, 1, None)))

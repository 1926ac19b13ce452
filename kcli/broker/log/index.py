"""The sparse indexes of a segment: offsets to positions, times to offsets. Pure: bytes in, bytes out.

Layout as Kafka's `.index` (8 bytes: relative offset, position) and `.timeindex` (12 bytes: time, relative offset); an
offset in either is the last one of its batch. Kafka's own files are filled up with zeros while they are written to.
"""

from __future__ import annotations

import operator
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice

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

"""The indexes of a segment: Kafka's OffsetIndex and TimeIndex, SegmentIndex, which checks both against the log, and
the entries of Kafka's TransactionIndex.

Layout as in Kafka's `.index` (8 bytes: relative offset, position) and `.timeindex` (12 bytes: timestamp, relative
offset); an offset in either is the last one of its batch. Kafka fills open index files with zeros up to their largest
size. An index is never trusted alone: offsets and timestamps after the last indexed batch are read from the log, and
the last entry of each index must match a batch in the log.
"""

from __future__ import annotations

import operator
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from kcli.broker.log.file_records import LogDamage, find_batch, iter_batches, next_valid_batch
from kcli.network.file_slice import SliceableFile
from kcli.protocol.records.batch import BatchInfo

# Kafka restarts the index interval each time it opens a segment, and its cleaner writes one entry for many batches.
# An index with gaps up to these limits is therefore accepted.
_TOO_SPARSE_INTERVALS, _TOO_SPARSE_BYTES = 16, 1 << 20

MAX_RELATIVE_OFFSET = (1 << 31) - 1
OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
NO_TIMESTAMP = -1

_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_TRANSACTION_VERSION = 0
_IS_LITTLE = sys.byteorder == "little"


class OffsetIndex:
    """Entries (last offset of a batch, position of the batch); both strictly increase."""

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        """Decode the contents of an index file. `ValueError` for contents that are not valid."""
        both = array("i", _whole_entries(data, OFFSET_ENTRY_BYTES))
        if _IS_LITTLE:
            both.byteswap()
        self.base_offset = base_offset
        self._offsets, self._positions = both[0::2], both[1::2]
        if not (_is_increasing(self._offsets) and _is_increasing(self._positions)):
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
        """Add the position of the batch with this last offset."""
        self._offsets.append(last_offset - self.base_offset)
        self._positions.append(position)

    def floor(self, offset: int) -> tuple[int, int] | None:
        """Return the last entry with an offset up to `offset`; None: search from the start of the segment."""
        relative = offset - self.base_offset
        entry = bisect_right(self._offsets, relative) - 1
        return (self.base_offset + self._offsets[entry], self._positions[entry]) if entry >= 0 else None

    def first_from_position(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch that starts at `position` or later."""
        entry = bisect_left(self._positions, position)
        return self.base_offset + self._offsets[entry] if entry < len(self) else None

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the indexed batches."""
        return self._positions

    def first(self, count: int) -> OffsetIndex:
        """Return an index of the first `count` entries."""
        index = OffsetIndex(self.base_offset)
        index._offsets, index._positions = self._offsets[:count], self._positions[:count]
        return index

    def encode(self) -> bytes:
        """Encode the entries as in the file."""
        both = array("i", bytes(OFFSET_ENTRY_BYTES * len(self)))
        both[0::2], both[1::2] = self._offsets, self._positions
        if _IS_LITTLE:
            both.byteswap()
        return both.tobytes()


class TimeIndex:
    """Entries (largest timestamp so far in ms, last offset of its batch); both strictly increase."""

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        """Decode the contents of an index file. `ValueError` for contents that are not valid."""
        self.base_offset = base_offset
        self._times, self._offsets = array("q"), array("i")
        for time_ms, relative in _TIME_ENTRY.iter_unpack(_whole_entries(data, TIME_ENTRY_BYTES)):
            self._times.append(time_ms)
            self._offsets.append(relative)
        if not (_is_increasing(self._times) and _is_increasing(self._offsets)):
            raise ValueError("its entries are out of order")
        if self._times and (self._times[0] < 0 or self._offsets[0] < 0):
            raise ValueError("its first entry is negative")

    def __repr__(self) -> str:
        return f"<TimeIndex {self.base_offset} {len(self)} entries, last {self.last}>"

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of its batch; -1 and the base offset without entries."""
        if not self._times:
            return NO_TIMESTAMP, self.base_offset
        return self._times[-1], self.base_offset + self._offsets[-1]

    def append(self, time_ms: int, offset: int) -> None:
        """Add the largest timestamp so far, if it is larger than that of the last entry."""
        if time_ms > (self._times[-1] if self._times else NO_TIMESTAMP):
            self._times.append(time_ms)
            self._offsets.append(offset - self.base_offset)

    def before(self, time_ms: int) -> int:
        """Return an offset such that all records before it have timestamps below `time_ms`."""
        entry = bisect_left(self._times, time_ms) - 1
        return self.base_offset + (self._offsets[entry] if entry >= 0 else 0)

    def below(self, offset: int) -> TimeIndex:
        """Return an index of the entries with offsets below `offset`."""
        index, count = TimeIndex(self.base_offset), bisect_left(self._offsets, offset - self.base_offset)
        index._times, index._offsets = self._times[:count], self._offsets[:count]
        return index

    def encode(self) -> bytes:
        """Encode the entries as in the file."""
        return b"".join(map(_TIME_ENTRY.pack, self._times, self._offsets))


def _whole_entries(data: bytes, entry_bytes: int) -> bytes:
    """Return `data` without trailing zero entries. `ValueError` if it ends within an entry."""
    if len(data) % entry_bytes:
        raise ValueError(f"its {len(data)} bytes are not a whole number of entries")
    used = len(data.rstrip(b"\0"))
    return data[: used + -used % entry_bytes]


def _is_increasing(numbers: array[int]) -> bool:
    return all(map(operator.lt, numbers, islice(numbers, 1, None)))


class InvalidIndex(Exception):
    """An index is damaged or does not match its log; the text is the reason."""


class SegmentIndex:
    """Both indexes of a segment, its next offset and its largest timestamp.

    `max_timestamp_offset` is the last offset of the first batch with the largest timestamp. `end_position` is the end
    of the last whole batch, and `damages` are the damaged places in the file; both are only set by `build`.
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

    def add(self, info: BatchInfo, position: int) -> None:
        """Add a batch at `position`. It gets an index entry if `interval_bytes` were added since the last entry."""
        self.next_offset = info.last_offset + 1
        if info.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = info.max_timestamp_ms, info.last_offset
        if self._since_entry > self.interval_bytes:
            self.offsets.append(info.last_offset, position)
            self.times.append(self.max_timestamp_ms, self.max_timestamp_offset)
            self._since_entry = 0
        self._since_entry += info.size

    def resume(self, damage: LogDamage) -> None:
        """Record damage. The next batch gets an index entry, so that reads can skip the damage."""
        self.damages.append(damage)
        self._since_entry = self.interval_bytes + 1

    def truncated(self, file: SliceableFile, size: int) -> SegmentIndex:
        """Return the indexes of the first `size` bytes, which end with a whole batch.

        Only the batches from the last remaining entry on are read. `LogDamage` when one of them is not valid.
        """
        index = SegmentIndex(self.base_offset, self.interval_bytes)
        index.offsets = self.offsets.first(bisect_left(self.offsets.positions, size))
        _, start = index.offsets.last or (0, 0)
        tail = [info for _, info in iter_batches(file, start, size)]
        if tail:
            index.next_offset = tail[-1].last_offset + 1
        index.times = self.times.below(index.next_offset)
        index.max_timestamp_ms, index.max_timestamp_offset = index.times.last
        for info in tail:
            index._since_entry += info.size
            if info.max_timestamp_ms > index.max_timestamp_ms:
                index.max_timestamp_ms, index.max_timestamp_offset = info.max_timestamp_ms, info.last_offset
        return index

    def complete(self) -> None:
        """Add the largest timestamp to the time index, as Kafka does when it rolls a segment."""
        self.times.append(self.max_timestamp_ms, self.max_timestamp_offset)

    @classmethod
    def build(cls, base_offset: int, interval_bytes: int, file: SliceableFile, size: int) -> SegmentIndex:
        """Build the indexes from the batch headers in the log. After damage, continue at the next valid batch."""
        index = cls(base_offset, interval_bytes)
        start: int | None = 0
        while start is not None:
            try:
                for position, info in iter_batches(file, start, size):
                    if info.base_offset < index.next_offset or info.last_offset - base_offset > MAX_RELATIVE_OFFSET:
                        raise LogDamage(position, f"the base offset {info.base_offset} is not valid at this position")
                    index.add(info, position)
                    index.end_position = position + info.size
                break
            except LogDamage as damage:
                index.resume(damage)
                start = next_valid_batch(file, damage.position, size, index.next_offset)
        index.complete()
        return index

    @property
    def ends_with_whole_batch(self) -> bool:
        """True if the file ends with its last whole batch."""
        return not self.damages or self.damages[-1].position < self.end_position

    @classmethod
    def read(
        cls, base_offset: int, interval_bytes: int, data: tuple[bytes, bytes], file: SliceableFile, size: int
    ) -> SegmentIndex:
        """Decode both index files. `InvalidIndex` when they do not match the log, or the log is damaged there."""
        index = cls(base_offset, interval_bytes)
        try:
            index.offsets = OffsetIndex(base_offset, data[0])
            index.times = TimeIndex(base_offset, data[1])
        except ValueError as problem:
            raise InvalidIndex(str(problem)) from None
        index.max_timestamp_ms, index.max_timestamp_offset = index.times.last
        index._read_tail(file, size)
        index._check_time(file, size)
        return index

    def _read_tail(self, file: SliceableFile, size: int) -> None:
        last_offset, start = self.offsets.last or (None, 0)
        if start >= size > 0:
            raise InvalidIndex("its last position is after the log's end")
        indexed_ms = self.max_timestamp_ms
        max_bytes = max(_TOO_SPARSE_INTERVALS * self.interval_bytes, _TOO_SPARSE_BYTES)
        batch_bytes = 0
        try:
            for position, info in iter_batches(file, start, size):
                if last_offset is not None and position == start and info.last_offset > last_offset:
                    raise InvalidIndex("it does not match the log")
                if self._since_entry - batch_bytes > max_bytes:
                    raise InvalidIndex("it ends too early")
                batch_bytes = info.size
                self.next_offset = info.last_offset + 1
                self._since_entry += info.size
                if info.max_timestamp_ms > indexed_ms:
                    raise InvalidIndex("the time index ends too early")
        except LogDamage:
            raise InvalidIndex("it does not match the log") from None

    def _check_time(self, file: SliceableFile, size: int) -> None:
        time_ms, offset = self.times.last
        if time_ms == NO_TIMESTAMP:
            return
        try:
            location = find_batch(file, size, offset, self.offsets.floor(offset))
        except LogDamage:
            raise InvalidIndex("it does not match the log") from None
        found = next(iter_batches(file, location[0], size), None) if location else None
        if found is None or found[1].base_offset > offset or found[1].max_timestamp_ms != time_ms:
            raise InvalidIndex("the time index does not match the log")


class AbortedTransaction(NamedTuple):
    """An entry of a `.txnindex` file, 34 bytes: version (0), producer id, and three offsets.

    They are the offsets of the first record and of the abort marker, and the last stable offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entries: Sequence[AbortedTransaction]) -> bytes:
    """Encode the contents of an index file."""
    return b"".join(_TRANSACTION_ENTRY.pack(_TRANSACTION_VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes, base_offset: int, next_offset: int) -> list[AbortedTransaction]:
    """Decode the index file of a segment with these offsets. `InvalidIndex` for contents that are not valid."""
    if len(data) % _TRANSACTION_ENTRY.size:
        raise InvalidIndex(f"its {len(data)} bytes are not a whole number of entries")
    entries, marker = [], base_offset - 1
    for version, *numbers in _TRANSACTION_ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*numbers)
        if version != _TRANSACTION_VERSION:
            raise InvalidIndex(f"an entry has the unknown version {version}")
        if not marker < entry.last_offset < next_offset:
            raise InvalidIndex(f"the offset {entry.last_offset} is not valid at this position")
        if not (entry.producer_id >= 0 and 0 <= entry.first_offset < entry.last_offset):
            raise InvalidIndex(f"the entry for the offset {entry.last_offset} is not valid")
        if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
            raise InvalidIndex(f"the entry for the offset {entry.last_offset} is not valid")
        marker = entry.last_offset
        entries.append(entry)
    return entries

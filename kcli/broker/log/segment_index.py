"""What a segment knows of its batches: both indexes, where the offsets end, the largest time. Checked against the log.

The log is believed, never an index: offsets and times behind the last indexed batch are read from the log itself, the
index entry they are read from must name a batch that is there, and so must the largest time.
"""

from __future__ import annotations

from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.batches import LogDamage, find, walk
from kcli.broker.log.index import NO_TIMESTAMP, OffsetIndex, TimeIndex
from kcli.broker.log.resync import next_whole
from kcli.network.file_slice import SliceableFile

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

"""A segment: one file of batches, its two sparse indexes, and how to get from an offset to a slice of the file.

The indexes live in memory. Their files are written when a segment is sealed or the log is closed, since after a crash
the newest segment is read and indexed anew anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kcli.broker.files import Files, LogFile
from kcli.broker.log.file_records import LogDamage, find, walk
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.segment_index import MOST_RELATIVE, NO_TIMESTAMP, TIME_ENTRY_BYTES, SegmentIndex, WrongIndex
from kcli.network.file_slice import FileSlice
from kcli.protocol.records.batch import BatchInfo

LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX = SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")

Report = Callable[[str], None]


class SegmentRead(NamedTuple):
    """What was found at an offset: where its batch begins, how large that is, and the slice from there on."""

    position: int
    batch_bytes: int
    records: FileSlice


class LogSegment:
    """Batches from `base_offset` on. What lies on the disk already is looked at when it is first needed.

    `jitter_ms`: how much before its time it is rolled. `is_synced`: all its bytes are known to be on the disk.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        size: int = 0,
        index_interval_bytes: int = 4096,
        created_ms: int = 0,
        jitter_ms: int = 0,
        suffix: str = "",
        report: Report = lambda _: None,
    ) -> None:
        """`size`: bytes of its log file that is there; 0 for a new segment. `suffix` as for `rename`."""
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.is_synced = True
        self._has_synced_name = size > 0
        self.interval_bytes = index_interval_bytes
        self._suffix = suffix
        self._files = files
        self._report = report
        self._file: LogFile | None = None
        self._first_timestamp_ms: int | None = None
        self._index = None if size else SegmentIndex(base_offset, index_interval_bytes)
        self._are_indexes_saved = size > 0
        self._was_index_built = not size

    def __repr__(self) -> str:
        end = "" if self._index is None else self._index.next_offset - 1
        return f"<LogSegment {self.path()} {self.base_offset}..{end} {self.size} bytes>"

    def path(self, kind: str = LOG) -> str:
        """The path of its file of a kind, one of `SUFFIXES`."""
        return os.path.join(self.directory, f"{self.base_offset:020d}{kind}{self._suffix}")

    @property
    def file(self) -> LogFile:
        """The log file, opened when it is first needed (made, when the segment is new)."""
        if self._file is None:
            self._file = self._files.open(self.path(), create=not self.size)
        return self._file

    @property
    def index(self) -> SegmentIndex:
        """What it knows of its batches, read and checked when first needed."""
        if self._index is None:
            self._index = self._load_index()
        return self._index

    @property
    def next_offset(self) -> int:
        """The offset behind its last batch."""
        return self.index.next_offset

    @property
    def max_timestamp_ms(self) -> int:
        """The largest time of its batches, -1 when there is none."""
        return self.index.max_timestamp_ms

    @property
    def first_timestamp_ms(self) -> int:
        """The largest time of the first batch, from which a segment's age is counted; -1 when there is none."""
        if self._first_timestamp_ms is None:
            try:
                first = next(walk(self.file, 0, self.size), None)
            except LogDamage:
                return NO_TIMESTAMP
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp_ms = first[1].max_timestamp_ms
        return self._first_timestamp_ms

    # ---- writing ----

    def append(self, info: BatchInfo) -> None:
        """Write a batch behind the last one. `OSError`: nothing of it is there, as far as that was in our power."""
        index, position = self.index, self.size
        self.file.append((info.records,))
        self.size = position + info.size
        self.is_synced = self._are_indexes_saved = False
        if not position:
            self._first_timestamp_ms = info.max_timestamp_ms
        index.note(info, position)

    def should_roll(self, info: BatchInfo, config: LogConfig, now_wall_ms: int) -> bool:
        """Whether `info` belongs in a new segment. An empty segment takes any batch.

        As in Kafka, the age of a segment is the difference between the batch's timestamp and the segment's first
        timestamp; for records without timestamps it is the time since the segment was created.
        """
        if not self.size:
            return False
        if self.size + info.size > config.segment_bytes:
            return True
        first_ms = self.first_timestamp_ms
        age_ms = info.max_timestamp_ms - first_ms if first_ms >= 0 else now_wall_ms - self.created_ms
        if age_ms > config.segment_ms - self.jitter_ms:
            return True
        return not self.can_hold(info.last_offset, config.segment_index_bytes)

    def can_hold(self, last_offset: int, index_bytes: int) -> bool:
        """Whether indexes of at most `index_bytes` could name this offset."""
        if last_offset - self.base_offset > MOST_RELATIVE:
            return False
        return (len(self.index.offsets) + 2) * TIME_ENTRY_BYTES <= index_bytes

    def seal(self) -> None:
        """Complete the indexes and write them to their files: nothing is going to be appended for a while."""
        index = self.index
        if self._are_indexes_saved:
            return
        index.complete()
        self.file  # noqa: B018  the log of an empty segment, too, is there
        self._save(OFFSET_INDEX, index.offsets.encode())
        self._save(TIME_INDEX, index.times.encode())
        self._are_indexes_saved = True

    def _save(self, kind: str, data: bytes) -> None:
        file = self._files.open(self.path(kind), create=True)
        file.truncate(0)
        if data:
            file.append((data,))
        file.close()

    def sync(self) -> None:
        """Return when its batches, and its name in the directory, are on the disk."""
        if not self.is_synced:
            self.file.sync()
            self.is_synced = True
        if not self._has_synced_name:
            self._files.sync_dir(self.directory)
            self._files.sync_dir(os.path.dirname(self.directory))
            self._has_synced_name = True

    def establish(self) -> None:
        """Have its file on the disk, though it may be empty: for a log of which nothing else tells where it goes on."""
        self.file  # noqa: B018  made now
        self.sync()

    def replace_index(self, index: SegmentIndex, size: int) -> None:
        """After a crash: cut the file to `size`, whose batches `index` was made from."""
        if size < self.size:
            self.file.truncate(size)
            self.size = size
        self._index, self._was_index_built = index, True
        self.is_synced = self._has_synced_name = self._are_indexes_saved = False
        self._first_timestamp_ms = None

    # ---- reading ----

    def read(self, offset: int, max_bytes: int, max_position: int, *, min_one_message: bool) -> SegmentRead | None:
        """The batches from the one that holds `offset` (or the next one there is) on; None when all end before it.

        They are at most `max_bytes`, which may end within a batch, and lie before `max_position`. With
        `min_one_message` the first one is whole however large it is. `LogDamage` when there are no batches.
        """
        found = self.locate(offset)
        if found is None:
            return None
        position, size = found
        length = min(max(max_bytes, size) if min_one_message else max_bytes, max_position - position)
        return SegmentRead(position, size, FileSlice(self.file, position, max(length, 0)))

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the first batch that ends at `offset` or behind it; None when there is none."""
        floor = self.index.offsets.floor(offset)
        try:
            return find(self.file, self.size, offset, floor)
        except LogDamage:
            if self._was_index_built:
                raise  # it is the log that is wrong
            index = self._build_index("it does not fit the log")
            return find(self.file, self.size, offset, index.offsets.floor(offset))

    def batches(self, offset: int = 0, *, bodies: bool = False) -> Iterator[tuple[int, BatchInfo]]:
        """Its batches with their positions, from the one that holds `offset` on; see `walk`."""
        found = (0, 0) if offset <= self.base_offset else self.locate(offset)
        return walk(self.file, found[0] if found else self.size, self.size, bodies=bodies)

    # ---- what was there already ----

    def _load_index(self) -> SegmentIndex:
        try:
            data = self._files.read_bytes(self.path(OFFSET_INDEX)), self._files.read_bytes(self.path(TIME_INDEX))
            return SegmentIndex.read(self.base_offset, self.interval_bytes, data, self.file, self.size)
        except FileNotFoundError:
            return self._build_index("it is missing")
        except WrongIndex as wrong:
            return self._build_index(str(wrong))

    def _build_index(self, why: str) -> SegmentIndex:
        index = SegmentIndex.build(self.base_offset, self.interval_bytes, self.file, self.size)
        self._report(f"the index of {self.path()} was made anew: {why}")
        for damage in index.damages:
            self._report(f"{self.path()} is damaged: {damage}; records there cannot be read")
        self._index, self._are_indexes_saved, self._was_index_built = index, False, True
        self.seal()
        return index

    # ---- its files ----

    @property
    def newest_ms(self) -> int:
        """The largest time of its batches, or when the file was last written to if none has a time."""
        newest_ms = self.max_timestamp_ms
        return newest_ms if newest_ms >= 0 else self._files.modified_ms(self.path())

    def rest(self) -> None:
        """Let go of the open file until it is needed again. Slices that are on their way keep it."""
        self._file = None

    def rename(self, suffix: str) -> None:
        """Give its files another suffix behind their kinds: `.cleaned`, `.swap`, `.deleted` or none."""
        old = {kind: self.path(kind) for kind in SUFFIXES}
        self._suffix, self._file = suffix, None
        for kind, path in old.items():
            if self._files.exists(path):
                self._files.rename(path, self.path(kind))

    def remove(self) -> None:
        """Remove its files. Who still holds a slice of it can read it to the end."""
        self._file = None
        for kind in SUFFIXES:
            if self._files.exists(self.path(kind)):
                self._files.remove(self.path(kind))

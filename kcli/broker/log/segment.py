"""LogSegment: one file of batches with two sparse indexes, and reads by offset as slices of the file.

The indexes are kept in memory. Their files are written when a segment is sealed or the log is closed; after a crash the
indexes of the newest segment are rebuilt from its batches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kcli.broker.files import Files, LogFile
from kcli.broker.log.file_records import LogDamage, find_batch, iter_batches
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.segment_index import (
    MAX_RELATIVE_OFFSET,
    NO_TIMESTAMP,
    TIME_ENTRY_BYTES,
    AbortedTransaction,
    InvalidIndex,
    SegmentIndex,
    decode_aborted,
    encode_aborted,
)
from kcli.network.file_slice import FileSlice
from kcli.protocol.records.batch import BatchInfo, Buffer

LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX = SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")

Report = Callable[[str], None]


class SegmentRead(NamedTuple):
    """The result of a read: position and size of the first batch, and the slice of the file from that position on."""

    position: int
    batch_bytes: int
    records: FileSlice


class LogSegment:
    """Batches from `base_offset` on. Existing files are opened and checked at their first use.

    `jitter_ms` is subtracted from `segment.ms`. `is_synced`: all bytes of the log file are flushed to the disk.
    `aborted` are the aborted transactions with markers in this segment, and `stable_at_start` is the first offset of
    the oldest transaction that was open at its start; both None until `TransactionIndex` loads them. `was_recovered`:
    the transaction index was removed by a recovery.
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
        """`size`: bytes of the existing log file; 0 for a new segment. `suffix` as for `rename`."""
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.is_synced = True
        self.aborted: list[AbortedTransaction] | None = None if size else []
        self.stable_at_start: int | None = None
        self.was_recovered = False
        self._saved_aborted = -1
        self._has_synced_name = size > 0
        self.interval_bytes = index_interval_bytes
        self._suffix = suffix
        self._files = files
        self._report = report
        self._file: LogFile | None = None
        self._first_timestamp_ms: int | None = None
        self._index: SegmentIndex | None = None
        self._are_indexes_saved = size > 0
        self._was_index_built = not size

    def __repr__(self) -> str:
        end = "" if self._index is None else self._index.next_offset - 1
        return f"<LogSegment {self.path()} {self.base_offset}..{end} {self.size} bytes>"

    def path(self, kind: str = LOG) -> str:
        """Return the path of its file of this kind, one of `SUFFIXES`."""
        return os.path.join(self.directory, f"{self.base_offset:020d}{kind}{self._suffix}")

    @property
    def file(self) -> LogFile:
        """The log file, opened at its first use; created for a new segment."""
        if self._file is None:
            self._file = self._files.open(self.path(), create=not self.size)
        return self._file

    @property
    def index(self) -> SegmentIndex:
        """The segment's indexes, made or read and checked at their first use."""
        if self._index is None:
            self._index = self._load_index() if self.size else SegmentIndex(self.base_offset, self.interval_bytes)
        return self._index

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.index.next_offset if self.size or self._index else self.base_offset

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of its batches, -1 when there is none."""
        return self.index.max_timestamp_ms

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch, the start of the segment's age; -1 when there is none."""
        if self._first_timestamp_ms is None:
            try:
                first = next(iter_batches(self.file, 0, self.size), None)
            except LogDamage:
                return NO_TIMESTAMP
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp_ms = first[1].max_timestamp_ms
        return self._first_timestamp_ms

    # ---- writing ----

    def append(self, infos: Sequence[BatchInfo], data: Buffer) -> None:
        """Append adjacent batches with one write; `data` are their bytes.

        After an `OSError` the file is truncated to its old size, if the disk allows it.
        """
        index, position = self.index, self.size
        self.file.append((data,))
        self.size = position + len(data)
        self.is_synced = self._are_indexes_saved = False
        if not position:
            self._first_timestamp_ms = infos[0].max_timestamp_ms
        for info in infos:
            index.add(info, position)
            position += info.size

    def should_roll(self, info: BatchInfo, config: LogConfig, now_wall_ms: int) -> bool:
        """Return whether `info` belongs in a new segment. An empty segment takes any batch.

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
        """Return whether an index of at most `index_bytes` has room for an entry with this offset."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return False
        return (len(self.index.offsets) + 2) * TIME_ENTRY_BYTES <= index_bytes

    def seal(self) -> None:
        """Complete the indexes and write them to their files, after the last append."""
        index = self.index
        if self._are_indexes_saved:
            return
        index.complete()
        self.file  # noqa: B018  creates the log file of an empty segment
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
        """Flush its batches and its directory entry to the disk."""
        if not self.is_synced:
            self.file.sync()
            self.is_synced = True
        if not self._has_synced_name:
            self._files.sync_dir(self.directory)
            self._files.sync_dir(os.path.dirname(self.directory))
            self._has_synced_name = True

    def establish(self) -> None:
        """Create and flush the log file, even if empty: its name stores the offset where the log continues."""
        self.file  # noqa: B018  creates the file
        self.sync()

    def replace_index(self, index: SegmentIndex, size: int) -> None:
        """Set a rebuilt index, and truncate the file to `size`, the end of the batches in the index.

        The transaction index is removed; `TransactionIndex` rebuilds it.
        """
        if size < self.size:
            self.file.truncate(size)
            self.size = size
        self._index, self._was_index_built = index, True
        self.is_synced = self._has_synced_name = self._are_indexes_saved = False
        self._first_timestamp_ms = None
        self.aborted, self.was_recovered = None, True
        self.remove_aborted()

    def truncate(self, position: int) -> None:
        """Truncate the file to its batches before `position`, and flush it.

        The caller removes the transaction index.
        """
        try:
            index = self.index.truncated(self.file, position)
        except LogDamage:
            index = SegmentIndex.build(self.base_offset, self.interval_bytes, self.file, position)
        self.file.truncate(position)
        self.size, self._index = position, index
        self.is_synced = self._are_indexes_saved = False
        if not position:
            self._first_timestamp_ms = None
        self.sync()

    # ---- reading ----

    def read(self, offset: int, max_bytes: int, max_position: int, *, min_one_message: bool) -> SegmentRead | None:
        """Return batches from the one with `offset` (or the next existing one) on; None when all end before it.

        The slice has at most `max_bytes`, may end within a batch, and ends at `max_position` at the latest. With
        `min_one_message` the first batch is complete, whatever its size. `LogDamage` when the log is damaged there.
        """
        location = self.locate(offset)
        if location is None:
            return None
        position, size = location
        length = min(max(max_bytes, size) if min_one_message else max_bytes, max_position - position)
        return SegmentRead(position, size, FileSlice(self.file, position, max(length, 0)))

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the first batch whose last offset is at least `offset`, or None."""
        floor = self.index.offsets.floor(offset)
        try:
            return find_batch(self.file, self.size, offset, floor)
        except LogDamage:
            if self._was_index_built:
                raise  # the index fits the log, so the log is damaged
            index = self._build_index("it does not match the log")
            return find_batch(self.file, self.size, offset, index.offsets.floor(offset))

    def batches(self, offset: int = 0, *, bodies: bool = False) -> Iterator[tuple[int, BatchInfo]]:
        """Yield (position, batch) from the batch with `offset` on; see `iter_batches`."""
        if not self.size:
            return iter(())  # without opening, or creating, a file
        location = (0, 0) if offset <= self.base_offset else self.locate(offset)
        return iter_batches(self.file, location[0] if location else self.size, self.size, bodies=bodies)

    def batches_with_markers(self, offset: int) -> Iterator[BatchInfo]:
        """Yield the batches from the one with `offset` on; only control batches are sure to have all their bytes."""
        for position, info in self.batches(offset):
            if info.is_control and len(info.records) < info.size:
                info = info._replace(records=self.file.read_at(position, info.size))
            yield info

    # ---- transactions ----

    def read_aborted(self) -> list[AbortedTransaction]:
        """Read the transaction index. FileNotFoundError, or `InvalidIndex` when it does not fit the segment."""
        data = self._files.read_bytes(self.path(TRANSACTION_INDEX))
        entries = decode_aborted(data, self.base_offset, self.next_offset)
        if entries and not self._is_marker(entries[-1]):
            raise InvalidIndex("it does not match the log")
        self._saved_aborted = len(entries)
        return entries

    def _is_marker(self, entry: AbortedTransaction) -> bool:
        try:
            info = next(self.batches_with_markers(entry.last_offset), None)
        except LogDamage:
            return False
        return (
            info is not None
            and info.is_control
            and (info.producer_id, info.last_offset) == (entry.producer_id, entry.last_offset)
        )

    def save_aborted(self) -> None:
        """Write and flush the transaction index, if it is loaded and has changed."""
        if self.aborted is not None and len(self.aborted) != self._saved_aborted:
            self._files.write_atomically(self.path(TRANSACTION_INDEX), encode_aborted(self.aborted))
            self._saved_aborted = len(self.aborted)

    def remove_aborted(self) -> None:
        """Remove the file of the transaction index, so that `save_aborted` writes it again."""
        self._saved_aborted = -1
        if self._files.exists(self.path(TRANSACTION_INDEX)):
            self._files.remove(self.path(TRANSACTION_INDEX))

    # ---- loading the indexes ----

    def _load_index(self) -> SegmentIndex:
        try:
            data = self._files.read_bytes(self.path(OFFSET_INDEX)), self._files.read_bytes(self.path(TIME_INDEX))
            return SegmentIndex.read(self.base_offset, self.interval_bytes, data, self.file, self.size)
        except FileNotFoundError:
            return self._build_index("it is missing")
        except InvalidIndex as problem:
            return self._build_index(str(problem))

    def _build_index(self, reason: str) -> SegmentIndex:
        index = SegmentIndex.build(self.base_offset, self.interval_bytes, self.file, self.size)
        self._report(f"the index of {self.path()} was rebuilt: {reason}")
        for damage in index.damages:
            self._report(f"{self.path()} is damaged: {damage}; records there cannot be read")
        self._index, self._are_indexes_saved, self._was_index_built = index, False, True
        self.seal()
        return index

    # ---- files ----

    @property
    def newest_ms(self) -> int:
        """The largest timestamp of its batches, or the modification time of the file without timestamps."""
        newest_ms = self.max_timestamp_ms
        return newest_ms if newest_ms >= 0 else self._files.modified_ms(self.path())

    def release_file(self) -> None:
        """Close the file until its next use. Slices that are still being sent keep it open."""
        self._file = None

    def rename(self, suffix: str) -> None:
        """Replace the suffix after the kind in its file names: `.cleaned`, `.swap`, `.deleted` or none."""
        old = {kind: self.path(kind) for kind in SUFFIXES}
        self._suffix, self._file = suffix, None
        for kind, path in old.items():
            if self._files.exists(path):
                self._files.rename(path, self.path(kind))

    def remove(self) -> None:
        """Remove its files. Existing slices can still be read to their end."""
        self._file = None
        for kind in SUFFIXES:
            if self._files.exists(self.path(kind)):
                self._files.remove(self.path(kind))

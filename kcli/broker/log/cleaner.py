"""Log compaction in small steps, between the other work of the broker's one loop. Kafka's LogCleaner.

A log is read twice: first its dirty part, for the last offset of each key; then everything up to there, for the records
to keep. Those are written to a `.cleaned` segment, which replaces the old ones atomically: a crash leaves the old
segments or the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.broker.log.checkpoint_files import read_offsets, write_offsets
from kcli.broker.log.compaction import (
    CleanedTransactions,
    DirtySection,
    LatestOffsets,
    SegmentStats,
    filter_batch,
    find_dirty_section,
    group_segments,
)
from kcli.broker.log.file_records import LogDamage, has_valid_checksum
from kcli.errors import CorruptRecords, KcliError
from kcli.protocol.records.batch import BatchInfo, read_batch_info
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log.log import Log
    from kcli.broker.log.segment import LogSegment

STEP_BYTES = 64 * 1024
# Each record, and each compressed batch, counts for at least so many: the size of a compressed batch says little.
_RECORD_COST_BYTES, _COMPRESSED_COST_BYTES = 32, STEP_BYTES // 4

_BYTES_PER_KEY = 24  # in Kafka's dedupe buffer
_MAX_KEYS = 500_000
_NO_LAG = (1 << 63) - 1


class Uncleanable(KcliError):
    """The log is damaged, so it must not be rewritten."""


class _SegmentsChanged(Exception):
    """Segments were removed during the cleaning, by retention or by DeleteRecords."""


class LogCleaner:
    """Cleans the dirtiest log first. The checkpoint file at `path` stores the offset up to which each log is clean.

    A log that cannot be cleaned, because it is damaged, is reported once and skipped.
    """

    def __init__(self, files: Files, path: str, *, dedupe_buffer_bytes: int, report: Callable[[str], None]) -> None:
        """Read the checkpoint. A damaged one is reported, and all logs are cleaned from their start."""
        self.cleaned_up_to = read_offsets(files, path, report)
        self.uncleanable: set[TopicPartition] = set()
        self._files = files
        self._path = path
        self._max_keys = max(1, min(dedupe_buffer_bytes // _BYTES_PER_KEY, _MAX_KEYS))
        self._report = report
        self._tp: TopicPartition | None = None
        self._cleaning: Generator[None] | None = None

    def __repr__(self) -> str:
        return f"<LogCleaner {f'cleaning {self._tp}' if self._cleaning else 'idle'}>"

    def step(self, logs: Mapping[TopicPartition, Log], now_wall_ms: int) -> bool:
        """Do one step of work. False when there is nothing to clean now. OSError: see `LogManager.fail`."""
        if self._cleaning is None:
            self._tp, dirty = self._choose(logs, now_wall_ms)
            if self._tp is None or dirty is None:
                return False
            self._cleaning = self._clean(logs[self._tp], dirty, now_wall_ms)
        assert self._tp is not None
        try:
            next(self._cleaning)
        except (StopIteration, _SegmentsChanged):
            self._cleaning = None
        except (CorruptRecords, Uncleanable) as problem:
            self._cleaning = None
            self.uncleanable.add(self._tp)
            self._report(f"{self._tp} will not be compacted any more: {problem}")
        except BaseException:
            self._cleaning = None
            raise
        return True

    def forget(self, tp: TopicPartition) -> None:
        """Forget a deleted partition."""
        self.abandon_partition(tp)
        self.uncleanable.discard(tp)
        if self.cleaned_up_to.pop(tp, None) is not None:
            self._write_checkpoint()

    def truncate(self, tp: TopicPartition, end_offset: int) -> None:
        """Take records appended at or after `end_offset` for dirty, after the log was truncated to there."""
        if self.cleaned_up_to.get(tp, 0) > end_offset:
            self.cleaned_up_to[tp] = end_offset
            self._write_checkpoint()

    def abandon_partition(self, tp: TopicPartition) -> None:
        """Cancel the cleaning in progress if it is that of a partition which is about to be deleted."""
        if tp == self._tp:
            self.abandon()

    def abandon(self) -> None:
        """Cancel the cleaning in progress and remove its files."""
        cleaning, self._cleaning = self._cleaning, None
        if cleaning is not None:
            cleaning.close()

    def _choose(
        self, logs: Mapping[TopicPartition, Log], now_wall_ms: int
    ) -> tuple[TopicPartition | None, DirtySection | None]:
        due = []
        for tp, log in logs.items():
            if log.config.is_compacted and tp not in self.uncleanable:
                dirty = self.dirty_section_of(log, now_wall_ms)
                if dirty.is_due(log.config):
                    due.append((dirty.ratio, tp, dirty))
        return max(due)[1:] if due else (None, None)

    def dirty_section_of(self, log: Log, now_wall_ms: int) -> DirtySection:
        """Return the dirty part of a log."""
        with_first_timestamp = log.config.max_compaction_lag_ms < _NO_LAG
        return find_dirty_section(
            [_stats(segment, with_first_timestamp) for segment in log.segments],
            cleaned_up_to=self.cleaned_up_to.get(log.tp, log.log_start_offset),
            log_start_offset=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
            config=log.config,
            now_wall_ms=now_wall_ms,
        )

    def _clean(self, log: Log, dirty: DirtySection, now_wall_ms: int) -> Generator[None]:
        segments = [segment for segment in log.segments[:-1] if segment.base_offset < dirty.end]
        latest = LatestOffsets(self._max_keys)
        yield from self._index(log, segments, dirty, latest)
        segments = [segment for segment in segments if segment.base_offset < latest.end]
        groups = group_segments([_stats(segment) for segment in segments], log.config.segment_bytes)
        # A transaction may extend over several groups.
        transactions = CleanedTransactions(log.aborted_between(segments[0].base_offset, dirty.end) if segments else ())
        for group in groups:
            yield from _clean_group(log, segments[group.start : group.stop], latest, transactions, now_wall_ms)
        if log.log_start_offset <= latest.end:
            self.cleaned_up_to[log.tp] = latest.end
            self._write_checkpoint()

    def _index(
        self, log: Log, segments: Sequence[LogSegment], dirty: DirtySection, latest: LatestOffsets
    ) -> Generator[None]:
        """Add the keys of the dirty part to `latest`, up to the largest number of keys."""
        latest.end = dirty.start
        transactions = CleanedTransactions(log.aborted_between(dirty.start, dirty.end))
        read_bytes = 0
        for segment in segments:
            for info in read_batches(segment):
                if info.last_offset < dirty.start:
                    continue
                if latest.is_full:
                    return
                if transactions.is_removable(info) or info.is_control:
                    latest.end = info.last_offset + 1
                else:
                    latest.add(info, log.max_decompressed_bytes)
                read_bytes += _cost_bytes(info)
                if read_bytes >= STEP_BYTES:
                    read_bytes = 0
                    yield
                    _check_unchanged(log, segments)
        latest.end = dirty.end

    def _write_checkpoint(self) -> None:
        write_offsets(self._files, self._path, self.cleaned_up_to)


def _clean_group(
    log: Log,
    segments: Sequence[LogSegment],
    latest: LatestOffsets,
    transactions: CleanedTransactions,
    now_wall_ms: int,
) -> Generator[None]:
    """Write the records to keep of `segments` to one new segment, and replace them by it."""
    cleaned = log.create_cleaned(segments[0].base_offset)
    transactions.retained = cleaned.aborted = []
    read_bytes, is_replaced = 0, False
    try:
        for segment in segments:
            for info in read_batches(segment):
                filtered = filter_batch(
                    info,
                    latest,
                    is_removable=transactions.is_removable(info),
                    is_producers_last=log.producers.has_as_last_batch(info),
                    delete_retention_ms=log.config.delete_retention_ms,
                    now_wall_ms=now_wall_ms,
                    max_bytes=log.max_decompressed_bytes,
                )
                if filtered is not None:
                    cleaned.append([read_batch_info(filtered)], filtered)
                read_bytes += _cost_bytes(info)
                if read_bytes >= STEP_BYTES:
                    read_bytes = 0
                    yield
                    _check_unchanged(log, segments)
        log.replace_segments(cleaned, segments)
        is_replaced = True
        for segment in segments[1:]:
            log.producers.delete_snapshot(segment.base_offset)
    finally:
        if not is_replaced:
            cleaned.remove()
    yield


def read_batches(segment: LogSegment) -> Iterator[BatchInfo]:
    """Yield every batch of a segment with its bytes. `Uncleanable` for damage."""
    try:
        for position, info in segment.batches(bodies=True):
            if not has_valid_checksum(info):
                raise Uncleanable(
                    f"its segment {segment.base_offset} is damaged: at byte {position} the checksum is wrong"
                )
            yield info
    except LogDamage as damage:
        raise Uncleanable(f"its segment {segment.base_offset} is damaged: {damage}") from None


def _cost_bytes(info: BatchInfo) -> int:
    """Return the bytes that reading a batch counts for in a step."""
    return max(info.size, info.record_count * _RECORD_COST_BYTES, _COMPRESSED_COST_BYTES if info.codec else 0)


def _check_unchanged(log: Log, segments: Sequence[LogSegment]) -> None:
    current = {id(segment) for segment in log.segments}
    if not all(id(segment) in current for segment in segments):
        raise _SegmentsChanged


def _stats(segment: LogSegment, with_first_timestamp: bool = False) -> SegmentStats:
    first_ms = segment.first_timestamp_ms if with_first_timestamp else -1
    return SegmentStats(segment.base_offset, segment.size, segment.max_timestamp_ms, first_ms)

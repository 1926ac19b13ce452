"""Log: the records of one partition, as a directory of segments. Kafka's UnifiedLog.

Appends assign offsets to batches, reads return slices of segment files, retention and DeleteRecords remove the oldest
segments. The format on disk is Kafka's (https://kafka.apache.org/documentation/#log). No method waits for anything but
the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from kcli.broker.files import Files
from kcli.broker.log.file_records import LogDamage
from kcli.broker.log.leader_epoch_cache import LeaderEpochCache
from kcli.broker.log.loader import LoadRequest, load
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.producer_state import ProducerStateManager
from kcli.broker.log.retention import Bounds, segments_to_delete
from kcli.broker.log.segment import TRANSACTION_INDEX, LogSegment
from kcli.broker.log.segment_index import AbortedTransaction
from kcli.broker.log.segment_swap import CLEANED, replace_segments
from kcli.broker.log.segments import (
    LogOffsetMetadata,
    LogRead,
    end_metadata,
    find_offset,
    first_at_or_after,
    read_segments,
    record_with_largest_timestamp,
    segment_number,
)
from kcli.broker.log.transaction_index import TransactionIndex
from kcli.broker.log.validator import validate_and_assign
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.protocol.records.batch import BatchInfo, Buffer
from kcli.structs import OffsetAndTimestamp, TopicPartition

__all__ = ["AppendInfo", "Log", "LogOffsetMetadata", "LogRead"]

NO_APPEND_TIME = -1


class AppendInfo(NamedTuple):
    """Offsets of an appended batch. `log_append_time_ms` is -1 when records keep the timestamps of their producer."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Log:
    """One partition's log. `log_end_offset` is the offset of the next record; appends do not move `high_watermark`."""

    def __init__(
        self,
        directory: str,
        tp: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        files: Files,
        report: Callable[[str], None],
    ) -> None:
        """Called by `Log.open`."""
        self.directory = directory
        self.tp = tp
        self.topic_id = topic_id
        self.config = config
        self.epochs = LeaderEpochCache(directory, files)
        self.producers = ProducerStateManager(tp, directory, files)
        has_files = any(name.endswith(TRANSACTION_INDEX) for name in files.list(directory))
        self.transactions = TransactionIndex(self.producers, report, has_files=has_files)
        self.segments: list[LogSegment] = []
        self.log_start_offset = self.log_end_offset = self.high_watermark = self.recovery_point = 0
        self.is_closed = False
        self._files = files
        self._report = report
        self._unflushed_since_ms: int | None = None
        self._reported_damage: set[str] = set()

    @classmethod
    def open(
        cls,
        directory: str,
        tp: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        files: Files,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool,
        now_wall_ms: int,
        report: Callable[[str], None],
    ) -> Log:
        """Open a directory (created when missing); recover it after a shutdown that was not `clean`.

        Everything below `recovery_point` was flushed. Problems are reported to `report` as sentences.
        `CorruptRecords` for record formats before Kafka 0.11, `ConfigError` for a damaged checkpoint.
        """
        files.make_dir(directory)
        log = cls(directory, tp, topic_id, config, files, report)
        request = LoadRequest(
            files, directory, recovery_point, log_start_offset, clean, config.index_interval_bytes, now_wall_ms, report
        )
        log.segments, log.log_start_offset, log.log_end_offset, log.recovery_point = load(
            request, log.epochs, log.producers
        )
        log.high_watermark = log.log_start_offset
        log.transactions.rebuild_recovered(log.segments)
        if log.producers.first_open_offset is not None:
            report(
                f"{tp} has an open transaction since offset {log.producers.first_open_offset}: "
                "read_committed consumers stop there, because this broker cannot end it"
            )
        if log.log_end_offset and not log.size_bytes:
            log.active_segment.establish()
        return log

    def __repr__(self) -> str:
        offsets = f"{self.log_start_offset}..{self.high_watermark}..{self.log_end_offset}"
        return f"<Log {self.tp} {offsets} in {len(self.segments)} segments, {self.size_bytes} bytes>"

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def active_segment(self) -> LogSegment:
        return self.segments[-1]

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers can read: all transactions before it have ended."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def end_metadata(self) -> LogOffsetMetadata:
        return end_metadata(self.segments, self.log_end_offset)

    # ---- appending ----

    def append(self, records: Buffer, *, leader_epoch: int, now_wall_ms: int, from_client: bool = True) -> AppendInfo:
        """Append one batch; its (writable) bytes are changed. A producer's retry returns the offsets of the first try.

        `BrokerError` (`RecordsRefused` with its reason) when it is refused, `OSError` when it cannot be written. The
        log is then unchanged.
        """
        if self.is_closed:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log is closed", partition=self.tp)
        config = self.config
        info = validate_and_assign(
            records if type(records) is memoryview else memoryview(records),
            base_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            config=config,
            now_wall_ms=now_wall_ms,
            from_client=from_client,
        )
        if from_client:
            duplicate = self.producers.check(info)
            if duplicate is not None:
                return AppendInfo(*duplicate, self.log_start_offset)
        self._write(info, now_wall_ms)
        append_time_ms = info.max_timestamp_ms if info.is_append_time else NO_APPEND_TIME
        return AppendInfo(info.base_offset, info.last_offset, append_time_ms, self.log_start_offset)

    def _write(self, info: BatchInfo, now_wall_ms: int) -> None:
        segment = self.segments[-1]
        if segment.should_roll(info, self.config, now_wall_ms):
            segment = self.roll(now_wall_ms)
        if info.leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(info.leader_epoch, info.base_offset)
        segment.append(info)
        completed = self.producers.update(info)
        if completed is not None:
            self.transactions.add(self.segments, completed)
        self.log_end_offset = info.last_offset + 1
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_wall_ms
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def roll(self, now_wall_ms: int) -> LogSegment:
        """Flush the active segment and start a new one, unless the active one is empty."""
        if not self.segments[-1].size:
            return self.segments[-1]
        self._complete_newest()
        segment = self._new_segment(self.log_end_offset, now_wall_ms)
        segment.jitter_ms = _choose_jitter_ms(self.config)
        self.segments.append(segment)
        return segment

    def _complete_newest(self) -> None:
        """Write the newest segment's indexes and the producers, and flush the log."""
        self.segments[-1].seal()
        self.transactions.save(self.segments[-1])
        self.flush()
        self.producers.take_snapshot()

    def _new_segment(self, base_offset: int, now_wall_ms: int = 0, suffix: str = "") -> LogSegment:
        return LogSegment(
            self._files,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=now_wall_ms,
            suffix=suffix,
            report=self._report,
        )

    def flush(self) -> None:
        """Flush all segments; return when everything in the log is on the disk."""
        for segment in reversed(self.segments):
            segment.sync()
            if segment.base_offset <= self.recovery_point:
                break
        self.recovery_point = self.log_end_offset
        self._unflushed_since_ms = None

    def flush_if_due(self, now_wall_ms: int) -> bool:
        """Flush if the oldest unflushed append is older than `flush.ms`; return whether it was flushed."""
        since_ms = self._unflushed_since_ms
        if since_ms is None:
            return False
        if now_wall_ms < since_ms:  # the clock was set back
            self._unflushed_since_ms = now_wall_ms
        elif now_wall_ms - since_ms >= self.config.flush_ms:
            self.flush()
            return True
        return False

    # ---- reading ----

    def advance_high_watermark(self, offset: int) -> None:
        """Move the high watermark up to `offset`; never back, and never beyond the log end offset."""
        self.high_watermark = max(self.high_watermark, min(offset, self.log_end_offset))
        self.producers.on_high_watermark(self.high_watermark)

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one_message: bool) -> LogRead:
        """Return batches from the one with `offset` on: at most `max_bytes`, below offset `upto`, of one segment.

        With `min_one_message` the first batch is complete even if it is larger than `max_bytes`. `BrokerError`:
        OFFSET_OUT_OF_RANGE, or CORRUPT_MESSAGE when the log is damaged there.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, requested=offset,
                log_start=self.log_start_offset, log_end=self.log_end_offset,
            )  # fmt: skip
        if offset >= upto:
            return LogRead(self.offset_metadata(offset), None, False)
        try:
            return read_segments(
                self.segments, offset, max_bytes,
                upto=upto, end_offset=self.log_end_offset, min_one_message=min_one_message,
            )  # fmt: skip
        except (LogDamage, CorruptRecords) as damage:
            raise self._damaged(damage) from None

    def aborted_transactions(self, start: LogOffsetMetadata, size: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have records in the `size` bytes from `start` on.

        As in Kafka, the offset index gives the end of this range, so there may be a few more.
        """
        if not self.transactions.is_needed:
            return []
        number = segment_number(self.segments, start.segment_base_offset)
        upto = self.segments[number].index.offsets.first_from_position(start.position + size)
        if upto is None:
            is_newest = number + 1 == len(self.segments)
            upto = self.log_end_offset if is_newest else self.segments[number + 1].base_offset
        return self.aborted_between(start.offset, upto)

    def aborted_between(self, offset: int, upto: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records below `upto` and a marker at or after `offset`."""
        return self.transactions.between(self.segments, offset, upto)

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return the location of an offset. `BrokerError`: CORRUPT_MESSAGE when the log is damaged there."""
        try:
            return find_offset(self.segments, offset, end_offset=self.log_end_offset)
        except (LogDamage, CorruptRecords) as damage:
            raise self._damaged(damage) from None

    def _damaged(self, damage: Exception) -> BrokerError:
        text = f"the log of {self.tp} in {self.directory} is damaged: {damage}"
        if text not in self._reported_damage:  # consumers retry without end
            self._reported_damage.add(text)
            self._report(text)
        return BrokerError(ErrorCode.CORRUPT_MESSAGE, str(damage), partition=self.tp)

    def offset_for_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        """Return the first record with this timestamp or a later one. `BrokerError` as for `read`."""
        try:
            return first_at_or_after(self.segments, timestamp_ms, self.log_start_offset)
        except (LogDamage, CorruptRecords) as damage:
            raise self._damaged(damage) from None

    def max_timestamp(self) -> OffsetAndTimestamp | None:
        """Return the first record with the largest timestamp; None without timestamps. `BrokerError` as for `read`."""
        try:
            return record_with_largest_timestamp(self.segments, self.log_start_offset)
        except (LogDamage, CorruptRecords) as damage:
            raise self._damaged(damage) from None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` and its end offset; (-1, -1) when unknown (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- deleting ----

    def delete_records(self, upto: int) -> int:
        """Move the log start offset to `upto` (-1: the high watermark); return the new log start offset.

        `BrokerError`: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        upto = self.high_watermark if upto == -1 else upto
        if not 0 <= upto <= self.high_watermark:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, requested=upto)
        if upto > self.log_start_offset:
            self.log_start_offset = upto
            self._delete_first(segment_number(self.segments, upto))
            self.epochs.truncate_from_start(upto)
        return self.log_start_offset

    def retain(self, now_wall_ms: int) -> list[str]:
        """Delete segments by the topic's retention; return a sentence about each. Idle segment files are closed."""
        bounds = Bounds(self.log_start_offset, self.high_watermark, self.log_end_offset)
        due = segments_to_delete(self.segments, self.config, bounds, now_wall_ms)
        if len(due) == len(self.segments):
            self.roll(now_wall_ms)
        self._delete_first(len(due))
        for segment in self.segments[:-1]:
            segment.release_file()
        return [f"the segment {base_offset} of {self.tp} was deleted: {reason}" for base_offset, reason in due]

    def _delete_first(self, count: int) -> None:
        if count <= 0:
            return
        if count + 1 == len(self.segments):
            self.active_segment.establish()  # a recovery needs it to find the log end offset
        deleted, self.segments = self.segments[:count], self.segments[count:]
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        for segment in deleted:
            segment.remove()
        self.producers.delete_snapshots_before(self.segments[0].base_offset)
        self.epochs.truncate_from_start(self.log_start_offset)

    # ---- compaction ----

    def create_cleaned(self, base_offset: int) -> LogSegment:
        """Create a segment for a cleaner to write to; it is not part of the log until it replaces others."""
        segment = self._new_segment(base_offset, suffix=CLEANED)
        segment.remove()
        return segment

    def replace_segments(self, cleaned: LogSegment, old: Sequence[LogSegment]) -> None:
        """Replace the `old` segments by `cleaned`. They are adjacent and do not include the newest."""
        self.transactions.save(cleaned)
        self.segments = replace_segments(self._files, self.segments, cleaned, old)

    def discard_cleaned(self, cleaned: LogSegment) -> None:
        """Remove the segment of a cancelled cleaning."""
        cleaned.remove()

    # ---- closing ----

    def close(self, *, clean: bool = True) -> None:
        """Close the log. `clean`: flush everything and write indexes and producers; otherwise like a crash.

        Slices that are still being sent keep their files open.
        """
        if clean and not self.is_closed:
            self._complete_newest()
        self.is_closed = True
        for segment in self.segments:
            segment.release_file()

    def delete(self) -> None:
        """Close the log and remove its directory."""
        self.close(clean=False)
        self._files.remove_tree(self.directory)


def _choose_jitter_ms(config: LogConfig) -> int:
    """Choose a random part of `segment.jitter.ms`, so that many logs do not roll at the same time."""
    max_ms = min(config.segment_jitter_ms, config.segment_ms)
    if max_ms <= 0:
        return 0
    from random import randrange  # slow to import, and rarely needed

    return randrange(max_ms)

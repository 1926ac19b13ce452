"""Log: the records of one partition, as a directory of segments. Kafka's UnifiedLog.

Appends assign offsets to batches, reads return slices of segment files, retention and DeleteRecords remove the oldest
segments. The format on disk is Kafka's (https://kafka.apache.org/documentation/#log). No method waits for anything but
the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.broker.files import Files
from kcli.broker.log.checkpoint_files import LEADER_EPOCHS
from kcli.broker.log.file_records import LogDamage
from kcli.broker.log.leader_epoch_cache import LeaderEpochCache
from kcli.broker.log.loader import LoadRequest, load, load_producers
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.producer_state import ProducerStateManager
from kcli.broker.log.segment import TRANSACTION_INDEX, LogSegment
from kcli.broker.log.segment_index import AbortedTransaction
from kcli.broker.log.segment_swap import CLEANED, replace_segments
from kcli.broker.log.segments import (
    Bounds,
    LogOffsetMetadata,
    LogRead,
    count_unretained,
    end_metadata,
    find_offset,
    first_at_or_after,
    read_segments,
    record_with_largest_timestamp,
    segment_number,
)
from kcli.broker.log.transaction_index import TransactionIndex
from kcli.broker.log.validator import RecordsRefused, batches_of_leader, validate_and_assign
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, RecordTooLarge
from kcli.protocol.records.batch import BatchInfo, Buffer
from kcli.settings import MAX_DECOMPRESSED_BYTES
from kcli.structs import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.log.producer_checks import TransactionMarker, Verification

__all__ = ["AppendInfo", "Log", "LogOffsetMetadata", "LogRead"]

NO_APPEND_TIME = -1


class AppendInfo(NamedTuple):
    """Offsets of an appended batch. `log_append_time_ms` is -1 when records keep the timestamps of their producer."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    size_bytes: int


class StoredOffsets(NamedTuple):
    """The offsets of a log in the checkpoint files. Everything below `recovery_point` was flushed."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


NOTHING_STORED = StoredOffsets()


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
        names: Collection[str] = (),
    ) -> None:
        """Called by `Log.open`. `names`: the files in the directory."""
        self.directory = directory
        self.tp = tp
        self.topic_id = topic_id
        self.config = config
        self.epochs = LeaderEpochCache(directory, files, report, has_file=LEADER_EPOCHS in names)
        self.producers = ProducerStateManager(tp, directory, files)
        has_files = any(name.endswith(TRANSACTION_INDEX) for name in names)
        self.transactions = TransactionIndex(self.producers, report, has_files=has_files)
        self.segments: list[LogSegment] = []
        self.log_start_offset = self.log_end_offset = self.high_watermark = self.recovery_point = 0
        self.is_closed = False
        #: Largest decompressed size of a batch.
        self.max_decompressed_bytes = MAX_DECOMPRESSED_BYTES
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
        stored: StoredOffsets = NOTHING_STORED,
        clean: bool,
        now_wall_ms: int,
        report: Callable[[str], None],
        is_replica: bool = False,
    ) -> Log:
        """Open a directory (created when missing); recover it after a shutdown that was not `clean`.

        Problems are reported to `report` as sentences; with `is_replica`, other brokers may have the records that were
        removed.
        `CorruptRecords` for record formats before Kafka 0.11.
        """
        names = _list_or_create(files, directory)
        log = cls(directory, tp, topic_id, config, files, report, names)
        request = LoadRequest(
            files,
            directory,
            names,
            stored.recovery_point,
            stored.log_start_offset,
            clean,
            config.index_interval_bytes,
            now_wall_ms,
            report,
            is_replica,
        )
        log.segments, log.log_start_offset, log.log_end_offset, log.recovery_point = load(
            request, log.epochs, log.producers
        )
        log.high_watermark = max(log.log_start_offset, min(stored.high_watermark, log.log_end_offset))
        log.producers.on_high_watermark(log.high_watermark)
        log.transactions.rebuild_recovered(log.segments)
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

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_wall_ms: int,
        from_client: bool = True,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Append one batch; its (writable) bytes are changed. A producer's retry returns the offsets of the first try.

        The first batch of a transaction needs its `verification`. `BrokerError` (`RecordsRefused` with its reason) when
        it is refused, `OSError` when it cannot be written. The log is then unchanged.
        """
        self._check_open()
        config = self.config
        records = records if type(records) is memoryview else memoryview(records)
        try:
            info = validate_and_assign(
                records,
                base_offset=self.log_end_offset,
                leader_epoch=leader_epoch,
                config=config,
                now_wall_ms=now_wall_ms,
                from_client=from_client,
                max_decompressed_bytes=self.max_decompressed_bytes,
            )
        except MemoryError:
            text = f"there is not enough memory to check a batch of {len(records)} bytes for {self.tp}"
            raise RecordsRefused(ErrorCode.MESSAGE_TOO_LARGE, text) from None
        if from_client or (info.is_transactional and not info.is_control):
            duplicate = self.producers.check(info, verification, from_client=from_client)
            if duplicate is not None:
                return AppendInfo(*duplicate, self.log_start_offset, info.size)
        if self.segments[-1].should_roll(info, config, now_wall_ms):
            self.roll(now_wall_ms)
        self._write([info], info.records, now_wall_ms)
        append_time_ms = info.max_timestamp_ms if info.is_append_time else NO_APPEND_TIME
        return AppendInfo(info.base_offset, info.last_offset, append_time_ms, self.log_start_offset, info.size)

    def append_marker(self, marker: TransactionMarker, *, leader_epoch: int, now_wall_ms: int) -> AppendInfo:
        """Append the control batch that ends a transaction. `BrokerError` if it is refused, `OSError` as for `append`.

        A marker of a producer without an open transaction is written, too: it has the producer's epoch.
        """
        from kcli.protocol.records.builder import build_marker

        self._check_open()
        self.producers.check_marker(marker)
        data = build_marker(
            marker.producer_id,
            marker.producer_epoch,
            commit=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_wall_ms,
        )
        return self.append(bytearray(data), leader_epoch=leader_epoch, now_wall_ms=now_wall_ms, from_client=False)

    def _check_open(self) -> None:
        if self.is_closed:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log is closed", partition=self.tp)

    def append_as_follower(self, records: Buffer, *, leader_epoch: int, now_wall_ms: int) -> int:
        """Append batches of a leader byte for byte, with their offsets and leader epochs; return the number of bytes.

        A partial batch at the end is ignored, and so are batches of a later epoch than `leader_epoch`, the one in which
        they were fetched. `CorruptRecords` for a batch that is not valid or does not continue the log; then nothing is
        appended. `OSError` as for `append`, after which the log has whole batches only.
        """
        self._check_open()
        data = records if type(records) is memoryview else memoryview(records)
        infos = batches_of_leader(data, leader_epoch)
        if not infos:
            return 0
        begins_within = infos[0].base_offset < self.log_end_offset
        if begins_within:
            self._begin_within(infos[0], now_wall_ms)
        first = at = 0
        while first < len(infos):
            run = self._run_of(infos, first, now_wall_ms)
            size = sum(info.size for info in run)
            self._write(run, data[at : at + size], now_wall_ms)
            first, at = first + len(run), at + size
        if begins_within:
            self.epochs.truncate_from_start(self.log_start_offset)
        return at

    def _begin_within(self, info: BatchInfo, now_wall_ms: int) -> None:
        """Make room for a batch that starts before the log's end: only an empty log can start within a batch.

        The leader's start offset is within a batch after DeleteRecords.
        """
        end = self.log_end_offset
        if end > self.log_start_offset or info.last_offset < end:
            raise CorruptRecords(
                f"a batch of the leader starts at offset {info.base_offset}, but the log ends at {end}",
                partition=self.tp,
            )
        self.restart_at(info.base_offset, now_wall_ms=now_wall_ms, log_start_offset=end)

    def _run_of(self, infos: Sequence[BatchInfo], first: int, now_wall_ms: int) -> Sequence[BatchInfo]:
        """Return the batches from `first` on that can be written at once: of one leader epoch, and to one segment.

        The segment is rolled before where the leader would roll it.
        """
        segment = self.segments[-1]
        if segment.should_roll(infos[first], self.config, now_wall_ms):
            segment = self.roll(now_wall_ms)
        if not segment.size:
            return infos[first : first + 1]
        epoch, end, size, newest_ms = infos[first].leader_epoch, first, 0, -1
        while end < len(infos) and infos[end].leader_epoch == epoch:
            size += infos[end].size
            newest_ms = max(newest_ms, infos[end].max_timestamp_ms)
            end += 1
        together = infos[end - 1]._replace(size=size, max_timestamp_ms=newest_ms)
        if segment.should_roll(together, self.config, now_wall_ms):
            end = first + 1
        return infos[first:end]

    def _write(self, run: Sequence[BatchInfo], data: Buffer, now_wall_ms: int) -> None:
        """Write batches of one leader epoch to the active segment."""
        if run[0].leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(run[0].leader_epoch, run[0].base_offset)
        self.segments[-1].append(run, data)
        producers = self.producers
        for info in run:
            completed = producers.update(info)
            if completed is not None:
                self.transactions.add(self.segments, completed)
        self.log_end_offset = run[-1].last_offset + 1
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

    @contextmanager
    def _decompressing(self) -> Iterator[None]:
        """Raise BrokerError for damage, and for records that are too large when they are decompressed."""
        try:
            yield
        except (LogDamage, CorruptRecords) as damage:
            raise self._damaged(damage) from None
        except RecordTooLarge as refusal:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, refusal.message, partition=self.tp) from None

    def offset_for_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        """Return the first record with this timestamp or a later one. `BrokerError` as for `read`."""
        with self._decompressing():
            limit = self.max_decompressed_bytes
            return first_at_or_after(self.segments, timestamp_ms, self.log_start_offset, max_bytes=limit)

    def max_timestamp(self) -> OffsetAndTimestamp | None:
        """Return the first record with the largest timestamp; None without timestamps. `BrokerError` as for `read`."""
        with self._decompressing():
            limit = self.max_decompressed_bytes
            return record_with_largest_timestamp(self.segments, self.log_start_offset, max_bytes=limit)

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
        self.advance_start(upto)
        return self.log_start_offset

    def advance_start(self, offset: int) -> bool:
        """Move the log start offset up to `offset`, at most to the high watermark; False if nothing changes."""
        offset = min(offset, self.high_watermark)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._delete_first(segment_number(self.segments, offset))
        self.epochs.truncate_from_start(offset)
        return True

    def retain(self, now_wall_ms: int) -> int:
        """Delete segments by the topic's retention; return their number. Idle segment files are closed."""
        bounds = Bounds(self.log_start_offset, self.high_watermark, self.log_end_offset)
        count = count_unretained(self.segments, self.config, bounds, now_wall_ms)
        if count == len(self.segments):
            self.roll(now_wall_ms)
        self._delete_first(count)
        for segment in self.segments[:-1]:
            segment.release_file()
        return count

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

    # ---- truncation ----
    #
    # A crash at any point leaves a log that ends somewhere between the old and the new end. The names of the removed
    # files are flushed before the file that remains is truncated: after a power loss, a removed segment that is back
    # would otherwise follow records that were appended later. The checkpoints of the data directory still have the old
    # recovery point and log start offset: `LogManager` writes them before anything is appended.

    def truncate_to(self, offset: int, *, now_wall_ms: int) -> bool:
        """Remove the records from `offset` on; False if there are none. A batch that contains it is removed whole.

        If the log starts at or after `offset`, all records are removed, and the log continues there. `BrokerError`
        CORRUPT_MESSAGE when the log is damaged there.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)  # an epoch without records may start at the end
            return False
        if offset <= self.log_start_offset:
            self.restart_at(offset, now_wall_ms=now_wall_ms)
            return True
        number = segment_number(self.segments, offset)
        segment = self.segments[number]
        try:
            first = next(segment.batches(offset), None)
        except LogDamage as damage:
            raise self._damaged(damage) from None
        end = offset if first is None else min(offset, first[1].base_offset)
        self._remove_after(number, end)
        if first is not None:
            segment.truncate(first[0])
        self.log_end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        self.high_watermark = min(self.high_watermark, end)
        self.epochs.truncate_from_end(end)
        snapshots = self.producers.snapshots()
        load_producers(self.segments, self.producers, snapshots, self.log_start_offset, end, now_wall_ms, self._report)
        self.producers.on_high_watermark(self.high_watermark)
        return True

    def _remove_after(self, number: int, end: int) -> None:
        """Remove the segments after one, newest first, and everything else that describes records from `end` on."""
        self.transactions.truncate(self.segments, number, end)
        while len(self.segments) > number + 1:
            self.segments[-1].remove()
            del self.segments[-1]
        self.producers.delete_snapshots_after(end)
        self._files.sync_dir(self.directory)

    def restart_at(self, offset: int, *, now_wall_ms: int, log_start_offset: int | None = None) -> None:
        """Remove all records; the next one has this offset. The log starts there or at `log_start_offset`."""
        self.transactions.forget_rebuilt()
        for segment in reversed(self.segments):
            segment.remove()
        self.producers.delete_snapshots_after(-1)
        self._files.sync_dir(self.directory)
        self.epochs.clear()
        self.segments = [self._new_segment(offset, now_wall_ms)]
        self.log_end_offset = self.recovery_point = offset
        self.log_start_offset = self.high_watermark = offset if log_start_offset is None else log_start_offset
        self.active_segment.establish()
        self.producers.load(offset, offset, now_wall_ms)

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

    # ---- closing ----

    def close(self, *, clean: bool = True) -> None:
        """Close the log. `clean`: flush everything and write indexes and producers; otherwise like a crash.

        A log that never had a record has nothing to write. Slices that are still being sent keep their files open.
        """
        if clean and not self.is_closed and self.log_end_offset:
            self._complete_newest()
        self.is_closed = True
        for segment in self.segments:
            segment.release_file()

    def delete(self) -> None:
        """Close the log and remove its directory."""
        self.close(clean=False)
        self._files.remove_tree(self.directory)


def _list_or_create(files: Files, directory: str) -> list[str]:
    """Return the names in a directory, which is created if it is missing."""
    try:
        return files.list(directory)
    except FileNotFoundError:
        files.make_dir(directory)
        return []


def _choose_jitter_ms(config: LogConfig) -> int:
    """Choose a random part of `segment.jitter.ms`, so that many logs do not roll at the same time."""
    max_ms = min(config.segment_jitter_ms, config.segment_ms)
    if max_ms <= 0:
        return 0
    from random import randrange  # slow to import, and rarely needed

    return randrange(max_ms)

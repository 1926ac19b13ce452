"""Reads and look-ups in a log's segments, which are ordered by base offset: by offset, by timestamp and by age."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.segment import LogSegment
from kcli.network.file_slice import FileSlice
from kcli.protocol.records.batch import BatchInfo
from kcli.protocol.records.scan import iter_records
from kcli.settings import MAX_DECOMPRESSED_BYTES
from kcli.structs import OffsetAndTimestamp

NO_LIMIT = -1  # of retention.bytes and retention.ms

_base_offset = attrgetter("base_offset")


class LogOffsetMetadata(NamedTuple):
    """An offset and its location: the segment, and the byte position of its batch in the segment."""

    offset: int
    segment_base_offset: int
    position: int


class LogRead(NamedTuple):
    """The result of a read. `first_batch_only`: the first batch alone is larger than the requested size."""

    start: LogOffsetMetadata
    records: FileSlice | None
    first_batch_only: bool


def read_segments(
    segments: Sequence[LogSegment], offset: int, max_bytes: int, *, upto: int, end_offset: int, min_one_message: bool
) -> LogRead:
    """Read from the one segment that contains `offset` or the next existing offset; see `Log.read`. `LogDamage`."""
    for number in range(segment_number(segments, offset), len(segments)):
        segment = segments[number]
        next_offset = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        read = segment.read(
            offset, max_bytes, _position_of(segment, upto, next_offset), min_one_message=min_one_message
        )
        if read is not None:
            start = LogOffsetMetadata(offset, segment.base_offset, read.position)
            return LogRead(start, read.records if len(read.records) else None, read.batch_bytes > max_bytes)
    return LogRead(end_metadata(segments, end_offset), None, False)


def find_offset(segments: Sequence[LogSegment], offset: int, *, end_offset: int) -> LogOffsetMetadata:
    """Return the location of an offset or of the next existing one. `LogDamage`."""
    if offset < end_offset:
        for segment in segments[segment_number(segments, offset) :]:
            location = segment.locate(offset)
            if location is not None:
                return LogOffsetMetadata(offset, segment.base_offset, location[0])
    return end_metadata(segments, end_offset)


def end_metadata(segments: Sequence[LogSegment], end_offset: int) -> LogOffsetMetadata:
    """Return the location of the next record to be appended."""
    newest = segments[-1]
    return LogOffsetMetadata(end_offset, newest.base_offset, newest.size)


def segment_number(segments: Sequence[LogSegment], offset: int) -> int:
    """Return the index of the last segment with a base offset up to `offset`, or 0 when there is none."""
    if segments[-1].base_offset <= offset:
        return len(segments) - 1
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _position_of(segment: LogSegment, offset: int, next_offset: int) -> int:
    """Return the end position of the batches below `offset` in a segment whose offsets are below `next_offset`."""
    location = None if offset >= next_offset else segment.locate(offset)
    return location[0] if location else segment.size


def first_at_or_after(
    segments: Sequence[LogSegment], time_ms: int, start_offset: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> OffsetAndTimestamp | None:
    """Return the first record at or after `start_offset` with this timestamp or a later one (ListOffsets, KIP-79).

    `LogDamage` or `CorruptRecords` when the log is damaged there, `RecordTooLarge` for a batch that decompresses to
    more than `max_bytes`.
    """
    for segment in segments:
        if segment.max_timestamp_ms < time_ms or segment.next_offset <= start_offset:
            continue
        for position, info in segment.batches(max(segment.index.times.before(time_ms), start_offset)):
            if info.max_timestamp_ms >= time_ms:
                record = _first_record(segment, position, info, time_ms, start_offset, max_bytes)
                if record is not None:
                    return record
    return None


def record_with_largest_timestamp(
    segments: Sequence[LogSegment], start_offset: int, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> OffsetAndTimestamp | None:
    """Return the first record at or after `start_offset` with the largest timestamp (KIP-734).

    Errors as of `first_at_or_after`.
    """
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    time_ms, offset = newest.max_timestamp_ms, newest.index.max_timestamp_offset
    if time_ms < 0:
        return None
    if offset < start_offset:  # that record was deleted by DeleteRecords
        times = (info.max_timestamp_ms for segment in segments for _, info in segment.batches(start_offset))
        time_ms = max(times, default=-1)
        return first_at_or_after(segments, time_ms, start_offset, max_bytes=max_bytes) if time_ms >= 0 else None
    return first_at_or_after([newest], time_ms, start_offset, max_bytes=max_bytes)


def _first_record(
    segment: LogSegment, position: int, info: BatchInfo, time_ms: int, start_offset: int, max_bytes: int
) -> OffsetAndTimestamp | None:
    for record in iter_records(segment.file.read_at(position, info.size), max_bytes):
        if record.timestamp_ms >= time_ms and record.offset >= start_offset:
            return OffsetAndTimestamp(record.offset, record.timestamp_ms, info.leader_epoch)
    return None


class Bounds(NamedTuple):
    """Offsets of the log. Records at or above the high watermark are never deleted."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


def count_unretained(segments: Sequence[LogSegment], config: LogConfig, bounds: Bounds, now_wall_ms: int) -> int:
    """Return how many of the first segments are to be deleted, by log start offset, age and size.

    The newest one, unless empty, may be deleted by age or size, but not because the log start offset is beyond it.
    """
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    next_offsets = [segment.base_offset for segment in segments[1:]]
    for number, (segment, end) in enumerate(zip(segments, [*next_offsets, bounds.log_end_offset], strict=True)):
        is_newest = number == len(segments) - 1
        if end > bounds.high_watermark or (is_newest and not segment.size):
            return number
        is_before_start = end <= bounds.log_start_offset and not is_newest
        if not is_before_start and not _has_expired(segment, config, excess_bytes, now_wall_ms):
            return number
        excess_bytes -= segment.size
    return len(segments)


def _has_expired(segment: LogSegment, config: LogConfig, excess_bytes: int, now_wall_ms: int) -> bool:
    if "delete" not in config.cleanup_policy:
        return False
    is_excess = config.retention_bytes != NO_LIMIT and excess_bytes >= segment.size
    return is_excess or (config.retention_ms != NO_LIMIT and now_wall_ms - segment.newest_ms > config.retention_ms)

"""Offsets by time: the first record at or after one, and the record with the largest (ListOffsets; KIP-79, KIP-734)."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.segment import LogSegment
from kcli.protocol.records.scan import iter_records
from kcli.structs import OffsetAndTimestamp


def first_not_before(segments: Sequence[LogSegment], time_ms: int, start_offset: int) -> OffsetAndTimestamp | None:
    """The first record from `start_offset` on that has this time or a later one. `LogDamage`, `CorruptRecords`."""
    for segment in segments:
        if segment.max_timestamp_ms < time_ms or segment.next_offset <= start_offset:
            continue
        for position, info in segment.batches(max(segment.index.times.before(time_ms), start_offset)):
            if info.max_timestamp_ms >= time_ms:
                found = _first_record(segment, position, info, time_ms, start_offset)
                if found is not None:
                    return found
    return None


def with_largest_time(segments: Sequence[LogSegment], start_offset: int) -> OffsetAndTimestamp | None:
    """The first record from `start_offset` on that has the largest time there is. `LogDamage`, `CorruptRecords`."""
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    time_ms, offset = newest.max_timestamp_ms, newest.index.max_timestamp_offset
    if time_ms < 0:
        return None
    if offset < start_offset:  # it is in a part of the segment that was deleted
        times = (info.max_timestamp_ms for segment in segments for _, info in segment.batches(start_offset))
        time_ms = max(times, default=-1)
        return first_not_before(segments, time_ms, start_offset) if time_ms >= 0 else None
    return first_not_before([newest], time_ms, start_offset)


def _first_record(
    segment: LogSegment, position: int, info: BatchInfo, time_ms: int, start_offset: int
) -> OffsetAndTimestamp | None:
    for record in iter_records(segment.file.read_at(position, info.size)):
        if record.timestamp_ms >= time_ms and record.offset >= start_offset:
            return OffsetAndTimestamp(record.offset, record.timestamp_ms, info.leader_epoch)
    return None

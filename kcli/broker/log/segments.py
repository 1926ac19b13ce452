"""From an offset to a slice of a file. A read ends at its size, at the offset to stop at, and with its segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.broker.log.segment import LogSegment
from kcli.network.file_slice import FileSlice
from kcli.protocol.records.batch import BatchInfo
from kcli.protocol.records.scan import iter_records
from kcli.structs import OffsetAndTimestamp


class LogOffsetMetadata(NamedTuple):
    """An offset, and where it lies: which segment, and at which byte of that its batch begins."""

    offset: int
    segment_base_offset: int
    position: int


class LogRead(NamedTuple):
    """What was found at an offset. `first_batch_only`: the first batch alone is more than was asked for."""

    start: LogOffsetMetadata
    records: FileSlice | None
    first_batch_only: bool


def read_segments(
    segments: Sequence[LogSegment], offset: int, max_bytes: int, *, upto: int, end_offset: int, min_one_message: bool
) -> LogRead:
    """Read the one segment that has `offset`, or the next offset there is; see `Log.read`. `LogDamage`."""
    for number in range(segment_number(segments, offset), len(segments)):
        segment = segments[number]
        behind = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        found = segment.read(offset, max_bytes, _position_of(segment, upto, behind), min_one_message=min_one_message)
        if found is not None:
            start = LogOffsetMetadata(offset, segment.base_offset, found.position)
            return LogRead(start, found.records if len(found.records) else None, found.batch_bytes > max_bytes)
    return LogRead(end_metadata(segments, end_offset), None, False)


def find_offset(segments: Sequence[LogSegment], offset: int, *, end_offset: int) -> LogOffsetMetadata:
    """Where an offset, or the next one there is, lies. `LogDamage`."""
    if offset < end_offset:
        for segment in segments[segment_number(segments, offset) :]:
            found = segment.locate(offset)
            if found is not None:
                return LogOffsetMetadata(offset, segment.base_offset, found[0])
    return end_metadata(segments, end_offset)


def end_metadata(segments: Sequence[LogSegment], end_offset: int) -> LogOffsetMetadata:
    """Where the next record will lie."""
    newest = segments[-1]
    return LogOffsetMetadata(end_offset, newest.base_offset, newest.size)


def segment_number(segments: Sequence[LogSegment], offset: int) -> int:
    """Which segment has this offset, or would have it: the last one that does not begin behind it, else the first."""
    low, high = 0, len(segments) - 1
    if segments[high].base_offset <= offset:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if segments[middle].base_offset <= offset:
            low = middle
        else:
            high = middle - 1
    return low


def _position_of(segment: LogSegment, offset: int, behind: int) -> int:
    """Where in a segment, which ends before the offset `behind`, the batches below `offset` end."""
    found = None if offset >= behind else segment.locate(offset)
    return found[0] if found else segment.size


def first_at_or_after(segments: Sequence[LogSegment], time_ms: int, start_offset: int) -> OffsetAndTimestamp | None:
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


def record_with_largest_timestamp(segments: Sequence[LogSegment], start_offset: int) -> OffsetAndTimestamp | None:
    """The first record from `start_offset` on that has the largest time there is. `LogDamage`, `CorruptRecords`."""
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    time_ms, offset = newest.max_timestamp_ms, newest.index.max_timestamp_offset
    if time_ms < 0:
        return None
    if offset < start_offset:  # it is in a part of the segment that was deleted
        times = (info.max_timestamp_ms for segment in segments for _, info in segment.batches(start_offset))
        time_ms = max(times, default=-1)
        return first_at_or_after(segments, time_ms, start_offset) if time_ms >= 0 else None
    return first_at_or_after([newest], time_ms, start_offset)


def _first_record(
    segment: LogSegment, position: int, info: BatchInfo, time_ms: int, start_offset: int
) -> OffsetAndTimestamp | None:
    for record in iter_records(segment.file.read_at(position, info.size)):
        if record.timestamp_ms >= time_ms and record.offset >= start_offset:
            return OffsetAndTimestamp(record.offset, record.timestamp_ms, info.leader_epoch)
    return None

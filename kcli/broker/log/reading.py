"""From an offset to a slice of a file. A read ends at its size, at the offset to stop at, and with its segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.broker.log.segment import LogSegment
from kcli.network.file_slice import FileSlice


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
    for number in range(number_of(segments, offset), len(segments)):
        segment = segments[number]
        behind = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        found = segment.read(offset, max_bytes, _position_of(segment, upto, behind), min_one_message=min_one_message)
        if found is not None:
            start = LogOffsetMetadata(offset, segment.base_offset, found.position)
            return LogRead(start, found.records if len(found.records) else None, found.batch_bytes > max_bytes)
    return LogRead(end_of(segments, end_offset), None, False)


def locate(segments: Sequence[LogSegment], offset: int, *, end_offset: int) -> LogOffsetMetadata:
    """Where an offset, or the next one there is, lies. `LogDamage`."""
    if offset < end_offset:
        for segment in segments[number_of(segments, offset) :]:
            found = segment.locate(offset)
            if found is not None:
                return LogOffsetMetadata(offset, segment.base_offset, found[0])
    return end_of(segments, end_offset)


def end_of(segments: Sequence[LogSegment], end_offset: int) -> LogOffsetMetadata:
    """Where the next record will lie."""
    newest = segments[-1]
    return LogOffsetMetadata(end_offset, newest.base_offset, newest.size)


def number_of(segments: Sequence[LogSegment], offset: int) -> int:
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

"""Retention: the segments to delete, oldest first, by log start offset, age and size. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.log.log_config import LogConfig

if TYPE_CHECKING:
    from kcli.broker.log.segment import LogSegment

NO_LIMIT = -1


class Bounds(NamedTuple):
    """Offsets of the log. Records at or above the high watermark are never deleted."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


def segments_to_delete(
    segments: Sequence[LogSegment], config: LogConfig, bounds: Bounds, now_wall_ms: int
) -> list[tuple[int, str]]:
    """Return the base offset and the reason of each segment to delete, oldest first. Only whole segments are deleted.

    The newest one, unless empty, may be deleted by age or size, but not because the log start offset is beyond it.
    """
    deletions: list[tuple[int, str]] = []
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    next_offsets = [segment.base_offset for segment in segments[1:]]
    for segment, end in zip(segments, [*next_offsets, bounds.log_end_offset], strict=True):
        is_newest = len(deletions) == len(segments) - 1
        if end > bounds.high_watermark or (is_newest and not segment.size):
            break
        reason = None
        if end <= bounds.log_start_offset and not is_newest:
            reason = f"the log starts at {bounds.log_start_offset}"
        elif "delete" in config.cleanup_policy:
            reason = _retention_reason(segment, config, excess_bytes, now_wall_ms)
        if reason is None:
            break
        excess_bytes -= segment.size
        deletions.append((segment.base_offset, reason))
    return deletions


def _retention_reason(segment: LogSegment, config: LogConfig, excess_bytes: int, now_wall_ms: int) -> str | None:
    if config.retention_bytes != NO_LIMIT and excess_bytes >= segment.size:
        return f"the log is larger than retention.bytes={config.retention_bytes}"
    if config.retention_ms != NO_LIMIT and now_wall_ms - segment.newest_ms > config.retention_ms:
        return f"its newest record is older than retention.ms={config.retention_ms}"
    return None

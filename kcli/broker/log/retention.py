"""Which segments are deleted, oldest first: those below the log's start, too old ones, and those beyond the size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kcli.broker.log.log_config import LogConfig

NO_LIMIT = -1


class Aged(Protocol):
    """What is asked of a segment. `newest_ms`: the time of its newest record, wall clock."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def newest_ms(self) -> int: ...


class Bounds(NamedTuple):
    """Where the log is: nothing at or above the high watermark is deleted."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


def segments_to_delete(
    segments: Sequence[Aged], config: LogConfig, bounds: Bounds, now_wall_ms: int
) -> list[tuple[int, str]]:
    """The base offsets of the segments to delete, each with the reason. Only whole segments go, oldest first.

    The newest one, unless empty, may go too; but not because the log's start has passed it.
    """
    found: list[tuple[int, str]] = []
    excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    behind = [segment.base_offset for segment in segments[1:]]
    for segment, end in zip(segments, [*behind, bounds.log_end_offset], strict=True):
        is_newest = len(found) == len(segments) - 1
        if end > bounds.high_watermark or (is_newest and not segment.size):
            break
        why = None
        if end <= bounds.log_start_offset and not is_newest:
            why = f"the log starts at {bounds.log_start_offset}"
        elif "delete" in config.cleanup_policy:
            why = _why_too_much(segment, config, excess_bytes, now_wall_ms)
        if why is None:
            break
        excess_bytes -= segment.size
        found.append((segment.base_offset, why))
    return found


def _why_too_much(segment: Aged, config: LogConfig, excess_bytes: int, now_wall_ms: int) -> str | None:
    if config.retention_bytes != NO_LIMIT and excess_bytes >= segment.size:
        return f"the log has more than retention.bytes={config.retention_bytes}"
    if config.retention_ms != NO_LIMIT and now_wall_ms - segment.newest_ms > config.retention_ms:
        return f"its newest record is older than retention.ms={config.retention_ms}"
    return None

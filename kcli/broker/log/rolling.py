"""When a log goes on in a new segment: its size, its age by the records' times, or no room in its indexes. Pure."""

from __future__ import annotations

from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.config import LogConfig
from kcli.broker.log.segment import LogSegment


def must_roll(segment: LogSegment, info: BatchInfo, config: LogConfig, now_wall_ms: int) -> bool:
    """Whether this batch belongs into a new segment. An empty one takes every batch.

    As in Kafka the age is how much later the batch's time is than that of the segment's first one; records without
    times make it the time since the segment was made.
    """
    if not segment.size:
        return False
    if segment.size + info.size > config.segment_bytes:
        return True
    first_ms = segment.first_timestamp_ms
    age_ms = info.max_timestamp_ms - first_ms if first_ms >= 0 else now_wall_ms - segment.created_ms
    if age_ms > config.segment_ms - segment.jitter_ms:
        return True
    return not segment.can_hold(info.last_offset, config.segment_index_bytes)


def choose_jitter_ms(config: LogConfig) -> int:
    """How much before its time a segment is rolled, so that many logs do not roll all at once."""
    most_ms = min(config.segment_jitter_ms, config.segment_ms)
    if most_ms <= 0:
        return 0
    from random import randrange  # few logs need it, and it takes its time to import

    return randrange(most_ms)

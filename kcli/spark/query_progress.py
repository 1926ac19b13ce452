"""Metrics of a stream's sources, from the progress that Spark reports: offsets behind the log ends, rows per second.

Spark's Kafka connector reports them as `metrics` of each source. PySpark's API has no place for that (4.3: `metrics` of
a Python source is always empty), but the progress has the end of the batch and the log ends as last seen. Pure.
"""

from __future__ import annotations

from typing import Any

from kcli.errors import ConfigError
from kcli.spark.offset_json import read_offsets
from kcli.structs import TopicPartition

MIN_BEHIND, MAX_BEHIND, AVG_BEHIND = "minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest"
"""The connector's names; they are over the partitions of a source."""
SUM_BEHIND, ROWS_PER_S = "sumOffsetsBehindLatest", "processedRowsPerSecond"


def source_metrics(progress: Any) -> list[dict[str, float]]:
    """Return the metrics of each source of a query, of a `StreamingQueryProgress`.

    A source without offsets by topic and partition has the rate only, and so has one before its first batch. The log
    ends are those of the batch's planning, so a source that has read everything is 0 behind. With the limit
    `maxOffsetsPerTrigger` the remaining offsets are counted.
    """
    return [_metrics(source) for source in progress.sources]


def _metrics(source: Any) -> dict[str, float]:
    metrics: dict[str, float] = {ROWS_PER_S: float(source.processedRowsPerSecond or 0.0)}
    ends, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
    behind = [max(0, offset - ends.get(tp, 0)) for tp, offset in latest.items()]
    if not ends or not behind:
        return metrics
    return {
        MIN_BEHIND: float(min(behind)),
        MAX_BEHIND: float(max(behind)),
        AVG_BEHIND: sum(behind) / len(behind),
        SUM_BEHIND: float(sum(behind)),
        **metrics,
    }


def offsets_behind(progress: Any) -> int | None:
    """Return the offsets behind the log ends of all sources together; None: unknown."""
    known = [metrics[SUM_BEHIND] for metrics in source_metrics(progress) if SUM_BEHIND in metrics]
    return int(sum(known)) if known else None


def _offsets(text: Any) -> dict[TopicPartition, int]:
    """Return the offset of each partition; empty for offsets in another form."""
    try:
        return read_offsets(text)
    except ConfigError:
        return {}

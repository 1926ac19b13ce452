"""Metrics of a stream's sources, from the progress that Spark reports: the connector's names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kcli.spark.query_progress import offsets_behind, source_metrics


def source(end: Any, latest: Any, rate: float | None = 2.5) -> SimpleNamespace:
    return SimpleNamespace(endOffset=end, latestOffset=latest, processedRowsPerSecond=rate)


def test_offsets_behind_are_over_partitions_new_ones_included() -> None:
    behind = source('{"a":{"0":5,"1":7}}', '{"a":{"0":15,"1":7,"2":2}}')
    assert source_metrics(SimpleNamespace(sources=[behind])) == [
        {
            "minOffsetsBehindLatest": 0.0,
            "maxOffsetsBehindLatest": 10.0,
            "avgOffsetsBehindLatest": 4.0,
            "sumOffsetsBehindLatest": 12.0,
            "processedRowsPerSecond": 2.5,
        }
    ]


def test_other_sources_and_one_before_its_first_batch_have_the_rate_only() -> None:
    others = [source(None, None, None), source("7", "9"), source('{"a":{"0":5}}', None), source("[1]", '{"a": 1}')]
    progress = SimpleNamespace(sources=others)
    assert source_metrics(progress) == [{"processedRowsPerSecond": rate} for rate in (0.0, 2.5, 2.5, 2.5)]
    assert offsets_behind(progress) is None


def test_sources_are_added_and_a_log_that_was_truncated_is_not_negative() -> None:
    both = [source('{"a":{"0":5}}', '{"a":{"0":8}}'), source('{"b":{"0":5}}', '{"b":{"0":1}}')]
    assert offsets_behind(SimpleNamespace(sources=both)) == 3

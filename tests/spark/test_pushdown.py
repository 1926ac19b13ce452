"""Pruning by filters: ranges that cannot match are dropped, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

filters = pytest.importorskip("pyspark.sql.datasource")

from kcli.spark.options import parse_options  # noqa: E402
from kcli.spark.pipelines.source import PUSHDOWN, KafkaSource, with_pushdown  # noqa: E402
from kcli.spark.pushdown import NO_BOUNDS, bounds_of, prune  # noqa: E402
from kcli.spark.source import PushdownReader  # noqa: E402
from kcli.spark.task_ranges import TaskRange  # noqa: E402
from kcli.structs import TopicPartition  # noqa: E402

RANGES = [TaskRange("a", 0, 0, 100), TaskRange("a", 1, 50, 200), TaskRange("b", 0, 0, 10)]
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
NOON_MS = 1_767_268_800_000


class Times:
    """A look-up that has only offsets by time."""

    def __init__(self, found: Mapping[TopicPartition, int]) -> None:
        self.found = found
        self.asked: dict[TopicPartition, int] = {}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.update(times)
        return {tp: self.found[tp] for tp in times if tp in self.found}


def pruned(*given: Any, times: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(it) for it in prune(bounds_of(given), RANGES, times)]


def test_no_filter_prunes_nothing() -> None:
    assert pruned() == RANGES


def test_topic_and_partition_filters_prune_ranges() -> None:
    assert pruned(filters.EqualTo(("topic",), "b")) == [("b", 0, 0, 10)]
    assert pruned(filters.In(("partition",), (1, 7))) == [("a", 1, 50, 200)]
    assert pruned(filters.StringStartsWith(("topic",), "a"), filters.EqualTo(("partition",), 0)) == [("a", 0, 0, 100)]
    assert pruned(filters.EqualTo(("topic",), "a"), filters.In(("topic",), ("b", "c"))) == []


def test_offset_filters_narrow_ranges() -> None:
    low, high = filters.GreaterThan(("offset",), 59), filters.LessThanOrEqual(("offset",), 99)
    assert pruned(low, high) == [("a", 0, 60, 100), ("a", 1, 60, 100)]
    assert pruned(filters.EqualTo(("offset",), 60)) == [("a", 0, 60, 61), ("a", 1, 60, 61)]
    assert pruned(filters.GreaterThanOrEqual(("offset",), 60), filters.LessThan(("offset",), 60)) == []


def test_a_lower_time_bound_becomes_a_start() -> None:
    """By ListOffsets: the first record at or after the time. -1: all records are older."""
    times = Times({TopicPartition("a", 0): 40, TopicPartition("a", 1): 10, TopicPartition("b", 0): -1})
    assert pruned(filters.GreaterThanOrEqual(("timestamp",), NOON), times=times) == [
        ("a", 0, 40, 100),
        ("a", 1, 50, 200),
    ]
    assert set(times.asked.values()) == {NOON_MS}


def test_a_time_between_milliseconds_is_rounded_down() -> None:
    times = Times({TopicPartition("b", 0): 3})
    late = filters.GreaterThan(("timestamp",), NOON.replace(microsecond=1_999))
    assert pruned(late, filters.EqualTo(("topic",), "b"), times=times) == [("b", 0, 3, 10)]
    assert set(times.asked.values()) == {NOON_MS + 1}


def test_an_upper_time_bound_prunes_nothing() -> None:
    """Timestamps are not monotonic in a partition: older ones may follow."""
    assert bounds_of([filters.LessThan(("timestamp",), NOON)]) == NO_BOUNDS


def test_the_time_of_records_without_timestamps_is_not_looked_up() -> None:
    """They are shown as 1969-12-31 23:59:59.999, and -1 and -2 have other meanings in ListOffsets."""
    old = datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
    assert pruned(filters.GreaterThanOrEqual(("timestamp",), old), times=None) == RANGES


@pytest.mark.parametrize(
    "given",
    [
        filters.IsNotNull(("topic",)),
        filters.Not(filters.EqualTo(("topic",), "a")),
        filters.EqualTo(("headers", "key"), "a"),
        filters.EqualTo(("key",), b"a"),
    ],
)
def test_other_filters_are_left_to_spark(given: Any) -> None:
    assert bounds_of([given]) == NO_BOUNDS


def test_offset_and_time_filters_apply_to_records_only() -> None:
    """In the view `batches` a column of that name has another meaning."""
    given = [filters.EqualTo(("offset",), 5), filters.EqualTo(("partition",), 1)]
    assert bounds_of(given, has_records=False) == NO_BOUNDS._replace(partitions=frozenset([1]))


def test_topic_filters_do_not_prune_the_commits_view() -> None:
    """A row of the view `commits` names a partition, but is stored in one of __consumer_offsets."""
    given = {"kafka.bootstrap.servers": "k:9092", "view": "commits", "pushdown": "true"}
    reader = PushdownReader(parse_options(given, stream=False))
    wanted = [filters.EqualTo(("topic",), "orders"), filters.EqualTo(("partition",), 1)]
    assert list(reader.pushFilters(wanted)) == wanted
    assert reader.bounds == NO_BOUNDS


def test_a_deleted_partition_keeps_its_task() -> None:
    """Otherwise the loss would not be reported."""
    late = filters.GreaterThan(("timestamp",), NOON)
    assert pruned(late, filters.EqualTo(("topic",), "b"), times=Times({})) == [("b", 0, 0, 10)]


@pytest.mark.parametrize(("conf", "allowed"), [({PUSHDOWN: "true"}, True), ({PUSHDOWN: "false"}, False), ({}, False)])
def test_pushdown_is_enabled_if_the_session_permits(conf: dict[str, str], allowed: bool) -> None:
    """In other sessions each read would fail: DATA_SOURCE_PUSHDOWN_DISABLED."""
    spark: Any = SimpleNamespace(conf=conf)
    source = KafkaSource({}, {"t": None}, where="partition = 0")
    assert with_pushdown(spark, source).options().get("pushdown") == ("true" if allowed else None)
    assert "pushdown" not in source.options(), "it depends on the session"

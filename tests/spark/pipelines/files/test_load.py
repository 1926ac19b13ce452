"""Plan and outcome of a load: literals in, literals out."""

from __future__ import annotations

from typing import Any

from kcli.errors import ConfigError, NotFound, Refused
from kcli.spark.pipelines.files.load import (
    FilePartition,
    Load,
    LogBounds,
    PartitionPlan,
    bases,
    outcome,
    plan_load,
    topic_notes,
)
from kcli.spark.pipelines.source import KafkaSource

TARGET = KafkaSource(kafka={"bootstrap.servers": "localhost:9092"}, topics={"t": None})
EMPTY = {0: LogBounds(0, 0), 1: LogBounds(0, 0)}
FILES = [FilePartition("a", 1, 3, 3, 10, 12), FilePartition("a", 0, 5, 5, 0, 9)]


def planned(
    files: list[FilePartition] = FILES, bounds: dict[int, LogBounds] = EMPTY, **options: Any
) -> tuple[list[PartitionPlan], list[str]]:
    plan, errors = plan_load(Load("dir", TARGET, **options), files, bounds)
    return plan, [f"{type(error).__name__}: {error}" for error in errors]


def test_an_empty_topic_gets_the_partitions_of_the_files() -> None:
    plan, errors = planned()
    assert (plan, errors) == ([PartitionPlan(0, 5, 0), PartitionPlan(1, 3, 0)], [])
    assert bases(plan, "t") == '{"t": {"0": 0, "1": 0}}'


def test_a_topic_with_records_is_refused_unless_they_are_appended() -> None:
    bounds = {0: LogBounds(2, 7), 1: LogBounds(0, 0)}
    _, errors = planned(bounds=bounds)
    cure = "use an empty topic, --append, or --resume for a load that was interrupted"
    assert errors == [f"Refused: topic t has 5 records already; {cure}"]
    assert planned(bounds=bounds, append=True) == ([PartitionPlan(0, 5, 7), PartitionPlan(1, 3, 0)], [])


def test_resume_continues_after_the_stored_records() -> None:
    bounds = {0: LogBounds(0, 2), 1: LogBounds(0, 3)}
    plan, errors = planned(bounds=bounds, resume=True)
    assert (plan, errors) == ([PartitionPlan(0, 5, 0, 2), PartitionPlan(1, 3, 0, 3)], [])
    assert bases(plan, "t") == '{"t": {"0": 0, "1": 0}}'


def test_resume_is_refused_where_the_number_of_stored_records_is_unknown() -> None:
    _, errors = planned(bounds={0: LogBounds(1, 2), 1: LogBounds(0, 0)}, resume=True)
    assert errors[0].startswith("Refused: t-0 starts at offset 1, because records were deleted")
    _, errors = planned(bounds={0: LogBounds(0, 6), 1: LogBounds(0, 0)}, resume=True)
    assert errors == [
        "Refused: t-0 has 6 records, but the files have 5; --resume continues a load of the same files only"
    ]


def test_a_topic_with_fewer_partitions_is_refused_unless_keys_decide() -> None:
    one = {0: LogBounds(0, 0)}
    _, errors = planned(bounds=one)
    text = "topic t has 1 partitions, but the files have partition 1; use a topic with 2 partitions"
    assert errors == [f"Refused: {text}, or --partitions by-key"]
    assert planned(bounds=one, partitions="by-key") == ([PartitionPlan(0, 5, -1), PartitionPlan(1, 3, -1)], [])


def test_files_without_order_or_with_repeated_records_are_refused() -> None:
    assert planned(files=[])[1] == ["NotFound: dir has no records"]
    assert planned(files=[], from_topic="x")[1] == ["NotFound: dir has no records of topic x"]
    twice = [FilePartition("a", 0, 20, 20, 0, 9)]
    assert planned(files=twice)[1] == [
        "Refused: partition 0 of dir has 20 records but fewer offsets: some were exported twice"
    ]
    unordered = [FilePartition("a", 0, 5, 4, 0, 9)]
    assert "without an offset" in planned(files=unordered)[1][0]
    assert "without a partition" in planned(files=[FilePartition("a", None, 5, 5, 0, 9)])[1][0]
    two = [FilePartition("a", 0, 5, 5, 0, 9), FilePartition("b", 0, 5, 5, 0, 9)]
    assert planned(files=two)[1] == ["ConfigError: dir has records of a, b; choose one with --from-topic"]


def test_errors_have_classes_of_the_exit_statuses() -> None:
    _, errors = plan_load(Load("dir", TARGET), [], EMPTY)
    assert isinstance(errors[0], NotFound)
    _, errors = plan_load(Load("dir", TARGET), [FilePartition("a", None, 5, 5, 0, 9)], EMPTY)
    assert isinstance(errors[0], ConfigError)
    _, errors = plan_load(Load("dir", TARGET), FILES, {0: LogBounds(0, 1), 1: LogBounds(0, 0)})
    assert isinstance(errors[0], Refused)


def test_a_topic_that_would_change_or_delete_loaded_records_is_reported() -> None:
    day_ms = 86_400_000
    files = [FILES[0]._replace(oldest_ms=-1), FILES[1]._replace(oldest_ms=1_700_000_000_000)]
    usual = {"cleanup.policy": "delete", "retention.ms": str(7 * day_ms), "message.timestamp.type": "CreateTime"}
    late = 1_700_000_000_000 + 8 * day_ms
    assert topic_notes("t", usual, files, late) == [
        "topic t deletes records after 7d00h, and the oldest of the files is of 2023-11-14T22:13:20.000Z; to keep it, "
        "set retention.ms=-1"
    ]
    assert topic_notes("t", usual, files, late - 2 * day_ms) == []
    for setting in ({"retention.ms": "-1"}, {"cleanup.policy": "compact"}):
        assert topic_notes("t", {**usual, **setting}, files, late) == []
    assert topic_notes("t", {}, files, late) == []
    assert topic_notes("t", {**usual, "message.timestamp.type": "LogAppendTime"}, files, late) == [
        "topic t replaces timestamps by the time of the load (message.timestamp.type=LogAppendTime)"
    ]


def test_an_unexpected_log_end_is_reported() -> None:
    load, plan = Load("dir", TARGET), [PartitionPlan(0, 5, 2), PartitionPlan(1, 3, 0)]
    rows = outcome(load, plan, {0: LogBounds(0, 7), 1: LogBounds(0, 4)})
    assert [(end, error is None) for _, end, error in rows] == [(7, True), (4, False)]
    assert str(rows[1][2]).startswith("t-1 ends at offset 4 instead of 3: another producer")

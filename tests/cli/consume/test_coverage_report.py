"""The coverage table, the sentences and the exit status of a read."""

from typing import Any

import pytest

from kcli.cli.consume.coverage_report import coverage_items, coverage_table, failures, notes, read_status
from kcli.cli.consume.read_loop import Count
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason
from kcli.consumer.read_range import EARLIEST, LATEST, Offset, ReadRange, Time
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.structs import TopicPartition

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def covered(tp: TopicPartition = P0, start: int = 5, end: int | None = 9, position: int = 9, **rest: Any) -> Any:
    given = {"records": 4, "bytes": 40, "reason": "reached its end", "complete": True, "start": start, **rest}
    return PartitionCoverage(tp, start, end, position, **given)


def read(partitions: list[PartitionCoverage], stop: StopReason = StopReason.END) -> ReadCoverage:
    return ReadCoverage.of(partitions, stop, {})


REFUSED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
CUT = {"complete": False, "reason": "reached its end; offsets 0 to 4 were deleted"}
STOPPED = {"complete": False, "open": True, "reason": "stopped before its end"}


def test_the_table_shows_the_asked_and_covered_ranges_and_the_reason_of_the_end() -> None:
    ranges = {P0: ReadRange(EARLIEST, LATEST), P1: ReadRange(Offset(0), Offset(9)), P2: ReadRange(Time(0), LATEST)}
    partitions = [covered(), covered(P1, **CUT), covered(P2, start=-1, position=-1, complete=False, reason="no leader")]
    table = coverage_table(read(partitions), ranges, {P0: Count(3, 30)})
    lines = [line.split(maxsplit=6) for line in table.splitlines()]
    assert lines == [
        ["TOPIC", "PARTITION", "ASKED", "COVERED", "PRINTED", "STATE", "STOPPED"],
        ["orders", "0", "start:end", "5:9", "3", "complete", "reached its end"],
        ["orders", "1", "0:9", "5:9", "0", "incomplete", "reached its end; offsets 0 to 4 were deleted"],
        ["orders", "2", "@1970-01-01T00:00:00.000Z:end", "-", "0", "incomplete", "no leader"],
    ]


def test_an_open_partition_has_the_reason_of_the_whole_read() -> None:
    ranges = {P0: ReadRange(EARLIEST, LATEST), P1: ReadRange(EARLIEST, LATEST)}
    partitions = [covered(position=7, **STOPPED), covered(P1)]
    texts = {
        StopReason.RECORD_LIMIT: "--max-messages",
        StopReason.IDLE: "--idle-timeout",
        StopReason.INTERRUPTED: "interrupted",
    }
    for stop, text in texts.items():
        first, second = coverage_table(read(partitions, stop), ranges, {}).splitlines()[1:]
        assert text in first
        assert "5:7" in first
        assert second.endswith("reached its end")


def test_missing_offsets_are_shown_after_any_reason() -> None:
    gone = {**STOPPED, "reason": "stopped before its end; offsets 0 to 4 were deleted"}
    coverage = read([covered(position=7, **gone)], StopReason.RECORD_LIMIT)
    table = coverage_table(coverage, {P0: ReadRange(Offset(0), LATEST)}, {})
    assert table.endswith("--max-messages reached; offsets 0 to 4 were deleted")


def test_json_items_have_numbers() -> None:
    ranges = {P0: ReadRange(Offset(5), Offset(9))}
    [item] = coverage_items(read([covered(position=7, **STOPPED)], StopReason.INTERRUPTED), ranges, {P0: Count(2, 9)})
    assert item == {
        "topic": "orders", "partition": 0, "asked": "5:9", "start": 5, "end": 9, "position": 7, "printed": 2,
        "complete": False, "stopped": "interrupted",
    }  # fmt: skip


def test_the_same_note_on_several_partitions_is_one_sentence() -> None:
    late = ("no record at or after noon",)
    partitions = [covered(P0, notes=late), covered(P1), covered(P2, notes=(*late, "more"))]
    assert notes(partitions) == ["orders 0,2: no record at or after noon", "orders 2: more"]


def test_failures_are_errors_and_gaps_but_not_an_early_stop() -> None:
    failed = {"complete": False, "error": REFUSED, "reason": str(REFUSED)}
    partitions = [covered(P0, **failed), covered(P1, **STOPPED), covered(P2, **CUT)]
    first, second = failures(partitions)
    assert first.startswith("orders 0: TOPIC_AUTHORIZATION_FAILED")
    assert second == "orders 2: reached its end; offsets 0 to 4 were deleted"


def test_a_gap_of_a_following_partition_is_a_failure() -> None:
    gap = "following; offsets 0 to 4 were deleted before they were read"
    partitions = [covered(end=None, complete=False, open=True, reason=gap), covered(P1, end=None, open=True)]
    assert failures(partitions) == [f"orders 0: {gap}"]


@pytest.mark.parametrize(
    ("partitions", "stop", "status"),
    [
        ([covered(), covered(P1)], StopReason.END, 0),
        ([covered(), covered(P1, **CUT)], StopReason.END, 5),
        ([covered(**STOPPED)], StopReason.IDLE, 5),
        ([covered(**STOPPED)], StopReason.RECORD_LIMIT, 0),
        ([covered(**CUT)], StopReason.RECORD_LIMIT, 0),
        ([covered(**STOPPED)], StopReason.INTERRUPTED, 130),
        ([covered(end=None, complete=True, open=True, reason="following")], StopReason.IDLE, 0),
        ([covered(complete=False, error=REFUSED)], StopReason.END, 4),
        ([covered(complete=False, error=REFUSED), covered(P1)], StopReason.RECORD_LIMIT, 4),
        ([covered(complete=False, error=CorruptRecords("bad"))], StopReason.END, 1),
        ([covered(complete=False, error=REFUSED), covered(P1, **CUT)], StopReason.END, 1),
    ],
)
def test_exit_status(partitions: list[PartitionCoverage], stop: StopReason, status: int) -> None:
    assert read_status(read(partitions, stop)) == status

"""The coverage table, the sentences and the exit status of a read; reports while partitions are still read."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.cli.consume.printed_records import Count, PrintedRecords
from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer
from kcli.cli.consume.reports import (
    FollowReports,
    PartitionReports,
    coverage_items,
    coverage_table,
    failures,
    notes,
    read_status,
)
from kcli.clock import ManualClock
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason
from kcli.consumer.read_range import ReadRange
from kcli.consumer.retry_backoff import RetryState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, DisconnectedError
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import TopicPartition
from tests.cli.fake import FakeEnvironment

P0, P1, P2, P3 = (TopicPartition("orders", number) for number in range(4))


def covered(tp: TopicPartition = P0, start: int = 5, end: int | None = 9, position: int = 9, **rest: Any) -> Any:
    given = {"records": 4, "bytes": 40, "reason": "reached its end", "complete": True, "start": start, **rest}
    return PartitionCoverage(tp, start, end, position, **given)


def read(partitions: list[PartitionCoverage], stop: StopReason = StopReason.END) -> ReadCoverage:
    return ReadCoverage.of(partitions, stop, {})


REFUSED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
CUT = {"complete": False, "reason": "reached its end; offsets 0 to 4 were deleted"}
STOPPED = {"complete": False, "open": True, "reason": "stopped before its end"}


def test_the_table_shows_the_asked_and_covered_ranges_and_the_reason_of_the_end() -> None:
    ranges = {
        P0: ReadRange(LOG_START, LOG_END),
        P1: ReadRange(Place.offset(0), Place.offset(9)),
        P2: ReadRange(Place.time(0), LOG_END),
    }
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
    ranges = {P0: ReadRange(LOG_START, LOG_END), P1: ReadRange(LOG_START, LOG_END)}
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
    table = coverage_table(coverage, {P0: ReadRange(Place.offset(0), LOG_END)}, {})
    assert table.endswith("--max-messages reached; offsets 0 to 4 were deleted")


def test_json_items_have_numbers() -> None:
    ranges = {P0: ReadRange(Place.offset(5), Place.offset(9))}
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


GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic orders is gone")


def following(tp: TopicPartition, reason: str = "following", *, complete: bool = True) -> PartitionCoverage:
    return PartitionCoverage(tp, 0, None, 5, 5, 50, reason, complete=complete, start=0, open=True)


def failed(tp: TopicPartition) -> PartitionCoverage:
    return PartitionCoverage(tp, 0, None, 5, 5, 50, str(GONE), complete=False, start=0, error=GONE)


class Read:
    """A read whose coverage the test sets, and its reports of each second."""

    def __init__(self, *, in_table: bool = False, with_notes: bool = True) -> None:
        self.clock = ManualClock()
        self.coverage = [following(P0), following(P1)]
        self.env = FakeEnvironment(clock=self.clock)
        self.reports = PartitionReports(
            self.env, lambda: self.coverage, with_notes=with_notes, failures_in_table=in_table
        )

    def reported(self) -> str:
        self.clock.advance(1000)
        self.reports.tick(len(self.coverage))
        text = self.env.result(0).err
        self.env.err_buffer.seek(0)
        self.env.err_buffer.truncate()
        return text


def test_a_failure_is_reported_once_while_other_partitions_continue() -> None:
    read = Read()
    assert read.reported() == ""
    read.coverage[0] = failed(P0)
    assert read.reported() == f"kcli: orders 0: {GONE}\n"
    assert read.reported() == ""
    read.coverage[1] = failed(P1)
    assert read.reported() == f"kcli: orders 1: {GONE}\n"


def test_each_new_gap_is_reported() -> None:
    read = Read()
    read.coverage[0] = following(P0, "following; offsets 5 to 6 were deleted", complete=False)
    assert "5 to 6" in read.reported()
    read.coverage[0] = following(P0, "following; offsets 5 to 6 were deleted; 8 to 9 too", complete=False)
    assert "8 to 9" in read.reported()
    assert read.reported() == ""


def test_the_notes_on_a_partition_that_is_added_are_reported_once() -> None:
    read = Read(in_table=True)
    assert read.reported() == ""
    read.coverage += [following(tp)._replace(notes=("added",)) for tp in (P2, P3)]
    read.reports.tick(4)
    assert read.env.result(0).err == "kcli: orders 2-3: added\n"
    read = Read(in_table=True)
    read.coverage += [following(tp)._replace(notes=("added",)) for tp in (P2, P3)]
    assert read.reported() == "kcli: orders 2-3: added\n"
    assert read.reported() == ""
    quiet = Read(with_notes=False)
    quiet.coverage = read.coverage
    assert quiet.reported() == ""


def test_failures_are_checked_once_a_second() -> None:
    read = Read()
    read.reported()
    read.coverage[0] = failed(P0)
    read.reports.tick(len(read.coverage))
    assert read.env.result(0).err == ""
    read.reports.report()
    assert "gone" in read.env.result(0).err


def test_failures_in_the_coverage_table_are_not_reported_before_it() -> None:
    read = Read(in_table=True)
    read.coverage[0] = failed(P0)
    assert read.reported() == ""


class Follow:
    """A followed topic whose partitions the test moves, and its reports."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.clock = ManualClock()
        self.env = FakeEnvironment(clock=self.clock)
        self.at_end = {P0: False, P1: False}
        options = PrintOptions(make_renderer(RenderOptions()), quiet=quiet, verbose=verbose)
        self.failures: dict[TopicPartition, RetryState] = {}
        self.reports = FollowReports(
            self.env, "kcli", lambda: self.at_end, lambda: self.failures, PrintedRecords(), options
        )

    def reported(self, *, after_ms: int = 250) -> str:
        before = len(self.env.result(0).err)
        self.clock.advance(after_ms)
        self.reports.tick()
        return self.env.result(0).err[before:]


def test_the_end_of_the_log_is_reported_once() -> None:
    follow = Follow()
    assert follow.reported() == ""
    follow.at_end = {P0: True, P1: False}
    assert follow.reported() == ""
    follow.at_end = {P0: False, P1: True}  # on a busy topic, they are rarely all at the end at the same time
    assert follow.reported() == "kcli: reached the end of orders 0-1; waiting for new records\n"
    follow.at_end = {P0: True, P1: True}
    assert follow.reported() == ""


def test_the_end_of_partitions_that_are_added_is_reported_too() -> None:
    follow = Follow()
    follow.at_end = {P0: True, P1: True}
    assert follow.reported() != ""
    follow.at_end |= {P2: False, P3: True}
    assert follow.reported(after_ms=1_000) == ""
    follow.at_end[P2] = True
    assert follow.reported(after_ms=1_000) == "kcli: reached the end of orders 2-3; waiting for new records\n"


def test_a_read_that_follows_nothing_reports_no_end() -> None:
    follow = Follow()
    follow.at_end = {}
    assert follow.reported() == ""


def test_verbose_follow_reports_a_sign_of_life_every_ten_seconds() -> None:
    follow = Follow(verbose=True)
    follow.at_end = {P0: True, P1: False}
    assert follow.reported(after_ms=9_750) == ""
    assert follow.reported() == "kcli: 0 records printed; 1 of 2 partitions are read to the end\n"
    assert follow.reported(after_ms=9_750) == ""
    follow.at_end = {}
    assert follow.reported() == "kcli: 0 records printed\n"


def test_quiet_follow_reports_nothing() -> None:
    follow = Follow(quiet=True, verbose=True)
    follow.at_end = {P0: True, P1: True}
    assert follow.reported(after_ms=20_000) == ""


def test_a_followed_partition_that_cannot_be_read_is_reported_after_five_seconds() -> None:
    follow = Follow(verbose=True)
    refused = DisconnectedError("connection refused by kafka-2:9092")
    follow.failures = {tp: RetryState(0.0, 3, 100.0, refused) for tp in (P0, P1)}
    assert follow.reported(after_ms=4_750) == ""
    text = "kcli: orders 0-1: nothing can be read: connection refused by kafka-2:9092; still trying\n"
    assert follow.reported() == text
    assert follow.reported() == ""
    follow.failures.pop(P0)
    assert follow.reported() == "kcli: orders 0: the broker answers again\n"
    assert "; 0 of 2 partitions are read to the end, 1 cannot be read" in follow.reported(after_ms=10_000)
    follow.failures.clear()
    del follow.at_end[P1]  # the topic was deleted, or the group has another owner for it
    assert follow.reported() == ""

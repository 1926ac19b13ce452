"""A member session against a scripted consumer: exactly the printed records are committed, however the read ends."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.cli.consume.filters import compile_filters
from kcli.cli.consume.member_session import MemberPlan, print_as_member
from kcli.cli.consume.options import FilterOptions
from kcli.cli.consume.printed_records import Limits
from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer
from kcli.cli.consume.reports import partitions_text, reset_text
from kcli.consumer.retry_backoff import RetryState
from kcli.consumer.subscription import PositionReset
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, DisconnectedError, TimeoutExpired, WakeupError
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.consume.fake_member import (
    EPOCH,
    P0,
    P1,
    P2,
    FakeConsumer,
    Step,
    assigned,
    fails,
    lost,
    records,
    revoked,
    values,
)
from tests.cli.fake import FakeEnvironment

AB = records({P0: values(b"a", b"b")})
CDE = records({P0: values(b"c", at=2), P1: values(b"d", b"e")})


class FullDisk:
    """A stream with room for some bytes; each write takes as many as fit."""

    def __init__(self, room: int, error: OSError) -> None:
        self.room, self.error, self.got = room, error, b""

    def write(self, data: Any) -> int:
        part = bytes(data)[: self.room - len(self.got)]
        if not part and len(data):
            raise self.error
        self.got += part
        return len(part)


class Run:
    """One session over a script; its last step is an interrupt."""

    def __init__(
        self,
        steps: Iterable[Step],
        *,
        ends: dict[TopicPartition, int] | None = None,
        refusals: Iterable[Any] = (),
        commit: bool = True,
        exit_at_end: bool = False,
        quiet: bool = False,
        grep: str | None = None,
        most: int | None = None,
        idle_ms: float | None = None,
        output: str | None = None,
        interrupts: bool = True,
        close_error: BaseException | None = None,
    ) -> None:
        self.consumer = FakeConsumer(steps, then=interrupt if interrupts else None)
        self.consumer.close_error = close_error
        self.consumer.ends = ends or {}
        self.consumer.refusals = list(refusals)
        self.env = FakeEnvironment(clock=self.consumer.clock)
        manner = PrintOptions(
            make_renderer(RenderOptions(output)),
            compile_filters(FilterOptions(grep)),
            Limits(most, idle_ms),
            quiet=quiet,
        )
        plan = MemberPlan("g", ["orders"], 5_000.0 if commit else None, 30_000.0, exit_at_end)
        self.status: int | None = None
        self.error: BaseException | None = None
        try:
            client = SimpleNamespace(wakeup=lambda: None)
            self.status = print_as_member(self.env, client, self.consumer, manner, plan)  # type: ignore[arg-type]
        except (Exception, KeyboardInterrupt) as error:
            self.error = error
        self.out, self.err = self.env.result(0)[1:]

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return self.consumer.committed


def interrupt(consumer: FakeConsumer) -> Any:
    os.kill(os.getpid(), signal.SIGINT)
    raise WakeupError("woken")


# --- commits


def test_ctrl_c_commits_the_printed_records_with_their_epoch_and_leaves_the_group() -> None:
    run = Run([assigned(0, P0, P1), AB, CDE])
    assert (run.status, run.out) == (130, b"a\nb\nc\nd\ne\n")
    assert run.committed == {P0: 3, P1: 2}
    assert run.consumer.commits[-1] == ("sync", {P0: OffsetAndMetadata(3, EPOCH), P1: OffsetAndMetadata(2, EPOCH)})
    assert run.consumer.closed == [30_000.0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_stop_signals_are_like_ctrl_c(number: signal.Signals) -> None:
    def signalled(consumer: FakeConsumer) -> Any:
        os.kill(os.getpid(), number)
        raise WakeupError("woken")

    run = Run([assigned(0, P0), AB, signalled], interrupts=False)
    assert (run.status, run.committed) == (130, {P0: 2})


def test_a_signal_sent_twice_at_once_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` signals its child and then the whole process group."""
    monkeypatch.setattr("kcli.cli.environment.monotonic", lambda: 7.0)

    def signalled(consumer: FakeConsumer) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise WakeupError("woken")

    run = Run([assigned(0, P0), AB, signalled], interrupts=False)
    assert (run.status, run.committed) == (130, {P0: 2})


def test_a_second_signal_after_a_second_ends_the_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([7.0, 8.5, 9.0])
    monkeypatch.setattr("kcli.cli.environment.monotonic", lambda: next(times))

    def signalled(consumer: FakeConsumer) -> Any:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    run = Run([assigned(0, P0), AB, signalled], interrupts=False)
    assert isinstance(run.error, KeyboardInterrupt)
    assert (run.committed, run.consumer.closed) == ({P0: 0}, [500.0])


@pytest.mark.parametrize(("most", "expected"), [(1, {P0: 1}), (2, {P0: 2}), (3, {P0: 3, P1: 0}), (4, {P0: 3, P1: 1})])
def test_a_limit_inside_a_batch_commits_up_to_the_last_printed_record(
    most: int, expected: dict[TopicPartition, int]
) -> None:
    run = Run([assigned(0, P0, P1), AB, CDE], most=most)
    assert (run.status, len(run.out.split())) == (0, most)
    assert {P1: 0} | run.committed == {P1: 0} | expected


def test_filtered_records_count_as_printed() -> None:
    run = Run([assigned(0, P0, P1), AB, CDE], grep="[bd]")
    assert run.out == b"b\nd\n"
    assert run.committed == {P0: 3, P1: 2}


def test_with_a_limit_filtered_records_count_up_to_the_next_match() -> None:
    run = Run([assigned(0, P0), records({P0: values(b"no", b"yes", b"no", b"no", b"yes", b"no")})], grep="yes", most=1)
    assert run.out == b"yes\n"
    assert run.committed == {P0: 4}


def test_offsets_without_records_are_committed_too() -> None:
    """After a transaction's marker; otherwise the lag of a group that has read everything is never 0."""
    run = Run([assigned(0, P0), records({P0: values(b"a")}, behind=1)])
    assert run.committed == {P0: 2}


def test_no_commit_commits_nothing() -> None:
    run = Run([assigned(0, P0), AB, revoked(P0)], commit=False)
    assert run.out == b"a\nb\n"
    assert run.consumer.commits == []
    assert run.consumer.closed


def test_the_start_position_is_committed_at_once() -> None:
    """Otherwise a member that starts at the log end and is killed would start at a later end."""
    run = Run([assigned(7, P0), lambda _: {}, lambda _: {}])
    assert run.consumer.commits == [("async", {P0: OffsetAndMetadata(7)})]


def test_new_offsets_are_committed_at_intervals() -> None:
    more = [records({P0: values(b"x", at=2 + n)}) for n in range(3)]
    idle: Step = lambda _: {}  # noqa: E731
    run = Run([assigned(0, P0), AB, more[0], *[idle] * 11, more[1], *[idle] * 11, *[idle] * 11, more[2]])
    assert [(how, offsets[P0].offset) for how, offsets in run.consumer.commits] == [
        ("async", 0),
        ("async", 3),
        ("async", 4),
        ("async", 5),
    ]


# --- rebalances


def test_printed_records_are_committed_before_the_revocation() -> None:
    run = Run([assigned(0, P0, P1), AB, revoked(P0), assigned(0, P2)])
    assert ("sync", {P0: OffsetAndMetadata(2, EPOCH)}) in run.consumer.commits
    assert run.err.splitlines()[:3] == [
        "kcli: group g: assigned orders 0-1",
        "kcli: group g: revoked orders 0",
        "kcli: group g: assigned orders 2",
    ]
    assert P0 not in run.consumer.commits[-1][1]


def test_nothing_is_committed_of_lost_partitions() -> None:
    run = Run([assigned(0, P0), AB, lost(P0)])
    assert run.committed.get(P0, 0) == 0
    assert "kcli: group g: lost orders 0: the group has removed this member" in run.err


def test_a_commit_refused_before_a_revocation_is_reported_even_with_quiet() -> None:
    refusal = BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, "too late")
    steps = [assigned(0, P0), lambda _: {}, AB, revoked(P0)]
    run = Run(steps, quiet=True)
    assert run.err == ""
    refused = Run([*steps[:3], _refusing(refusal), *steps[3:]], quiet=True)
    assert refused.err == (
        "kcli: group g: commit failed: REBALANCE_IN_PROGRESS: too late; "
        "records printed since the last commit may be printed again\n"
    )


def _refusing(error: BaseException) -> Step:
    def step(consumer: FakeConsumer) -> Any:
        consumer.refusals.append(error)  # type: ignore[arg-type]
        return {}

    return step


def test_ctrl_c_during_a_commit_waits_for_it() -> None:
    run = Run([assigned(0, P0), lambda _: {}, AB, _refusing(WakeupError("woken")), revoked(P0)])
    assert (run.status, run.committed) == (130, {P0: 2})


# --- ends


def test_a_failed_partition_ends_the_run_after_a_commit_of_the_printed_records() -> None:
    run = Run([assigned(0, P0), AB, fails(CorruptRecords("bad batch"))])
    assert isinstance(run.error, CorruptRecords)
    assert run.committed == {P0: 2}
    assert run.consumer.closed


def test_a_failed_last_commit_is_the_error_of_the_run() -> None:
    run = Run([assigned(0, P0), AB, _refusing(TimeoutExpired("no answer"))], commit=True)
    assert isinstance(run.error, TimeoutExpired)
    assert run.consumer.closed


@pytest.mark.parametrize("last", [[], [fails(CorruptRecords("bad batch"))]], ids=["a signal", "an error"])
def test_the_last_commit_and_leaving_share_one_time_limit(last: list[Step]) -> None:
    run = Run([assigned(0, P0), AB, _refusing(TimeoutExpired("no answer")), *last])
    assert run.consumer.closed == [500.0]  # the rest of 30 s
    assert table_of(run) == [["orders", "0", "-", "2", "0", "2"]]


def test_a_signal_during_a_commit_before_a_revocation_begins_the_time_limit_of_the_end() -> None:
    late = [_refusing(WakeupError("woken")), _refusing(TimeoutExpired("no answer"))]
    run = Run([assigned(0, P0, P1), lambda _: {}, AB, *late, revoked(P0)])
    assert run.consumer.closed == [0.0]  # the rest of 30 s


def test_a_second_ctrl_c_during_the_last_commit_or_leaving_ends_at_once_with_the_table() -> None:
    row = ["orders", "0", "-", "2", "0", "2"]
    run = Run([assigned(0, P0), AB, _refusing(KeyboardInterrupt())])
    assert isinstance(run.error, KeyboardInterrupt)
    assert (run.consumer.closed, table_of(run)) == ([500.0], [row])
    run = Run([assigned(0, P0), AB], close_error=KeyboardInterrupt())
    assert isinstance(run.error, KeyboardInterrupt)
    assert table_of(run) == [["orders", "0", "-", "2", "2", "2"]]


def test_an_authorization_error_of_a_commit_ends_the_run() -> None:
    refusal = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    run = Run([assigned(0, P0), lambda _: {}, AB, lambda _: {}], refusals=[refusal] * 2, interrupts=False)
    assert run.error is refusal
    assert run.consumer.closed


def test_a_second_ctrl_c_commits_nothing_and_leaves_quickly() -> None:
    run = Run([assigned(0, P0), AB, fails(KeyboardInterrupt())])
    assert isinstance(run.error, KeyboardInterrupt)
    assert run.committed.get(P0, 0) == 0
    assert run.consumer.closed == [500.0]


@pytest.mark.parametrize(
    ("error", "room", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 0, 0),
        (OSError(errno.ENOSPC, "No space left on device"), 3, 1),  # half of b
        (OSError(errno.ENOSPC, "No space left on device"), 4, 2),
        (OSError(errno.ENOSPC, "No space left on device"), 7, 3),  # half of d
        (OSError(errno.ENOSPC, "No space left on device"), 6, 3),
        (OSError(errno.EIO, "Input/output error"), 7, 3),
        (BrokenPipeError(), 3, 0),
        (BrokenPipeError(), 7, 3),
    ],
)
def test_records_written_completely_before_a_full_disk_or_a_closed_pipe_are_committed(
    monkeypatch: pytest.MonkeyPatch, error: OSError, room: int, expected: int
) -> None:
    disk = FullDisk(room, error)
    monkeypatch.setattr("kcli.cli.consume.sink.os.write", lambda fd, data: disk.write(data))
    monkeypatch.setattr("tests.cli.fake.FakeEnvironment.stdout_bytes", _Stream())
    run = Run([assigned(0, P0, P1), AB, CDE])
    assert run.error is error
    assert run.consumer.closed
    assert run.committed.get(P0, 0) == expected
    assert run.committed.get(P1, 0) == 0
    assert table_of(run)[0] == ["orders", "0", "-", *[str(expected)] * 3]


class _Stream:
    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return 1


def table_of(run: Run) -> list[list[str]]:
    """Return the rows of the closing table, without the heading."""
    lines = [line.split() for line in run.err.splitlines()]
    return lines[lines.index(["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"]) + 1 :]


@pytest.mark.parametrize(
    ("options", "status", "rows"),
    [
        ({"most": 3}, 0, [["orders", "0", "9", "3", "3", "3"], ["orders", "1", "-", "0", "0", "0"]]),
        ({"interrupts": True}, 130, [["orders", "0", "9", "3", "3", "3"], ["orders", "1", "-", "2", "2", "2"]]),
        ({"idle_ms": 900}, 0, [["orders", "0", "9", "3", "3", "3"], ["orders", "1", "-", "2", "2", "2"]]),
    ],
)
def test_each_end_prints_positions_and_committed_offsets(options: Any, status: int, rows: list[list[str]]) -> None:
    steps = [assigned(0, P0, P1), AB, CDE, _high_watermark(P0, 9)]
    if "most" in options:
        steps = [assigned(0, P0, P1), _high_watermark(P0, 9), AB, CDE]
    run = Run(steps, **{"interrupts": False, **options})
    assert (run.status, table_of(run)) == (status, rows)
    assert "POSITION" not in Run(steps, quiet=True, **{"interrupts": False, **options}).err


def test_a_read_that_fails_prints_what_is_committed() -> None:
    run = Run([assigned(0, P0), AB, fails(CorruptRecords("bad batch"))])
    assert table_of(run) == [["orders", "0", "-", "2", "2", "2"]]


def test_a_last_commit_that_fails_after_an_error_is_reported() -> None:
    steps = [assigned(0, P0), lambda _: {}, AB, _refusing(TimeoutExpired("no answer")), fails(CorruptRecords("bad"))]
    run = Run(steps)
    assert isinstance(run.error, CorruptRecords)
    assert "kcli: group g: commit failed: no answer; records printed since the last commit may be printed" in run.err
    assert table_of(run) == [["orders", "0", "-", "2", "0", "2"]]


def test_a_second_ctrl_c_prints_no_table() -> None:
    assert "POSITION" not in Run([assigned(0, P0), AB, fails(KeyboardInterrupt())]).err


def test_warnings_of_the_library_are_reports_of_the_command() -> None:
    def warns(consumer: FakeConsumer) -> Any:
        logging.getLogger("kcli.consumer").warning("topic %s does not exist", "orders")
        return {}

    assert "kcli: group g: topic orders does not exist\n" in Run([assigned(0, P0), warns], quiet=True).err
    assert logging.getLogger("kcli.consumer").handlers == []


def test_a_read_without_an_assignment_prints_no_table() -> None:
    assert Run([]).err == ""


def test_a_json_document_is_whole_when_the_read_fails() -> None:
    run = Run([assigned(0, P0), AB, fails(CorruptRecords("bad batch"))], output="json")
    document = json.loads(run.out)
    assert [record["value"] for record in document["items"]] == ["a", "b"]
    assert document["coverage"] == [{"topic": "orders", "partition": 0, "end": None, "position": 2, "printed": 2}]
    assert document["error"]["message"] == "bad batch"


# --- the end of the log


def test_exit_stops_at_the_end_offsets_of_the_assignment() -> None:
    steps = [assigned(0, P0, P1), AB, records({P0: values(b"c", at=2)}), records({P1: values(b"d", b"e")})]
    run = Run(steps, ends={P0: 3, P1: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\nc\nd\ne\n")
    assert [line.split() for line in run.err.splitlines()[1:]] == [
        ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"],
        ["orders", "0", "3", "3", "3", "3"],
        ["orders", "1", "2", "2", "2", "2"],
    ]


def test_a_partition_that_is_assigned_again_keeps_its_first_end() -> None:
    steps = [assigned(0, P0), AB, revoked(P0), _ends_at(P0, 99), assigned(2, P0)]
    run = Run(steps, ends={P0: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")


def _ends_at(tp: TopicPartition, end: int) -> Step:
    def step(consumer: FakeConsumer) -> Any:
        consumer.ends[tp] = end
        return {}

    return step


def test_a_member_without_partitions_waits_before_it_exits() -> None:
    """In cooperative groups a new member gets no partitions at first, and its share in the next rebalance."""
    steps = [assigned(0), *[lambda _: {}] * 3, assigned(0, P0), AB]
    run = Run(steps, ends={P0: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")
    run = Run([assigned(0)], exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"")
    assert run.consumer.clock.now_ms() >= 10_000
    assert "no partition is assigned to this member" in run.err


@pytest.mark.parametrize("taken", [lost, revoked])
def test_a_member_that_loses_its_partitions_waits_for_new_ones_before_it_exits(taken: Any) -> None:
    """Its last assignment was long ago, for example because the reader of its output was slow."""
    idle: Step = lambda _: {}  # noqa: E731
    steps = [assigned(0, P0), *[idle] * 30, taken(P0), idle, idle, assigned(0, P0), AB]
    run = Run(steps, ends={P0: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")


def test_a_start_at_the_log_end_without_a_committed_offset_is_reported() -> None:
    def starts(consumer: FakeConsumer) -> Any:
        consumer.subscription.policy_starts = {P0: "latest", P1: "latest", P2: "earliest"}
        return {}

    run = Run([assigned(0, P0, P1, P2), starts, lambda _: {}])
    note = "no committed offset of orders 0-1: reading starts at the log end; use -o start to start at the log start"
    assert run.err.splitlines()[1] == f"kcli: group g: {note}"
    assert run.err.count("committed offset") == 1


def _high_watermark(tp: TopicPartition, offset: int) -> Step:
    def step(consumer: FakeConsumer) -> Any:
        consumer.subscription.state(tp).high_watermark = offset
        return {}

    return step


def test_the_end_of_the_log_is_reported_once_for_the_partitions_of_an_assignment() -> None:
    at_end = [_high_watermark(P0, 2), _high_watermark(P1, 0), *[lambda _: {}] * 2]
    run = Run([assigned(0, P0, P1), AB, *at_end, assigned(0, P2), lambda _: {}, _high_watermark(P2, 0)])
    assert run.err.splitlines()[:4] == [
        "kcli: group g: assigned orders 0-1",
        "kcli: group g: reached the end of orders 0-1; waiting for new records",
        "kcli: group g: assigned orders 2",
        "kcli: group g: reached the end of orders 2; waiting for new records",
    ]


def test_joining_does_not_count_as_idle_and_a_long_wait_is_reported() -> None:
    run = Run([*[lambda _: {}] * 40, assigned(0, P0), AB], idle_ms=1_000, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")
    assert run.err.count("still waiting for an assignment: the group cannot be joined yet") == 1


def test_an_idle_end_without_a_broker_is_not_a_success() -> None:
    def fail(consumer: FakeConsumer) -> Any:
        consumer.failing = {P0: RetryState(0.0, 1, 0.0, DisconnectedError("connection refused"))}
        return {}

    run = Run([assigned(0, P0), AB, fail], idle_ms=1_000, interrupts=False)
    assert (run.status, run.out, run.committed) == (5, b"a\nb\n", {P0: 2})
    assert "kcli: group g: orders 0: nothing can be read: connection refused\n" in run.err


@pytest.mark.parametrize("exit_at_end", [True, False])
def test_a_read_to_the_end_ends_after_the_timeout_without_a_broker(exit_at_end: bool) -> None:
    def fail(consumer: FakeConsumer) -> Any:
        consumer.failing = {P0: RetryState(consumer.clock.now_ms(), 1, 0.0, DisconnectedError("connection refused"))}
        return {}

    run = Run([assigned(0, P0), AB, fail, *[lambda _: {}] * 100], ends={P0: 9}, exit_at_end=exit_at_end)
    assert run.committed == {P0: 2}
    if exit_at_end:
        assert isinstance(run.error, TimeoutExpired)
        assert "no record of orders 0 arrived for 30 s: connection refused" in str(run.error)
    else:
        assert run.status == 130


def test_a_json_document_contains_the_printed_records_of_each_partition() -> None:
    run = Run([assigned(0, P0, P1), AB], output="json")
    document = json.loads(run.out)
    assert [record["value"] for record in document["items"]] == ["a", "b"]
    assert document["coverage"] == [
        {"topic": "orders", "partition": 0, "end": None, "position": 2, "printed": 2},
        {"topic": "orders", "partition": 1, "end": None, "position": 0, "printed": 0},
    ]


def test_partitions_are_shown_as_runs() -> None:
    many = [TopicPartition("t", n) for n in (0, 1, 2, 5, 7, 8)] + [TopicPartition("a", 3)]
    assert partitions_text(many) == "a 3; t 0-2,5,7-8"


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        (PositionReset(5, "earliest", 10), "position 5.*log start, 10. Offsets 5 to 9 were deleted"),
        (
            PositionReset(5, "latest", 20),
            "position 5 is outside the log.*log end, 20.*Offsets 5 to 19 are skipped",
        ),
        (
            PositionReset(99, "earliest", 0),
            "position 99 is after the log end.*log start, 0. .*printed again",
        ),
        (PositionReset(99, "latest", 20), "position 99 is after the log end.*log end, 20. .*skipped"),
        (PositionReset(99, "truncated", 20), "position 99 is after the log end.*continues at 20"),
    ],
)
def test_a_reset_message_names_the_records_lost_skipped_or_repeated(reset: PositionReset, message: str) -> None:
    assert re.search(f"^orders 0: the group's {message}", reset_text(P0, reset))
    assert ("were deleted" in reset_text(P0, reset)) == (reset.policy == "earliest" and reset.new_offset > reset.offset)

"""A member that prints, against a consumer that is a script: what is committed is what was printed, however it ends."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from collections.abc import Iterable
from typing import Any

import pytest

from kcli.cli.consume.coverage_report import partition_words, reset_words
from kcli.cli.consume.filters import compile_filters
from kcli.cli.consume.member_session import MemberPlan, print_as_member
from kcli.cli.consume.options import Style, make_renderer
from kcli.cli.consume.range_session import Manner
from kcli.cli.consume.read_loop import Limits
from kcli.consumer.subscription import PositionReset
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, TimeoutExpired, WakeupError
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


class Woken:
    """What a session needs of a client: to be woken up, and to be told so by the next poll."""

    def __init__(self) -> None:
        self.woken = False

    def wakeup(self) -> None:
        self.woken = True

    def poll(self, timeout_ms: float) -> None:
        if self.woken:
            self.woken = False
            raise WakeupError("woken")


class FullDisk:
    """A stream that takes so many bytes, each write as far as it goes."""

    def __init__(self, room: int, error: OSError) -> None:
        self.room, self.error, self.got = room, error, b""

    def write(self, data: Any) -> int:
        part = bytes(data)[: self.room - len(self.got)]
        if not part and len(data):
            raise self.error
        self.got += part
        return len(part)


class Run:
    """One session over a script that ends in an interrupt, if in nothing else."""

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
        quiet_ms: float | None = None,
        output: str | None = None,
        interrupts: bool = True,
    ) -> None:
        self.consumer = FakeConsumer(steps, then=interrupt if interrupts else None)
        self.consumer.ends = ends or {}
        self.consumer.refusals = list(refusals)
        self.env = FakeEnvironment(clock=self.consumer.clock)
        manner = Manner(
            make_renderer(Style(output)),
            compile_filters(grep, None, (), invert=False),
            Limits(most, quiet_ms),
            quiet=quiet,
        )
        plan = MemberPlan("g", ["orders"], 5_000.0 if commit else None, 30_000.0, exit_at_end)
        self.status: int | None = None
        self.error: BaseException | None = None
        try:
            self.client = Woken()
            self.status = print_as_member(self.env, self.client, self.consumer, manner, plan)  # type: ignore[arg-type]
        except (Exception, KeyboardInterrupt) as error:
            self.error = error
        self.out, self.err = self.env.result(0)[1:]

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return self.consumer.committed


def interrupt(consumer: FakeConsumer) -> Any:
    os.kill(os.getpid(), signal.SIGINT)
    raise WakeupError("woken")


# --- what is committed


def test_after_ctrl_c_what_was_printed_is_committed_with_its_epoch_and_the_group_is_left() -> None:
    run = Run([assigned(0, P0, P1), AB, CDE])
    assert (run.status, run.out) == (130, b"a\nb\nc\nd\ne\n")
    assert run.committed == {P0: 3, P1: 2}
    assert run.consumer.commits[-1] == ("sync", {P0: OffsetAndMetadata(3, EPOCH), P1: OffsetAndMetadata(2, EPOCH)})
    assert run.consumer.closed == [30_000.0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_is_like_ctrl_c(number: signal.Signals) -> None:
    def told(consumer: FakeConsumer) -> Any:
        os.kill(os.getpid(), number)
        raise WakeupError("woken")

    run = Run([assigned(0, P0), AB, told], interrupts=False)
    assert (run.status, run.committed) == (130, {P0: 2})


def test_leaving_is_not_disturbed_by_a_wakeup_that_no_poll_has_met() -> None:
    """Ctrl-C while records are written, with nothing to commit: the request to leave must go out all the same."""

    def told(consumer: FakeConsumer) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    run = Run([assigned(0, P0), AB, told], commit=False, interrupts=False)
    assert (run.status, run.consumer.closed, run.client.woken) == (130, [30_000.0], False)


def test_a_signal_sent_twice_at_once_is_one_wish() -> None:
    """`timeout` signals its child and then the whole process group."""

    def told(consumer: FakeConsumer) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise WakeupError("woken")

    run = Run([assigned(0, P0), AB, told], interrupts=False)
    assert (run.status, run.committed) == (130, {P0: 2})


@pytest.mark.parametrize(("most", "expected"), [(1, {P0: 1}), (2, {P0: 2}), (3, {P0: 3, P1: 0}), (4, {P0: 3, P1: 1})])
def test_a_limit_inside_a_batch_commits_up_to_the_last_printed_record(
    most: int, expected: dict[TopicPartition, int]
) -> None:
    run = Run([assigned(0, P0, P1), AB, CDE], most=most)
    assert (run.status, len(run.out.split())) == (0, most)
    assert {P1: 0} | run.committed == {P1: 0} | expected


def test_what_a_filter_leaves_out_counts_as_printed() -> None:
    run = Run([assigned(0, P0, P1), AB, CDE], grep="[bd]")
    assert run.out == b"b\nd\n"
    assert run.committed == {P0: 3, P1: 2}


def test_with_a_limit_what_a_filter_leaves_out_counts_up_to_the_next_wanted_record() -> None:
    run = Run([assigned(0, P0), records({P0: values(b"no", b"yes", b"no", b"no", b"yes", b"no")})], grep="yes", most=1)
    assert run.out == b"yes\n"
    assert run.committed == {P0: 4}


def test_offsets_without_records_are_committed_too() -> None:
    """Behind a transaction's marker, or the lag of a group that has read all would never be 0."""
    run = Run([assigned(0, P0), records({P0: values(b"a")}, behind=1)])
    assert run.committed == {P0: 2}


def test_nothing_is_committed_if_so_asked() -> None:
    run = Run([assigned(0, P0), AB, revoked(P0)], commit=False)
    assert run.out == b"a\nb\n"
    assert run.consumer.commits == []
    assert run.consumer.closed


def test_where_it_begins_is_stored_at_once() -> None:
    """Or else a member that begins at the end of the log, and is killed, would begin at a later end."""
    run = Run([assigned(7, P0), lambda _: {}, lambda _: {}])
    assert run.consumer.commits == [("async", {P0: OffsetAndMetadata(7)})]


def test_it_commits_every_interval_while_it_prints_and_not_what_is_stored_already() -> None:
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


def test_what_was_printed_is_committed_before_it_goes() -> None:
    run = Run([assigned(0, P0, P1), AB, revoked(P0), assigned(0, P2)])
    assert ("sync", {P0: OffsetAndMetadata(2, EPOCH)}) in run.consumer.commits
    assert run.err.splitlines() == [
        "kcli: group g: assigned orders 0-1",
        "kcli: group g: revoked orders 0",
        "kcli: group g: assigned orders 2",
    ]
    assert P0 not in run.consumer.commits[-1][1]


def test_nothing_is_committed_of_what_was_lost() -> None:
    run = Run([assigned(0, P0), AB, lost(P0)])
    assert run.committed.get(P0, 0) == 0
    assert "kcli: group g: lost orders 0: the group has put this member out" in run.err


def test_a_commit_refused_before_a_revocation_is_told_even_if_quiet() -> None:
    refusal = BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, "too late")
    steps = [assigned(0, P0), lambda _: {}, AB, revoked(P0)]
    run = Run(steps, quiet=True)
    assert run.err == ""
    consumer_told = Run([*steps[:3], _refusing(refusal), *steps[3:]], quiet=True)
    assert consumer_told.err == (
        "kcli: group g: not committed: REBALANCE_IN_PROGRESS: too late; "
        "what was printed since the last commit will be printed again\n"
    )


def _refusing(error: Exception) -> Step:
    def step(consumer: FakeConsumer) -> Any:
        consumer.refusals.append(error)  # type: ignore[arg-type]
        return {}

    return step


def test_ctrl_c_in_the_middle_of_a_commit_waits_for_it() -> None:
    run = Run([assigned(0, P0), lambda _: {}, AB, _refusing(WakeupError("woken")), revoked(P0)])
    assert (run.status, run.committed) == (130, {P0: 2})


# --- how it ends


def test_a_partition_that_fails_ends_the_run_with_all_before_it_committed() -> None:
    run = Run([assigned(0, P0), AB, fails(CorruptRecords("bad batch"))])
    assert isinstance(run.error, CorruptRecords)
    assert run.committed == {P0: 2}
    assert run.consumer.closed


def test_a_last_commit_that_fails_is_the_runs_error() -> None:
    run = Run([assigned(0, P0), AB, _refusing(TimeoutExpired("no answer"))], commit=True)
    assert isinstance(run.error, TimeoutExpired)
    assert run.consumer.closed


def test_a_group_that_must_not_be_committed_to_ends_the_run() -> None:
    refusal = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    run = Run([assigned(0, P0), lambda _: {}, AB, lambda _: {}], refusals=[refusal] * 2, interrupts=False)
    assert run.error is refusal
    assert run.consumer.closed


def test_in_a_hurry_nothing_is_committed_and_leaving_is_short() -> None:
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
        (BrokenPipeError(), 3, 0),
        (BrokenPipeError(), 7, 3),
    ],
)
def test_of_a_full_disk_and_a_closed_pipe_what_was_taken_whole_is_committed(
    monkeypatch: pytest.MonkeyPatch, error: OSError, room: int, expected: int
) -> None:
    disk = FullDisk(room, error)
    monkeypatch.setattr("kcli.cli.consume.read_loop.os.write", lambda fd, data: disk.write(data))
    monkeypatch.setattr("tests.cli.fake.FakeEnvironment.stdout_bytes", _Stream())
    run = Run([assigned(0, P0, P1), AB, CDE])
    assert run.error is error
    assert run.consumer.closed
    assert run.committed.get(P0, 0) == expected
    assert run.committed.get(P1, 0) == 0


class _Stream:
    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return 1


# --- the end of the log


def test_exit_is_at_the_end_that_the_partitions_had_when_they_were_assigned() -> None:
    steps = [assigned(0, P0, P1), AB, records({P0: values(b"c", at=2)}), records({P1: values(b"d", b"e")})]
    run = Run(steps, ends={P0: 3, P1: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\nc\nd\ne\n")
    assert [line.split() for line in run.err.splitlines()[1:]] == [
        ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"],
        ["orders", "0", "3", "3", "3", "3"],
        ["orders", "1", "2", "2", "2", "2"],
    ]


def test_a_partition_that_comes_back_keeps_its_first_end() -> None:
    steps = [assigned(0, P0), AB, revoked(P0), _ends_at(P0, 99), assigned(2, P0)]
    run = Run(steps, ends={P0: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")


def _ends_at(tp: TopicPartition, end: int) -> Step:
    def step(consumer: FakeConsumer) -> Any:
        consumer.ends[tp] = end
        return {}

    return step


def test_a_member_without_partitions_waits_a_while_before_it_exits() -> None:
    """In cooperative groups a newcomer gets nothing at first, and its share with the next rebalance."""
    steps = [assigned(0), *[lambda _: {}] * 3, assigned(0, P0), AB]
    run = Run(steps, ends={P0: 2}, exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")
    run = Run([assigned(0)], exit_at_end=True, interrupts=False)
    assert (run.status, run.out) == (0, b"")
    assert run.consumer.clock.now_ms() >= 10_000
    assert "no partition is assigned to this member" in run.err


def test_joining_is_not_being_quiet_and_long_waits_are_told() -> None:
    run = Run([*[lambda _: {}] * 40, assigned(0, P0), AB], quiet_ms=1_000, interrupts=False)
    assert (run.status, run.out) == (0, b"a\nb\n")
    assert run.err.count("still waiting for an assignment: the group cannot be joined yet") == 1


def test_a_json_document_tells_what_was_printed_of_each_partition() -> None:
    run = Run([assigned(0, P0, P1), AB], output="json")
    document = json.loads(run.out)
    assert [record["value"] for record in document["items"]] == ["a", "b"]
    assert document["coverage"] == [
        {"topic": "orders", "partition": 0, "end": None, "position": 2, "printed": 2},
        {"topic": "orders", "partition": 1, "end": None, "position": 0, "printed": 0},
    ]


def test_many_partitions_are_few_words() -> None:
    many = [TopicPartition("t", n) for n in (0, 1, 2, 5, 7, 8)] + [TopicPartition("a", 3)]
    assert partition_words(many) == "a 3; t 0-2,5,7-8"


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        (PositionReset(5, "earliest", 10), "offset 5.*deleted.*log start, 10, and offsets 5 to 9 are lost"),
        (PositionReset(5, "latest", 20), "offset 5.*outside the log.*log end, 20, and offsets 5 to 19 are not read"),
        (PositionReset(99, "earliest", 0), "offset 99.*beyond the end.*log start, 0: .*printed, though"),
        (PositionReset(99, "latest", 20), "offset 99.*beyond the end.*log end, 20: .*not read"),
        (PositionReset(99, "truncated", 20), "offset 99.*beyond the end.*goes on at 20"),
    ],
)
def test_what_a_reset_means_for_the_records_is_said(reset: PositionReset, told: str) -> None:
    assert re.search(f"^orders 0: {told}", reset_words(P0, reset))
    assert ("are lost" in reset_words(P0, reset)) == (reset.policy == "earliest" and reset.new_offset > reset.offset)

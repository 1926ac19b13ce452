"""Reports on partitions while others are still read."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kcli.cli.consume.range_session import FollowReports, PartitionReports, PrintOptions, print_ranges
from kcli.cli.consume.read_loop import Limits, PrintedRecords
from kcli.cli.consume.renderer import Renderer, RenderOptions, make_renderer
from kcli.clock import ManualClock
from kcli.consumer.coverage import PartitionCoverage
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import EARLIEST, LATEST, ReadRange
from kcli.consumer.retry_backoff import RetryState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError
from kcli.structs import TopicPartition
from tests.cli.fake import FakeEnvironment, Result
from tests.consumer.cluster import FakeCluster

T0 = TopicPartition("t", 0)
P0, P1, P2, P3 = (TopicPartition("orders", number) for number in range(4))
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


# --- whole reads


def read_all(cluster: FakeCluster, asked: ReadRange, render: Callable[[str], bytes], **options: Any) -> Result:
    """Print partition 0 of topic t, each batch as `render` returns it; return status, output and reports."""
    client, config = cluster.client(max_partition_fetch_bytes=1)
    env = FakeEnvironment(clock=cluster.clock)
    reader = RangeReader(client, {T0: asked}, config)
    renderer = Renderer(lambda tp, columns: render(",".join(value.decode() for value in columns.values() if value)))
    status = print_ranges(env, client, reader, PrintOptions(renderer, **options), cluster.clock.now_ms() + 10_000)
    return env.result(status)


def three_batches() -> FakeCluster:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for value in ("a", "b", "c"):
        log.append(value)
    return cluster


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_the_read_after_the_current_batch(number: signal.Signals) -> None:
    def render(text: str) -> bytes:
        if text == "b":
            os.kill(os.getpid(), number)
        return text.encode()

    status, out, err = read_all(three_batches(), ReadRange(EARLIEST, LATEST), render)
    assert (status, out) == (130, b"ab")
    assert err.splitlines()[1].split() == ["t", "0", "start:end", "0:2", "2", "incomplete", "interrupted"]


def test_statistics_are_a_table_of_several_lines() -> None:
    err = read_all(three_batches(), ReadRange(EARLIEST, LATEST), str.encode, stats=True)[2]
    first, *_, last = err.splitlines()[-4:]
    assert first.split()[:3] == ["TOPIC", "PARTITION", "RECORDS"]
    assert last.startswith("in ")
    assert "\\n" not in err


def test_a_followed_topic_reports_its_end_before_the_read_stops() -> None:
    options = {"limits": Limits(idle_ms=2_000)}
    status, out, err = read_all(three_batches(), ReadRange(EARLIEST), str.encode, **options)
    assert (status, out, err) == (0, b"abc", "kcli: reached the end of t 0; waiting for new records\n")


def test_an_idle_end_without_a_broker_is_not_a_success() -> None:
    cluster = three_batches()

    def render(text: str) -> bytes:
        if text == "c":
            cluster.lose(1)
        return text.encode()

    status, out, err = read_all(cluster, ReadRange(EARLIEST), render, limits=Limits(idle_ms=3_000))
    assert (status, out) == (5, b"abc")
    assert "kcli: t 0: nothing can be read: no broker answered at 10.0.0.1:9092" in err


@pytest.mark.parametrize("most", [2, 3])
def test_a_read_that_has_reached_its_limit_does_not_wait_for_new_records(most: int) -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b", "c")
    options = {"limits": Limits(max_records=most)}
    status, out, err = read_all(cluster, ReadRange(EARLIEST), str.encode, **options)
    assert (status, out.decode().split(","), err) == (0, ["a", "b", "c"][:most], "")


def test_notes_are_reported_first_and_not_with_quiet() -> None:
    nothing = ReadRange(LATEST, LATEST)
    assert read_all(three_batches(), nothing, str.encode, notes=["-e"]).err.startswith("kcli: -e\n")
    assert read_all(three_batches(), nothing, str.encode, notes=["-e"], quiet=True).err == ""

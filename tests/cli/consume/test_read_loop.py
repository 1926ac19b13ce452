"""The read loop, against a reader that is a list of polls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from kcli.cli.consume import filters
from kcli.cli.consume.filters import compile_filters
from kcli.cli.consume.options import FilterOptions
from kcli.cli.consume.printed_records import Count, Limits, PrintedRecords
from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer
from kcli.cli.consume.read_loop import RecordPrinter, print_records
from kcli.cli.environment import StopSignals
from kcli.clock import ManualClock
from kcli.consumer.coverage import StopReason
from kcli.errors import WakeupError
from kcli.protocol.records.columns import RecordColumns
from kcli.structs import TopicPartition
from tests.cli.consume.data import columns, record

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Script:
    """A reader with scripted polls: batches, a number (offsets passed without records), or an exception."""

    def __init__(self, clock: ManualClock, polls: Iterable[Any], *, follow: bool = False) -> None:
        self.clock = clock
        self.polls = list(polls)
        self.follow = follow
        self.passed = 0

    @property
    def done(self) -> bool:
        return not self.polls and not self.follow

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        step = self.polls.pop(0) if self.polls else []
        if isinstance(step, Exception):
            raise step
        if isinstance(step, int):
            self.passed += step
            return []
        if not step:
            self.clock.advance(timeout_ms)
        return step


def values(*texts: bytes) -> RecordColumns:
    return columns(*(record(text) for text in texts))


class Run:
    """One run of the loop, and its results."""

    def __init__(
        self,
        polls: Iterable[Any],
        *,
        follow: bool = False,
        interrupt: StopSignals | None = None,
        after_poll: Callable[[], None] = lambda: None,
        **how: Any,
    ):
        self.clock = ManualClock()
        self.written: list[bytes] = []
        self.printed = PrintedRecords([P0, P1])
        script = Script(self.clock, polls, follow=follow)
        printer = RecordPrinter(
            PrintOptions(make_renderer(RenderOptions()), **how),
            lambda data: self.written.append(bytes(data)),
            self.printed,
            interrupt or StopSignals(lambda: None),
        )
        self.stop = print_records(
            script, printer, self.clock, offsets_passed=lambda: script.passed, after_poll=after_poll
        )

    @property
    def text(self) -> bytes:
        return b"".join(self.written)


TWO_POLLS = [[(P0, values(b"a", b"b")), (P1, values(b"c"))], [], [(P0, values(b"d"))]]


def test_everything_is_printed_in_order_and_counted() -> None:
    run = Run(TWO_POLLS)
    assert (run.stop, run.text) == (StopReason.END, b"a\nb\nc\nd\n")
    assert run.printed.counts == {P0: Count(3, 3), P1: Count(1, 1)}
    assert run.printed.total == Count(4, 4)


def test_max_messages_is_exact_across_partitions() -> None:
    for limit, text in ((1, b"a\n"), (2, b"a\nb\n"), (3, b"a\nb\nc\n")):
        run = Run(TWO_POLLS, limits=Limits(max_records=limit))
        assert (run.stop, run.text) == (StopReason.RECORD_LIMIT, text)
    assert Run(TWO_POLLS, limits=Limits(max_records=4)).stop == StopReason.END
    assert Run(TWO_POLLS, limits=Limits(max_records=9)).text == b"a\nb\nc\nd\n"


def test_max_messages_counts_matching_records() -> None:
    run = Run(TWO_POLLS, limits=Limits(max_records=2), filters=compile_filters(FilterOptions("[bcd]")))
    assert (run.stop, run.text) == (StopReason.RECORD_LIMIT, b"b\nc\n")


def test_the_first_unprinted_record_of_each_partition_is_stored() -> None:
    run = Run(TWO_POLLS, limits=Limits(max_records=1))
    assert run.printed.first_unprinted == {P0: 1, P1: 0}
    assert Run(TWO_POLLS, limits=Limits(max_records=2)).printed.first_unprinted == {P1: 0}
    assert Run(TWO_POLLS, limits=Limits(max_records=3)).printed.first_unprinted == {}
    assert Run(TWO_POLLS).printed.first_unprinted == {}


def test_a_read_with_unprinted_records_has_reached_the_limit_although_its_reader_is_done() -> None:
    assert Run(TWO_POLLS[:1], limits=Limits(max_records=2)).stop == StopReason.RECORD_LIMIT
    assert Run(TWO_POLLS[:1], limits=Limits(max_records=3)).stop == StopReason.END


def test_only_matching_records_count_as_unprinted() -> None:
    run = Run(TWO_POLLS, limits=Limits(max_records=1), filters=compile_filters(FilterOptions("[ac]")))
    assert run.printed.first_unprinted == {P1: 0}


def test_a_read_without_new_records_stops_after_the_idle_timeout() -> None:
    run = Run(TWO_POLLS, follow=True, limits=Limits(idle_ms=2000))
    assert (run.stop, run.text) == (StopReason.IDLE, b"a\nb\nc\nd\n")
    assert run.clock.now_ms() == 500 + 2000


def test_the_first_poll_does_not_count_as_idle_time() -> None:
    run = Run([[], *TWO_POLLS], follow=True, limits=Limits(idle_ms=300))
    assert (run.stop, run.text) == (StopReason.IDLE, b"a\nb\nc\n")
    assert Run([[], [], *TWO_POLLS], limits=Limits(idle_ms=300)).text == b""


def test_offsets_without_records_are_progress() -> None:
    run = Run([[], [], 5, [], [], [(P0, values(b"late"))]], limits=Limits(idle_ms=1200))
    assert (run.stop, run.text) == (StopReason.END, b"late\n")


def test_an_interrupt_ends_the_read_after_the_received_records() -> None:
    interrupt = StopSignals(lambda: None)
    polls = [*TWO_POLLS[:1], WakeupError("woken"), *TWO_POLLS[1:]]
    run = Run(polls, interrupt=interrupt, after_poll=lambda: setattr(interrupt, "requested", True))
    assert (run.stop, run.text) == (StopReason.INTERRUPTED, b"a\nb\nc\n")


def test_each_poll_is_written_before_the_next() -> None:
    run = Run(TWO_POLLS)
    assert run.written == [b"a\nb\n", b"c\n", b"d\n"]


def test_stats_are_lines_per_partition_and_a_total() -> None:
    run = Run([[(P0, columns(record(b"value", b"key"), record(None, None)))]])
    lines = run.printed.stats(2000).splitlines()
    assert [line.split() for line in lines] == [
        ["TOPIC", "PARTITION", "RECORDS", "BYTES", "RECORDS/S", "BYTES/S"],
        ["orders", "0", "2", "8", "1", "4"],
        ["orders", "1", "0", "0", "0", "0"],
        ["total", "-", "2", "8", "1", "4"],
        ["in", "2.000", "s"],
    ]


def merged(*rows: tuple[int, int, bytes]) -> RecordColumns:
    """Return records of several partitions in this order: partition, offset, value."""
    found = values(*(value for _, _, value in rows))
    found.partitions = np.array([partition for partition, _, _ in rows])
    found.offsets = np.array([offset for _, offset, _ in rows])
    return found


def test_merged_records_are_counted_by_partition() -> None:
    run = Run([[(P0, merged((1, 7, b"a"), (0, 3, b"bb"), (1, 8, b"c")))]])
    assert run.text == b"a\nbb\nc\n"
    assert run.printed.counts == {P0: Count(1, 2), P1: Count(2, 2)}


def test_the_first_unprinted_merged_record_of_each_partition_is_stored() -> None:
    rows = merged((1, 7, b"a"), (0, 3, b"b"), (1, 8, b"c"), (0, 4, b"d"), (1, 9, b"e"))
    run = Run([[(P0, rows)]], limits=Limits(max_records=2))
    assert (run.stop, run.text) == (StopReason.RECORD_LIMIT, b"a\nb\n")
    assert run.printed.first_unprinted == {P0: 4, P1: 8}


def test_the_first_signal_ends_an_expression_that_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's re calls the handlers of signals while it searches; a process reads no other signal then."""
    search = filters.matching_rows

    def interrupted(*arguments: Any) -> Any:
        if b"aaa" in arguments[1].values()[0]:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        return search(*arguments)

    monkeypatch.setattr(filters, "matching_rows", interrupted)
    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        with StopSignals(lambda: None) as interrupt:
            polls = [[(P0, values(b"ok")), (P1, values(b"a" * 40 + b"b"))], [(P0, values(b"ok"))]]
            run = Run(polls, interrupt=interrupt, filters=compile_filters(FilterOptions("(a+)+$|ok")))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (run.stop, run.text) == (StopReason.INTERRUPTED, b"ok\n")
    assert run.printed.first_unprinted == {P1: 0}

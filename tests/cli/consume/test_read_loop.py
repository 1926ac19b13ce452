"""The loop of a read, against a reader that is a list of polls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcli.cli.consume.filters import compile_filters
from kcli.cli.consume.options import Style, make_renderer
from kcli.cli.consume.read_loop import DONE, ENOUGH, INTERRUPTED, QUIET, Count, Interrupt, Limits, Tally, align, pump
from kcli.clock import ManualClock
from kcli.errors import WakeupError
from kcli.protocol.records.columns import RecordColumns
from kcli.structs import TopicPartition
from tests.cli.consume.data import columns, record

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Script:
    """A reader whose polls are written down: batches, a number (offsets passed without records), or an exception."""

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
    """What one pump left behind."""

    def __init__(self, polls: Iterable[Any], *, follow: bool = False, interrupt: Interrupt | None = None, **how: Any):
        self.clock = ManualClock()
        self.written: list[bytes] = []
        self.tally = Tally([P0, P1])
        script = Script(self.clock, polls, follow=follow)
        self.why = pump(
            script,
            make_renderer(Style()).render,
            lambda data: self.written.append(bytes(data)),
            passed=lambda: script.passed,
            tally=self.tally,
            clock=self.clock,
            interrupt=interrupt or Interrupt(lambda: None),
            **how,
        )

    @property
    def text(self) -> bytes:
        return b"".join(self.written)


TWO_POLLS = [[(P0, values(b"a", b"b")), (P1, values(b"c"))], [], [(P0, values(b"d"))]]


def test_everything_is_printed_in_order_and_counted() -> None:
    run = Run(TWO_POLLS)
    assert (run.why, run.text) == (DONE, b"a\nb\nc\nd\n")
    assert run.tally.counts == {P0: Count(3, 3), P1: Count(1, 1)}
    assert run.tally.total == Count(4, 4)


def test_max_messages_cuts_exactly_across_partitions() -> None:
    for limit, text in ((1, b"a\n"), (2, b"a\nb\n"), (3, b"a\nb\nc\n")):
        run = Run(TWO_POLLS, limits=Limits(max_records=limit))
        assert (run.why, run.text) == (ENOUGH, text)
    assert Run(TWO_POLLS, limits=Limits(max_records=4)).why == DONE
    assert Run(TWO_POLLS, limits=Limits(max_records=9)).text == b"a\nb\nc\nd\n"


def test_max_messages_counts_what_the_filter_lets_through() -> None:
    run = Run(TWO_POLLS, limits=Limits(max_records=2), filters=compile_filters("[bcd]", None, [], invert=False))
    assert (run.why, run.text) == (ENOUGH, b"b\nc\n")


def test_records_that_max_messages_left_over_are_remembered() -> None:
    run = Run(TWO_POLLS, limits=Limits(max_records=1))
    assert run.tally.left == {P0: 1, P1: 0}
    assert Run(TWO_POLLS, limits=Limits(max_records=2)).tally.left == {P1: 0}
    assert Run(TWO_POLLS, limits=Limits(max_records=3)).tally.left == {}
    assert Run(TWO_POLLS).tally.left == {}


def test_a_read_that_left_records_over_is_not_done_though_its_reader_is() -> None:
    assert Run(TWO_POLLS[:1], limits=Limits(max_records=2)).why == ENOUGH
    assert Run(TWO_POLLS[:1], limits=Limits(max_records=3)).why == DONE


def test_only_what_the_filter_lets_through_is_left_over() -> None:
    run = Run(TWO_POLLS, limits=Limits(max_records=1), filters=compile_filters("[ac]", None, [], invert=False))
    assert run.tally.left == {P1: 0}


def test_a_quiet_follower_stops_after_its_idle_time() -> None:
    run = Run(TWO_POLLS, follow=True, limits=Limits(quiet_ms=2000))
    assert (run.why, run.text) == (QUIET, b"a\nb\nc\nd\n")
    assert run.clock.now_ms() == 500 + 2000


def test_the_first_poll_is_not_quiet_it_is_for_getting_ready() -> None:
    run = Run([[], *TWO_POLLS], follow=True, limits=Limits(quiet_ms=300))
    assert (run.why, run.text) == (QUIET, b"a\nb\nc\n")
    assert Run([[], [], *TWO_POLLS], limits=Limits(quiet_ms=300)).text == b""


def test_offsets_passed_without_records_are_not_quiet() -> None:
    run = Run([[], [], 5, [], [], [(P0, values(b"late"))]], limits=Limits(quiet_ms=1200))
    assert (run.why, run.text) == (DONE, b"late\n")


def test_an_interrupt_ends_the_read_after_what_was_fetched() -> None:
    interrupt = Interrupt(lambda: None)
    polls = [*TWO_POLLS[:1], WakeupError("woken"), *TWO_POLLS[1:]]
    run = Run(polls, interrupt=interrupt, tick=lambda: setattr(interrupt, "asked", True))
    assert (run.why, run.text) == (INTERRUPTED, b"a\nb\nc\n")


def test_each_poll_is_written_before_the_next() -> None:
    run = Run(TWO_POLLS)
    assert run.written == [b"a\nb\n", b"c\n", b"d\n"]


def test_stats_are_lines_per_partition_and_a_total() -> None:
    run = Run([[(P0, columns(record(b"value", b"key"), record(None, None)))]])
    lines = run.tally.stats(2000).splitlines()
    assert [line.split() for line in lines] == [
        ["TOPIC", "PARTITION", "RECORDS", "BYTES", "RECORDS/S", "BYTES/S"],
        ["orders", "0", "2", "8", "1", "4"],
        ["orders", "1", "0", "0", "0", "0"],
        ["total", "-", "2", "8", "1", "4"],
        ["in", "2.000", "s"],
    ]


def test_columns_of_even_width() -> None:
    assert align([["A", "LONG"], ["value", ""]]) == "A      LONG\nvalue"

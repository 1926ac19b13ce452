"""One read without a group: resolve the ranges, print the records, report the coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli import exit_status
from kcli.cli.consume import coverage_report
from kcli.cli.consume.coverage_report import partitions_text
from kcli.cli.consume.read_loop import (
    UNLIMITED,
    Limits,
    PrintedRecords,
    Sink,
    complete_document,
    print_records,
)
from kcli.cli.environment import StopSignals
from kcli.cli.output.progress import Progress
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason, is_bounded
from kcli.consumer.subscription import FetchPosition

if TYPE_CHECKING:
    from kcli.cli.consume.checkpointer import Checkpointer
    from kcli.cli.consume.decoding import Decoding
    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.range_source import RangeSource
    from kcli.cli.consume.renderer import Renderer
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.read_range import ReadRange
    from kcli.consumer.retry_backoff import RetryState
    from kcli.structs import TopicPartition

SIGN_OF_LIFE_MS = 10_000.0
_REPORT_INTERVAL_MS = 1000.0
_END_INTERVAL_MS = 250.0
_SILENCE_MS = 5_000.0


class PrintOptions(NamedTuple):
    """The rendering and the filters of records, early ends, and the reports on standard error.

    `notes` are reported before the first record. `quiet` suppresses notes and tables; `verbose` adds signs of life.
    `decoding` decodes keys and values, and has the expressions. `checkpoint` stores the positions of printed records.
    """

    renderer: Renderer
    filters: Filters | None = None
    limits: Limits = UNLIMITED
    stats: bool = False
    quiet: bool = False
    verbose: bool = False
    notes: Sequence[str] = ()
    decoding: Decoding | None = None
    checkpoint: Checkpointer | None = None

    def status(self, status: int) -> int:
        """Report the failures of decoding, and return the exit status of a read that would end with `status`."""
        if self.decoding is None:
            return status
        self.decoding.report_summary()
        return self.decoding.status(status)


def print_ranges(
    env: Environment,
    client: ConsumerNetworkClient,
    reader: RangeSource,
    options: PrintOptions,
    deadline_ms: float,
) -> int:
    """Print the records of the ranges, report the coverage, and return the exit status.

    `deadline_ms` is for resolving the ranges.
    """
    printed = PrintedRecords(reader.ranges)
    with_table = is_bounded(reader.ranges) and not options.quiet
    report = reporter(env, "kcli", quiet=options.quiet)
    for note in options.notes:
        report(note)
    sink = Sink(env.stdout_bytes)
    partitions = PartitionReports(env, reader.coverage, with_notes=not options.quiet, failures_in_table=with_table)
    try:
        with complete_document(options.renderer, sink):
            resolution = reader.resolve(deadline_ms)
            resolved = resolution.values
            if options.checkpoint is not None:
                options.checkpoint.begin(resolution, reader.positions(), sink)
            distance = sum(max(0, one.end - one.position) for one in resolved.values() if one.end is not None)
            partitions.report()
            started_ms = env.clock.now_ms()
            stop = _print_ranges(env, client, reader, options, printed, partitions, sink, distance)
    finally:
        failing = reader.retry_states()
        reader.close()
    partitions.report()
    coverage = ReadCoverage.of(reader.coverage(), stop, printed.first_unprinted)
    if with_table:
        env.report_lines(coverage_report.coverage_table(coverage, reader.ranges, printed.counts).split("\n"))
    if options.stats:
        env.report_lines(printed.stats(env.clock.now_ms() - started_ms).split("\n"))
    status = options.status(coverage_report.read_status(coverage))
    if stop is StopReason.IDLE and failing:  # no record arrived because none could
        for sentence in unreadable(failing):
            env.report(f"kcli: {sentence}")
        return status or exit_status.INCOMPLETE
    return status


def _print_ranges(
    env: Environment,
    client: ConsumerNetworkClient,
    reader: RangeSource,
    options: PrintOptions,
    printed: PrintedRecords,
    partitions: PartitionReports,
    sink: Sink,
    distance: int,
) -> StopReason:
    """Write everything that goes to standard output, of `distance` offsets; return the reason for the end."""
    renderer, checkpoint = options.renderer, options.checkpoint
    if checkpoint is None or not checkpoint.output_has_records:
        sink.write(renderer.begin)
    before = _offsets_passed(reader)
    max_records = options.limits.max_records

    def fraction() -> float:
        by_offset = (_offsets_passed(reader) - before) / distance if distance else 1.0
        return max(by_offset, printed.total.records / max_records if max_records else 0.0)

    follow = FollowReports(env, "kcli", reader.followed, reader.retry_states, printed, options)

    def after_poll() -> None:
        progress.tick()
        follow.tick()
        partitions.tick(len(reader.ranges))
        sink.check()
        if checkpoint is not None:
            checkpoint.tick(printed_positions)

    def printed_positions() -> dict[TopicPartition, FetchPosition]:
        unprinted = {tp: FetchPosition(offset) for tp, offset in printed.first_unprinted.items()}
        return {**reader.positions(), **unprinted}

    shown = _shows_progress(env, reader.ranges, options)
    progress = Progress(env, fraction=fraction, records=lambda: printed.total.records, shown=shown)
    with StopSignals(client.wakeup) as interrupt, progress:
        stop = print_records(
            reader,
            renderer.render,
            sink.write,
            offsets_passed=lambda: _offsets_passed(reader),
            printed=printed,
            clock=env.clock,
            interrupt=interrupt,
            limits=options.limits,
            filters=options.filters,
            decoding=options.decoding,
            after_poll=after_poll,
        )
    env.interrupted = interrupt.requested
    coverage = ReadCoverage.of(reader.coverage(), stop, printed.first_unprinted)
    sink.write(renderer.end(coverage_report.coverage_items(coverage, reader.ranges, printed.counts)))
    if checkpoint is not None:
        checkpoint.finish(printed_positions)
    return stop


def _offsets_passed(reader: RangeSource) -> int:
    """Return the sum of all positions: it increases with every offset, with or without a record."""
    return sum(one.position for one in reader.coverage())


def _shows_progress(env: Environment, ranges: Mapping[TopicPartition, ReadRange], options: PrintOptions) -> bool:
    return is_bounded(ranges) and not env.stdout_is_terminal and not options.quiet


def reporter(env: Environment, prefix: str, *, quiet: bool) -> Callable[[str], None]:
    """Return a function that reports a sentence on stderr after this prefix; one without effect if `quiet`."""

    def report(sentence: str) -> None:
        if not quiet:
            env.report(f"{prefix}: {sentence}")

    return report


class FollowReports:
    """Report the end of the log once for each followed partition, and with -v a sign of life at intervals.

    `followed` returns the followed partitions, each with whether it was read to the log end. The end is reported when
    each of them was at its end at some time. `retry_states` returns the failures because of which nothing arrives;
    they are reported after five seconds, because nothing else distinguishes a dead broker from a topic without news.
    """

    def __init__(
        self,
        env: Environment,
        prefix: str,
        followed: Callable[[], Mapping[TopicPartition, bool]],
        retry_states: Callable[[], Mapping[TopicPartition, RetryState]],
        printed: PrintedRecords,
        options: PrintOptions,
    ) -> None:
        self._clock = env.clock
        self._report = reporter(env, prefix, quiet=options.quiet)
        self._followed = followed
        self._retry_states = retry_states
        self._failing: set[TopicPartition] = set()
        self._printed = printed
        self._limits = options.limits
        self._reached: set[TopicPartition] = set()
        self._reported: set[TopicPartition] = set()
        self._next_ms = 0.0
        self._next_sign_ms = env.clock.now_ms() + SIGN_OF_LIFE_MS if options.verbose else float("inf")

    def tick(self) -> None:
        """Report what is due."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + (_REPORT_INTERVAL_MS if self._reported else _END_INTERVAL_MS)
            self._report_end()
            self._report_failures(now_ms)
        if now_ms >= self._next_sign_ms:
            self._next_sign_ms = now_ms + SIGN_OF_LIFE_MS
            self._report(f"{self._printed.total.records} records printed{self._end_text()}")

    def _report_end(self) -> None:
        if self._limits.is_reached(self._printed.total.records):
            return  # records after the limit were read, but not printed
        followed = self._followed()
        self._reached.update(tp for tp, at_end in followed.items() if at_end)
        new = followed.keys() - self._reported
        if new and self._reached.issuperset(followed):
            self._reported |= new
            self._report(f"reached the end of {partitions_text(new)}; waiting for new records")

    def _report_failures(self, now_ms: float) -> None:
        states = self._retry_states()
        if not states and not self._failing:
            return
        followed = self._followed()
        recovered = [tp for tp in self._failing - states.keys() if tp in followed]
        if recovered:
            self._report(f"{partitions_text(recovered)}: the broker answers again")
        self._failing &= states.keys()
        late = {tp: it for tp, it in states.items() if now_ms - it.since_ms >= _SILENCE_MS and tp not in self._failing}
        self._failing.update(late)
        for sentence in unreadable(late):
            self._report(f"{sentence}; still trying")

    def _end_text(self) -> str:
        followed = self._followed()
        if not followed:
            return ""
        failing = f", {len(self._failing)} cannot be read" if self._failing else ""
        return f"; {sum(followed.values())} of {len(followed)} partitions are read to the end{failing}"


def unreadable(states: Mapping[TopicPartition, RetryState]) -> list[str]:
    """Return one sentence for all partitions with the same failure."""
    partitions_of: dict[str, list[TopicPartition]] = {}
    for tp, state in states.items():
        partitions_of.setdefault(state.error.message, []).append(tp)
    return [f"{partitions_text(tps)}: nothing can be read: {error}" for error, tps in partitions_of.items()]


class PartitionReports:
    """Report each note on a partition and each failure of one once, while other partitions are still read.

    `failures_in_table`: the failures are in the coverage table, and are not reported before it.
    """

    def __init__(
        self,
        env: Environment,
        coverage: Callable[[], Sequence[PartitionCoverage]],
        *,
        with_notes: bool,
        failures_in_table: bool,
    ) -> None:
        self._env = env
        self._coverage = coverage
        self._reported: set[tuple[TopicPartition, str]] = set()
        self._noted: set[TopicPartition] = set()
        self._with_notes = with_notes
        self._failures_in_table = failures_in_table
        self._next_ms = 0.0

    def tick(self, partition_count: int) -> None:
        """Report new partitions at once, and other news at most once a second."""
        now_ms = self._env.clock.now_ms()
        if now_ms >= self._next_ms or partition_count > len(self._noted):
            self._next_ms = now_ms + _REPORT_INTERVAL_MS
            self.report()

    def report(self) -> None:
        """Report new notes and failures now."""
        coverage = self._coverage()
        sentences = []
        if self._with_notes:
            sentences += coverage_report.notes(one for one in coverage if one.tp not in self._noted)
        self._noted.update(one.tp for one in coverage)
        if not self._failures_in_table:
            new = [one for one in coverage if (one.tp, one.reason) not in self._reported]
            self._reported.update((one.tp, one.reason) for one in new)
            sentences += coverage_report.failures(new)
        for sentence in sentences:
            self._env.report(f"kcli: {sentence}")

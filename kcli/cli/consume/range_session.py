"""One read without a group: resolve the ranges, print the records, report the coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.consume import coverage_report
from kcli.cli.consume.read_loop import UNLIMITED, Interrupt, Limits, PrintedRecords, Sink, print_records
from kcli.cli.output.progress import Progress
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason, is_bounded
from kcli.errors import WakeupError

if TYPE_CHECKING:
    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.renderer import Renderer
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.range_reader import RangeReader
    from kcli.consumer.read_range import ReadRange
    from kcli.structs import TopicPartition

_REPORT_INTERVAL_MS = 1000.0


class PrintOptions(NamedTuple):
    """The rendering and the filters of records, early ends, and the reports on standard error."""

    renderer: Renderer
    filters: Filters | None = None
    limits: Limits = UNLIMITED
    stats: bool = False
    quiet: bool = False


def print_ranges(
    env: Environment,
    client: ConsumerNetworkClient,
    reader: RangeReader,
    options: PrintOptions,
    deadline_ms: float,
) -> int:
    """Print the records of the ranges, report the coverage, and return the exit status.

    `deadline_ms` is for resolving the ranges.
    """
    printed = PrintedRecords(reader.ranges)
    with_table = is_bounded(reader.ranges) and not options.quiet
    partitions = PartitionReports(env, reader.coverage, with_notes=not options.quiet, failures_in_table=with_table)
    try:
        resolved = reader.resolve(deadline_ms).values
        distance = sum(max(0, one.end - one.position) for one in resolved.values() if one.end is not None)
        partitions.report()
        started_ms = env.clock.now_ms()
        stop = _print_ranges(env, client, reader, options, printed, partitions, distance)
    finally:
        with suppress(WakeupError):  # of Ctrl-C, if no poll has raised it
            reader.close()
    partitions.report()
    coverage = ReadCoverage.of(reader.coverage(), stop, printed.first_unprinted)
    if with_table:
        env.report(coverage_report.coverage_table(coverage, reader.ranges, printed.counts))
    if options.stats:
        env.report(printed.stats(env.clock.now_ms() - started_ms))
    return coverage_report.read_status(coverage)


def _print_ranges(
    env: Environment,
    client: ConsumerNetworkClient,
    reader: RangeReader,
    options: PrintOptions,
    printed: PrintedRecords,
    partitions: PartitionReports,
    distance: int,
) -> StopReason:
    """Write everything that goes to standard output, of `distance` offsets; return the reason for the end."""
    renderer, sink = options.renderer, Sink(env.stdout_bytes)
    sink.write(renderer.begin)
    before = _offsets_passed(reader)
    max_records = options.limits.max_records

    def fraction() -> float:
        by_offset = (_offsets_passed(reader) - before) / distance if distance else 1.0
        return max(by_offset, printed.total.records / max_records if max_records else 0.0)

    def after_poll() -> None:
        progress.tick()
        partitions.tick(len(reader.ranges))
        sink.check()

    shown = _shows_progress(env, reader.ranges, options)
    progress = Progress(env, fraction=fraction, records=lambda: printed.total.records, shown=shown)
    with Interrupt(client.wakeup) as interrupt, progress:
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
            after_poll=after_poll,
        )
    env.interrupted = interrupt.requested
    coverage = ReadCoverage.of(reader.coverage(), stop, printed.first_unprinted)
    sink.write(renderer.end(coverage_report.coverage_items(coverage, reader.ranges, printed.counts)))
    return stop


def _offsets_passed(reader: RangeReader) -> int:
    """Return the sum of all positions: it increases with every offset, with or without a record."""
    return sum(one.position for one in reader.coverage())


def _shows_progress(env: Environment, ranges: Mapping[TopicPartition, ReadRange], options: PrintOptions) -> bool:
    can_draw = env.stderr_is_terminal and env.environ.get("TERM") != "dumb"
    return can_draw and is_bounded(ranges) and not env.stdout_is_terminal and not options.quiet


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

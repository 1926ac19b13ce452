"""One read without a group: make its source of records, resolve the ranges, print, report the coverage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kcli.cli import exit_status
from kcli.cli.consume import reports
from kcli.cli.consume.options import compile_topics
from kcli.cli.consume.printed_records import PrintedRecords
from kcli.cli.consume.printing import PrintOptions
from kcli.cli.consume.read_loop import RecordPrinter, complete_document, print_records
from kcli.cli.consume.reports import FollowReports, PartitionReports, reporter, unreadable
from kcli.cli.consume.sink import Sink
from kcli.cli.environment import StopSignals
from kcli.cli.output.progress import Progress
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason, is_bounded
from kcli.consumer.subscription import FetchPosition
from kcli.errors import KcliError, NotFound
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.cli.consume.checkpointer import Checkpointer
    from kcli.cli.consume.options import OffsetSpecs, SourceOptions
    from kcli.cli.environment import Environment
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results
    from kcli.consumer.read_checkpoint import Selection
    from kcli.consumer.read_range import ReadRange, ResolvedRange
    from kcli.consumer.retry_backoff import RetryState
    from kcli.protocol.records.columns import RecordColumns


class RangeSource(Protocol):
    """Records of ranges with their coverage: a `RangeReader`, or one that returns its records in another order."""

    @property
    def ranges(self) -> Mapping[TopicPartition, ReadRange]: ...
    @property
    def done(self) -> bool: ...
    def resolve(self, deadline_ms: float) -> Results[TopicPartition, ResolvedRange]: ...
    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]: ...
    def coverage(self) -> list[PartitionCoverage]: ...
    def positions(self) -> dict[TopicPartition, FetchPosition]: ...
    def followed(self) -> dict[TopicPartition, bool]: ...
    def retry_states(self) -> dict[TopicPartition, RetryState]: ...
    def close(self) -> None: ...


def find_topics(
    client: ConsumerNetworkClient, expression: str, config: ConsumerConfig, deadline_ms: float, *, may_wait: bool
) -> dict[str, list[int] | None]:
    """Return the topics whose whole name matches. Raise NotFound if there are none, unless the read waits for them."""
    from kcli.client.metadata import matching_topics

    cluster, pattern = client.topics_metadata(None, deadline_ms), compile_topics(expression)
    names = matching_topics(cluster, pattern, with_internal=not config.exclude_internal_topics)
    if not names and not may_wait:
        raise NotFound(f"--topics: no topic matches {expression!r}")
    return dict.fromkeys(sorted(names))


@contextmanager
def open_checkpoint(env: Environment, path: str | None, report: Callable[[str], None]) -> Iterator[Checkpointer | None]:
    """Open the checkpoint, and unlock it at the end; None without one."""
    if path is None:
        yield None
        return
    from kcli.cli.consume.checkpointer import Checkpointer

    with closing(Checkpointer(path, env.stdout_bytes, env.clock, report)) as checkpoint:
        yield checkpoint


def selection_of(
    expression: str | None,
    wanted: Mapping[str, list[int] | None],
    specs: OffsetSpecs,
    ranges: Iterable[TopicPartition],
    *,
    control: bool,
) -> Selection:
    """Return the topics of a read, with their partitions unless all of a topic are read."""
    from kcli.consumer.read_checkpoint import Selection

    numbers = numbers_by_topic(ranges)
    return Selection(
        {
            name: None if given is None and not specs.names_only_partitions() else tuple(numbers.get(name, ()))
            for name, given in wanted.items()
        },
        expression,
        control,
    )


def make_source(
    client: ConsumerNetworkClient,
    ranges: Mapping[TopicPartition, ReadRange],
    config: ConsumerConfig,
    options: SourceOptions,
    *,
    deadline_ms: float,
    follow_new: Collection[str] = (),
    follow_pattern: str | None = None,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> RangeSource:
    """Return the source of these ranges, or of their last records.

    `follow_pattern`: topics that are created later and match it are read too. `epochs`: the ranges go on from a
    checkpoint.
    """
    from kcli.consumer.range_reader import RangeReader

    decode = None
    if options.control:
        from kcli.protocol.records.control_records import decode_control

        decode = decode_control
    is_tail = options.tail is not None and epochs is None
    if options.tail is not None and is_tail:
        from kcli.consumer.tail import find_tail

        ranges = find_tail(client, ranges, config, options.tail, deadline_ms, decode=decode)
    reader = RangeReader(
        client,
        ranges,
        config,
        follow_new=follow_new,
        follow_pattern=None if follow_pattern is None else compile_topics(follow_pattern),
        decode=decode,
        epochs=epochs,
    )
    if not (options.merge or is_tail):
        return reader
    from kcli.consumer.merged_reader import WAIT_MS, MergedReader

    return MergedReader(reader, client.clock, wait_ms=WAIT_MS if options.merge else 0.0)


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
    started_ms, stop = None, StopReason.FAILED

    def coverage() -> ReadCoverage:
        return ReadCoverage.of(reader.coverage(), stop, printed.first_unprinted)

    def coverage_items() -> list[dict[str, Any]]:
        return [] if started_ms is None else reports.coverage_items(coverage(), reader.ranges, printed.counts)

    def report_coverage(started_ms: float) -> None:
        partitions.report()
        if with_table:
            env.report_lines(reports.coverage_table(coverage(), reader.ranges, printed.counts).split("\n"))
        options.report_stats(env, printed, started_ms)

    try:
        with complete_document(options.renderer, sink, coverage_items):
            resolution = reader.resolve(deadline_ms)
            resolved = resolution.values
            if options.checkpoint is not None:
                options.checkpoint.begin(resolution, reader.positions(), sink)
            distance = sum(max(0, part.end - part.position) for part in resolved.values() if part.end is not None)
            partitions.report()
            started_ms = env.clock.now_ms()
            stop = _print_ranges(env, client, reader, options, printed, partitions, sink, distance)
    except KcliError:
        if started_ms is not None:
            report_coverage(started_ms)
        raise
    finally:
        failing = reader.retry_states()
        reader.close()
    report_coverage(started_ms)
    status = options.status(reports.read_status(coverage()))
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
        printer = RecordPrinter(options, sink.write, printed, interrupt)
        passed = partial(_offsets_passed, reader)
        stop = print_records(reader, printer, env.clock, offsets_passed=passed, after_poll=after_poll)
    env.interrupted = interrupt.requested
    coverage = ReadCoverage.of(reader.coverage(), stop, printed.first_unprinted)
    sink.write(renderer.end(reports.coverage_items(coverage, reader.ranges, printed.counts)))
    if checkpoint is not None:
        checkpoint.finish(printed_positions)
    return stop


def _offsets_passed(reader: RangeSource) -> int:
    """Return the sum of all positions: it increases with every offset, with or without a record."""
    return sum(part.position for part in reader.coverage())


def _shows_progress(env: Environment, ranges: Mapping[TopicPartition, ReadRange], options: PrintOptions) -> bool:
    return is_bounded(ranges) and not env.stdout_is_terminal and not options.quiet

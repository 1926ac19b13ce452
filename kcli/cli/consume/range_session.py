"""One read from the first note to the last line of its account: what `consume` does once it knows what is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.consume import coverage_report
from kcli.cli.consume.read_loop import UNLIMITED, Interrupt, Limits, Sink, Tally, pump
from kcli.cli.output.progress import Progress
from kcli.errors import WakeupError

if TYPE_CHECKING:
    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.renderer import Renderer
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.range_reader import RangeReader
    from kcli.consumer.read_range import ReadRange
    from kcli.structs import TopicPartition


class Manner(NamedTuple):
    """How records are chosen and printed, when to stop early, and what to say besides."""

    renderer: Renderer
    filters: Filters | None = None
    limits: Limits = UNLIMITED
    stats: bool = False
    quiet: bool = False


def print_ranges(
    env: Environment,
    client: ConsumerNetworkClient,
    reader: RangeReader,
    ranges: dict[TopicPartition, ReadRange],
    manner: Manner,
    deadline_ms: float,
) -> int:
    """Print what the ranges hold and account for it; returns the exit status.

    `deadline_ms` is for finding out the offsets.
    """
    tally = Tally(ranges)
    footed = coverage_report.is_bounded(ranges) and not manner.quiet
    problems = Problems(env, reader.coverage, told_later=footed)
    try:
        resolved = reader.resolve(deadline_ms).values
        distance = sum(max(0, one.end - one.position) for one in resolved.values() if one.end is not None)
        if not manner.quiet:
            _say(env, coverage_report.notes(reader.coverage()))
        started_ms = env.clock.now_ms()
        why = _print_records(env, client, reader, ranges, manner, tally, problems, distance)
    finally:
        with suppress(WakeupError):  # Ctrl-C's, if no poll has met it
            reader.close()
    problems.tell()
    coverage = coverage_report.cut_short(reader.coverage(), tally.left)
    if footed:
        env.say(coverage_report.footer(coverage, ranges, tally.counts, why))
    if manner.stats:
        env.say(tally.stats(env.clock.now_ms() - started_ms))
    return coverage_report.read_status(coverage, why)


def _print_records(
    env: Environment,
    client: ConsumerNetworkClient,
    reader: RangeReader,
    ranges: dict[TopicPartition, ReadRange],
    manner: Manner,
    tally: Tally,
    problems: Problems,
    distance: int,
) -> str:
    """Everything that goes to standard output, over `distance` offsets; returns why it ended."""
    renderer, sink = manner.renderer, Sink(env.stdout_bytes)
    sink.write(renderer.begin)
    before = _passed(reader)
    most = manner.limits.max_records

    def fraction() -> float:
        by_offset = (_passed(reader) - before) / distance if distance else 1.0
        return max(by_offset, tally.total.records / most if most else 0.0)

    def tick() -> None:
        progress.tick()
        problems.tick()
        sink.check()

    shown = _shows_progress(env, ranges, manner)
    progress = Progress(env, fraction=fraction, records=lambda: tally.total.records, shown=shown)
    with Interrupt(client.wakeup) as interrupt, progress:
        why = pump(
            reader,
            renderer.render,
            sink.write,
            passed=lambda: _passed(reader),
            tally=tally,
            clock=env.clock,
            interrupt=interrupt,
            limits=manner.limits,
            filters=manner.filters,
            tick=tick,
        )
    env.interrupted = interrupt.asked
    coverage = coverage_report.cut_short(reader.coverage(), tally.left)
    sink.write(renderer.end(coverage_report.coverage_items(coverage, ranges, tally.counts, why)))
    return why


def _say(env: Environment, sentences: list[str]) -> None:
    for sentence in sentences:
        env.say(f"kcli: {sentence}")


def _passed(reader: RangeReader) -> int:
    """All positions together: it grows whenever an offset is passed, with a record or without."""
    return sum(one.position for one in reader.coverage())


def _shows_progress(env: Environment, ranges: dict[TopicPartition, ReadRange], manner: Manner) -> bool:
    can_draw = env.stderr_is_terminal and env.environ.get("TERM") != "dumb"
    return can_draw and coverage_report.is_bounded(ranges) and not env.stdout_is_terminal and not manner.quiet


_EVERY_MS = 1000.0


class Problems:
    """Says each failure and each gap once: `tick`, as often as the owner likes, looks for new ones now and then.

    Nothing is said if it is all `told_later`, in a footer.
    """

    def __init__(
        self, env: Environment, coverage: Callable[[], Sequence[PartitionCoverage]], *, told_later: bool
    ) -> None:
        self._env = env
        self._coverage = coverage
        self._told: set[tuple[TopicPartition, str]] = set()
        self._told_later = told_later
        self._next_ms = 0.0

    def tick(self) -> None:
        """Look, if it is time to."""
        now_ms = self._env.clock.now_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + _EVERY_MS
            self.tell()

    def tell(self) -> None:
        """Look now, and say what is new."""
        if self._told_later:
            return
        news = [one for one in self._coverage() if (one.tp, one.reason) not in self._told]
        self._told.update((one.tp, one.reason) for one in news)
        for sentence in coverage_report.problems(news):
            self._env.say(f"kcli: {sentence}")

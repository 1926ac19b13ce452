"""The reports of a read on standard error: coverage, notes, messages of a group member, failures; and the exit status.

`kcli.consumer.coverage` decides what is complete and what failed; this module renders it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli import exit_status
from kcli.cli.consume.printed_records import Count, PrintedRecords
from kcli.cli.consume.printing import PrintOptions
from kcli.cli.output.table import plain_table
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason
from kcli.consumer.read_range import ReadRange
from kcli.consumer.subscription import PositionReset
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_partitions

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.consumer.retry_backoff import RetryState

Ranges = Mapping[TopicPartition, ReadRange]
Counts = Mapping[TopicPartition, Count]

COVERAGE_HEADINGS = ["TOPIC", "PARTITION", "ASKED", "COVERED", "PRINTED", "STATE", "STOPPED"]
MEMBER_HEADINGS = ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"]
_STOPPED = {
    StopReason.RECORD_LIMIT: "--max-messages reached",
    StopReason.IDLE: "--idle-timeout reached",
    StopReason.INTERRUPTED: "interrupted",
    StopReason.FAILED: "stopped by an error",
}


# Reads without a group


def coverage_table(coverage: ReadCoverage, ranges: Ranges, counts: Counts) -> str:
    """Return a table of the requested and the covered ranges, both in the form of `-o`: 100:200 ends with 199."""
    rows: list[list[Any]] = []
    for part in coverage.partitions:
        covered = f"{part.start}:{max(part.start, part.position)}" if part.start >= 0 else "-"
        printed = counts.get(part.tp, Count()).records
        state = "complete" if part.complete else "incomplete"
        tp, stopped = part.tp, _stopped(part, coverage.stop)
        rows.append([tp.topic, tp.partition, str(ranges[tp]), covered, printed, state, stopped])
    return plain_table(COVERAGE_HEADINGS, rows)


def _stopped(one: PartitionCoverage, stop: StopReason) -> str:
    """Return the reason for the end of a partition; for one that was still being read, the reason of the read."""
    return one.with_reason(_STOPPED[stop]) if one.open and stop in _STOPPED else one.reason


def coverage_items(coverage: ReadCoverage, ranges: Ranges, counts: Counts) -> list[dict[str, Any]]:
    """Return the same as JSON-ready dicts; offsets are numbers, -1 for one that is unknown, None for no end."""
    return [
        {
            "topic": part.tp.topic,
            "partition": part.tp.partition,
            "asked": str(ranges[part.tp]),
            "start": part.start,
            "end": part.asked_end,
            "position": part.position,
            "printed": counts.get(part.tp, Count()).records,
            "complete": part.complete,
            "stopped": _stopped(part, coverage.stop),
        }
        for part in coverage.partitions
    ]


def notes(partitions: Iterable[PartitionCoverage]) -> list[str]:
    """Return the notes on the ranges: times without records, starts after the log end."""
    return _grouped((part.tp, note) for part in partitions for note in part.notes)


def failures(partitions: Iterable[PartitionCoverage]) -> list[str]:
    """Return the errors and the missing offsets of partitions as sentences."""
    return _grouped((part.tp, part.reason) for part in partitions if part.failed)


def _grouped(texts: Iterable[tuple[TopicPartition, str]]) -> list[str]:
    """Return one sentence for all partitions with the same text: `orders 0-2,4: no record at or after ...`."""
    partitions: dict[tuple[str, str], list[int]] = {}
    for tp, text in texts:
        partitions.setdefault((tp.topic, text), []).append(tp.partition)
    return [f"{topic} {format_partitions(numbers)}: {text}" for (topic, text), numbers in partitions.items()]


def read_status(coverage: ReadCoverage) -> int:
    """Return the exit status of a read: 5 if requested offsets are missing without another error."""
    if coverage.stop is StopReason.INTERRUPTED:
        return exit_status.INTERRUPTED
    statuses = {exit_status.status_of(error) for error in coverage.errors}
    if coverage.missing:
        statuses.add(exit_status.INCOMPLETE)
    if not statuses:
        return exit_status.DONE
    return statuses.pop() if len(statuses) == 1 else exit_status.FAILED


# Members of a group


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """Return `bills 0; orders 0-3,7`."""
    return "; ".join(f"{topic} {format_partitions(numbers)}" for topic, numbers in numbers_by_topic(partitions).items())


def reset_text(tp: TopicPartition, reset: PositionReset) -> str:
    """Return the message for a position outside the log: the new position, and records lost, skipped or repeated."""
    position, new = reset.offset, reset.new_offset
    start = f"{tp.topic} {tp.partition}: the group's position {position} is"
    place = new if reset.policy.startswith("by_duration:") else f"the log end, {new}"
    if new > position and reset.policy == "earliest":
        return (
            f"{start} before the log start; reading continues at the log start, {new}. "
            f"{_offsets(position, new)} were deleted before the group read them"
        )
    if new > position:
        return (
            f"{start} outside the log; reading continues at {place} (auto.offset.reset={reset.policy}). "
            f"{_offsets(position, new)} are skipped"
        )
    start += " after the log end: the log was truncated, or the topic was created again;"
    if reset.policy == "truncated":
        return f"{start} reading continues at {new}, where the log diverges from the records that the group has read"
    if reset.policy == "earliest":
        return (
            f"{start} reading continues at the log start, {new}. Records that the group has read may be printed again"
        )
    return f"{start} reading continues at {place}. Records before it may be skipped"


def _offsets(first: int, after: int) -> str:
    return f"Offsets {first} to {after - 1}"


def member_items(
    ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int], counts: Mapping[TopicPartition, Count]
) -> list[dict[str, Any]]:
    """Return the printed records, the position and the end (-e) of each partition ever assigned, JSON-ready."""
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "end": ends.get(tp),
            "position": positions.get(tp),
            "printed": counts.get(tp, Count()).records,
        }
        for tp in sorted({*ends, *positions, *counts})
    ]


def member_table(items: Sequence[Mapping[str, Any]], committed: Mapping[TopicPartition, int]) -> str:
    """Return the same as a table, with the offsets committed by this member; `-`: unknown, or no longer assigned."""
    rows: list[list[Any]] = []
    for item in items:
        tp = TopicPartition(item["topic"], item["partition"])
        numbers = (tp.partition, item["end"], item["position"], committed.get(tp), item["printed"])
        rows.append([tp.topic, *numbers])
    return plain_table(MEMBER_HEADINGS, rows)


# While a read goes on

SIGN_OF_LIFE_MS = 10_000.0
_REPORT_INTERVAL_MS = 1000.0
_END_INTERVAL_MS = 250.0
_SILENCE_MS = 5_000.0


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
        late = {
            tp: state
            for tp, state in states.items()
            if now_ms - state.since_ms >= _SILENCE_MS and tp not in self._failing
        }
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
            sentences += notes(part for part in coverage if part.tp not in self._noted)
        self._noted.update(part.tp for part in coverage)
        if not self._failures_in_table:
            new = [part for part in coverage if (part.tp, part.reason) not in self._reported]
            self._reported.update((part.tp, part.reason) for part in new)
            sentences += failures(new)
        for sentence in sentences:
            self._env.report(f"kcli: {sentence}")

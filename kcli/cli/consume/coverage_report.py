"""The reports of a read on standard error (coverage, notes, messages of a group member), and its exit status. Pure.

`kcli.consumer.coverage` decides what is complete and what failed; this module renders it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcli.cli import exit_status
from kcli.cli.consume.read_loop import Count
from kcli.cli.output.table import plain_table
from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason
from kcli.consumer.read_range import ReadRange
from kcli.consumer.subscription import PositionReset
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_partitions

Ranges = Mapping[TopicPartition, ReadRange]
Counts = Mapping[TopicPartition, Count]

COVERAGE_HEADINGS = ["TOPIC", "PARTITION", "ASKED", "COVERED", "PRINTED", "STATE", "STOPPED"]
MEMBER_HEADINGS = ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"]
_STOPPED = {
    StopReason.RECORD_LIMIT: "--max-messages reached",
    StopReason.IDLE: "--idle-timeout reached",
    StopReason.INTERRUPTED: "interrupted",
}


# Reads without a group


def coverage_table(coverage: ReadCoverage, ranges: Ranges, counts: Counts) -> str:
    """Return a table of the requested and the covered ranges, both in the form of `-o`: 100:200 ends with 199."""
    rows: list[list[Any]] = []
    for one in coverage.partitions:
        covered = f"{one.start}:{max(one.start, one.position)}" if one.start >= 0 else "-"
        printed = counts.get(one.tp, Count()).records
        state = "complete" if one.complete else "incomplete"
        tp, stopped = one.tp, _stopped(one, coverage.stop)
        rows.append([tp.topic, tp.partition, str(ranges[tp]), covered, printed, state, stopped])
    return plain_table(COVERAGE_HEADINGS, rows)


def _stopped(one: PartitionCoverage, stop: StopReason) -> str:
    """Return the reason for the end of a partition; for one that was still being read, the reason of the read."""
    return one.with_reason(_STOPPED[stop]) if one.open and stop in _STOPPED else one.reason


def coverage_items(coverage: ReadCoverage, ranges: Ranges, counts: Counts) -> list[dict[str, Any]]:
    """Return the same as JSON-ready dicts; offsets are numbers, -1 for one that is unknown, None for no end."""
    return [
        {
            "topic": one.tp.topic,
            "partition": one.tp.partition,
            "asked": str(ranges[one.tp]),
            "start": one.start,
            "end": one.asked_end,
            "position": one.position,
            "printed": counts.get(one.tp, Count()).records,
            "complete": one.complete,
            "stopped": _stopped(one, coverage.stop),
        }
        for one in coverage.partitions
    ]


def notes(partitions: Iterable[PartitionCoverage]) -> list[str]:
    """Return the notes on the ranges: times without records, starts after the log end."""
    return _grouped((one.tp, note) for one in partitions for note in one.notes)


def failures(partitions: Iterable[PartitionCoverage]) -> list[str]:
    """Return the errors and the missing offsets of partitions as sentences."""
    return _grouped((one.tp, one.reason) for one in partitions if one.failed)


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

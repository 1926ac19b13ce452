"""What a read says for itself on standard error, and its exit status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli import exit_status
from kcli.cli.consume.read_loop import ENOUGH, INTERRUPTED, QUIET, Count, align
from kcli.consumer.read_range import Time
from kcli.consumer.subscription import PositionReset
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_partitions, format_timestamp

if TYPE_CHECKING:
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.read_range import ReadRange
    from kcli.structs import TopicPartition

    Coverage = Sequence[PartitionCoverage]
    Ranges = Mapping[TopicPartition, ReadRange]
    Counts = Mapping[TopicPartition, Count]

HEADINGS = ["TOPIC", "PARTITION", "ASKED", "COVERED", "PRINTED", "STATE", "STOPPED"]


def is_bounded(ranges: Ranges) -> bool:
    """Whether every range has an end, so that the read has one."""
    return all(asked.end is not None for asked in ranges.values())


def footer(coverage: Coverage, ranges: Ranges, counts: Counts, why: str) -> str:
    """A table of what was asked and what was covered, both written as for `-o`: 100:200 goes up to 199."""
    rows = [HEADINGS]
    for one in coverage:
        covered = f"{one.start}:{max(one.start, one.position)}" if one.start >= 0 else "-"
        printed = str(counts.get(one.tp, Count()).records)
        state = "complete" if one.complete else "incomplete"
        words = [
            one.tp.topic,
            str(one.tp.partition),
            _asked(ranges[one.tp]),
            covered,
            printed,
            state,
            _stopped(one, why),
        ]
        rows.append(words)
    return align(rows)


def _asked(asked: ReadRange) -> str:
    """The range as it may be given to `-o` again, times readable and absolute."""
    texts = [
        "" if bound is None else f"@{format_timestamp(bound.n)}" if isinstance(bound, Time) else str(bound)
        for bound in asked
    ]
    return texts[0] if asked.end is None else ":".join(texts)


_WHY = {ENOUGH: "--max-messages reached", QUIET: "nothing came for too long", INTERRUPTED: "interrupted"}


def _stopped(one: PartitionCoverage, why: str) -> str:
    """Why a partition stopped; one that was still being read stopped for the reason of the whole read."""
    return _with_first_reason(one, _WHY[why]) if one.open and why in _WHY else one.reason


def _with_first_reason(one: PartitionCoverage, reason: str) -> str:
    """`reason`, and what the partition missed, which stands behind its own."""
    return "; ".join([reason, *one.reason.split("; ")[1:]])


def cut_short(coverage: Coverage, left: Mapping[TopicPartition, int]) -> list[PartitionCoverage]:
    """The coverage as far as records were printed.

    `left` tells of some partitions the first wanted record that came, but was one too many for `--max-messages`. What
    lies behind it is not covered, and if that is where the reading failed it does not matter.
    """
    return [one if one.tp not in left else _cut(one, left[one.tp]) for one in coverage]


def _cut(one: PartitionCoverage, position: int) -> PartitionCoverage:
    reason = "stopped before its end"
    return one._replace(
        position=position,
        reason=reason if one.error is not None else _with_first_reason(one, reason),
        complete=one.complete and one.asked_end is None,
        error=None,
        open=True,
    )


def coverage_items(coverage: Coverage, ranges: Ranges, counts: Counts, why: str) -> list[dict[str, Any]]:
    """The same as JSON-ready dicts, offsets as numbers; -1 for one that was never found out, None for no end."""
    return [
        {
            "topic": one.tp.topic,
            "partition": one.tp.partition,
            "asked": _asked(ranges[one.tp]),
            "start": one.start,
            "end": one.asked_end,
            "position": one.position,
            "printed": counts.get(one.tp, Count()).records,
            "complete": one.complete,
            "stopped": _stopped(one, why),
        }
        for one in coverage
    ]


def notes(coverage: Coverage) -> list[str]:
    """What is worth knowing before the first record: times without records, starts beyond the log's end."""
    return _grouped((one.tp, note) for one in coverage for note in one.notes)


def problems(coverage: Coverage) -> list[str]:
    """What partitions failed of, or missed, as sentences."""
    return _grouped((one.tp, one.reason) for one in coverage if _failed(one))


def _failed(one: PartitionCoverage) -> bool:
    left_unread = one.open and one.asked_end is not None
    return one.error is not None or not (one.complete or left_unread)


def _grouped(said: Iterable[tuple[TopicPartition, str]]) -> list[str]:
    """The same said of several partitions in one sentence: `orders 0,1,4: no record at or after ...`."""
    partitions: dict[tuple[str, str], list[int]] = {}
    for tp, text in said:
        partitions.setdefault((tp.topic, text), []).append(tp.partition)
    return [f"{topic} {','.join(map(str, numbers))}: {text}" for (topic, text), numbers in partitions.items()]


def read_status(coverage: Coverage, why: str) -> int:
    """Exit status of a read that stopped because of `why`.

    What was asked for and not covered is 5, unless `--max-messages` was, which then is all that was asked for.
    """
    if why == INTERRUPTED:
        return exit_status.INTERRUPTED
    statuses = {exit_status.status_of(one.error) for one in coverage if one.error is not None}
    if why != ENOUGH and any(not one.complete and one.error is None for one in coverage):
        statuses.add(exit_status.INCOMPLETE)
    if not statuses:
        return exit_status.DONE
    return statuses.pop() if len(statuses) == 1 else exit_status.FAILED


MEMBER_HEADINGS = ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"]


def partition_words(partitions: Iterable[TopicPartition]) -> str:
    """`bills 0; orders 0-3,7`."""
    return "; ".join(f"{topic} {format_partitions(numbers)}" for topic, numbers in numbers_by_topic(partitions).items())


def reset_words(tp: TopicPartition, reset: PositionReset) -> str:
    """That the group's offset is outside the log: where reading goes on, and what is lost or skipped by that."""
    partition, left, found = f"{tp.topic} {tp.partition}", reset.offset, reset.new_offset
    if found > left and reset.policy == "earliest":
        return (
            f"{partition}: offset {left}, where the group was to go on, is deleted from the log; it goes on at the log "
            f"start, {found}, and {_offsets(left, found)} are lost: they were deleted before this group read them"
        )
    if found > left:
        return (
            f"{partition}: offset {left}, where the group was to go on, is outside the log; it goes on at the log end, "
            f"{found}, and {_offsets(left, found)} are not read, lost or still there (auto.offset.reset=latest)"
        )
    where = f"{partition}: offset {left}, where the group was to go on, lies beyond the end of the log, which was "
    if reset.policy == "truncated":
        return (
            f"{where}truncated, or is that of a new topic; it goes on at {found}, up to which the log may be what the "
            "group has read"
        )
    where += "truncated, or is that of a new topic; it goes on at the log "
    if reset.policy == "earliest":
        return f"{where}start, {found}: what is there is printed, though the group may have read it"
    return f"{where}end, {found}: what is before it is not read, though the group may not have read it"


def _offsets(first: int, behind: int) -> str:
    return f"offsets {first} to {behind - 1}"


def member_items(
    ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int], counts: Mapping[TopicPartition, Count]
) -> list[dict[str, Any]]:
    """What was printed of each partition that was ever ours, JSON-ready: up to which offset, of which end (-e)."""
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


def member_footer(items: Iterable[Mapping[str, Any]], stored: Mapping[TopicPartition, int]) -> str:
    """The same as a table, with what the group has committed through us; `-`: unknown, or not ours at the end."""
    rows = [MEMBER_HEADINGS]
    for it in items:
        committed = stored.get(TopicPartition(it["topic"], it["partition"]))
        numbers = (it["partition"], it["end"], it["position"], committed, it["printed"])
        rows.append([it["topic"], *("-" if number is None else str(number) for number in numbers)])
    return align(rows)

"""What a member says on standard error, and its account at the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcli.cli.consume.tally import Count, align
from kcli.consumer.subscription import Reset
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_partitions

HEADINGS = ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"]


def partition_words(partitions: Iterable[TopicPartition]) -> str:
    """`bills 0; orders 0-3,7`."""
    return "; ".join(f"{topic} {format_partitions(numbers)}" for topic, numbers in numbers_by_topic(partitions).items())


def reset_words(tp: TopicPartition, reset: Reset) -> str:
    """That the group's offset is outside the log: where reading goes on, and what is lost or skipped by that."""
    partition, left, found = f"{tp.topic} {tp.partition}", reset.offset, reset.found
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
    rows = [HEADINGS]
    for it in items:
        committed = stored.get(TopicPartition(it["topic"], it["partition"]))
        numbers = (it["partition"], it["end"], it["position"], committed, it["printed"])
        rows.append([it["topic"], *("-" if number is None else str(number) for number in numbers)])
    return align(rows)

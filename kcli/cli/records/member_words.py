"""What a member says on standard error, and its account at the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcli.cli.records.tally import Count, align
from kcli.structs import TopicPartition, numbers_by_topic

HEADINGS = ["TOPIC", "PARTITION", "END", "POSITION", "COMMITTED", "PRINTED"]


def partition_words(partitions: Iterable[TopicPartition]) -> str:
    """`bills 0; orders 0-3,7`."""
    return "; ".join(f"{topic} {_runs(numbers)}" for topic, numbers in numbers_by_topic(partitions).items())


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


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

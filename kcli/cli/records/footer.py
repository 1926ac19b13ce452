"""What a bounded read says at its end: per partition what was asked, what was covered, why it stopped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli.records.tally import Count, align

if TYPE_CHECKING:
    from kcli.consumer.range_reader import PartitionCoverage
    from kcli.structs import TopicPartition

HEADINGS = ["TOPIC", "PARTITION", "ASKED", "COVERED", "RECORDS", "STOPPED"]


def footer(coverage: Sequence[PartitionCoverage], counts: Mapping[TopicPartition, Count]) -> str:
    """A table. ASKED and COVERED are written as for `-o`: `100:200` is 100 up to, not including, 200."""
    rows = [HEADINGS]
    for one in coverage:
        asked = _range(one.asked_start, one.asked_end)
        covered = _range(one.start, one.position)
        printed = str(counts.get(one.tp, Count()).records)
        reason = one.reason if one.complete else f"INCOMPLETE: {one.reason}"
        rows.append([one.tp.topic, str(one.tp.partition), asked, covered, printed, reason])
    return align(rows)


def _range(start: int, end: int | None) -> str:
    return f"{start}:{'' if end is None else end}"


def coverage_items(
    coverage: Sequence[PartitionCoverage], counts: Mapping[TopicPartition, Count]
) -> list[dict[str, Any]]:
    """The same as JSON-ready dicts, offsets as numbers, None for no end."""
    return [
        {
            "topic": one.tp.topic,
            "partition": one.tp.partition,
            "asked": {"start": one.asked_start, "end": one.asked_end},
            "covered": {"start": one.start, "end": one.position},
            "records": counts.get(one.tp, Count()).records,
            "complete": one.complete,
            "stopped": one.reason,
        }
        for one in coverage
    ]


def grouped(notes: Iterable[tuple[TopicPartition, str]]) -> list[str]:
    """Notes on partitions as sentences, those that say the same in one: `orders 0,1,4: no record at or after ...`."""
    partitions: dict[tuple[str, str], list[int]] = {}
    for tp, note in notes:
        partitions.setdefault((tp.topic, note), []).append(tp.partition)
    return [f"{topic} {','.join(map(str, numbers))}: {note}" for (topic, note), numbers in partitions.items()]

"""Offset ranges of tasks: their splitting by the rules of spark-sql-kafka-0-10, and small ones in one task. Pure.

The rules are those of its KafkaOffsetRangeCalculator. `maxRecordsPerPartition` first: a larger range is split into as
many parts as needed, equal in size except for one offset. Then, if there are fewer ranges than `minPartitions`, each
range gets parts in proportion to its size: ranges worth one part stay whole, and the other parts are distributed over
the other ranges. The result has about that number of ranges, more or less by rounding.

The connector has a task for each range. A task costs Spark more than ten milliseconds, whatever it reads, so here small
ranges share tasks, if there are many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kcli.structs import TopicPartition


class TaskRange(NamedTuple):
    """Range of one task: `start <= offset < end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets; an upper bound of the number of records."""
        return self.end - self.start


def split_ranges(
    ranges: Iterable[TaskRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[TaskRange]:
    """Split ranges into tasks. Empty ranges, and those that end before they start, are dropped."""
    ranges_to_split = [range_ for range_ in ranges if range_.size > 0]
    if max_records is not None:
        ranges_to_split = [
            part for range_ in ranges_to_split for part in _parts(range_, -(-range_.size // max_records))
        ]
    if min_partitions is None or len(ranges_to_split) >= min_partitions:
        return ranges_to_split
    total = sum(range_.size for range_ in ranges_to_split)
    small = [range_ for range_ in ranges_to_split if _share(range_.size, total, min_partitions) == 1]
    # A partition with one small range keeps all its ranges whole.
    whole_partitions = {range_.tp for range_ in small}
    large_total = total - sum(range_.size for range_ in small)
    remaining = max(min_partitions - len(small), 1)
    return [
        part
        for range_ in ranges_to_split
        for part in _parts(range_, 1 if range_.tp in whole_partitions else _share(range_.size, large_total, remaining))
    ]


LEAST_TASKS = 32
"""The number of tasks up to which each range has its own: enough for all cores of most machines."""
SHARED_OFFSETS = 25_000
"""The offsets to which ranges are put together in a task, so that no task with several ranges is a long one."""


def group_ranges(
    ranges: Sequence[TaskRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[tuple[tuple[Any, ...], ...]]:
    """Distribute ranges over tasks, in order; each task has ranges of different partitions.

    A task has plain tuples, because Spark should not need to unpickle classes of kcli to distribute them. Ranges share
    a task only up to `SHARED_OFFSETS` and `max_records`, and up to an equal share of all offsets for `LEAST_TASKS` or
    `min_partitions` tasks.
    """
    least = max(LEAST_TASKS, min_partitions or 0)
    if len(ranges) <= least:
        return [(tuple(range_),) for range_ in ranges]
    limit = min(SHARED_OFFSETS, max_records or SHARED_OFFSETS, sum(range_.size for range_ in ranges) // least)
    tasks: list[list[TaskRange]] = []
    size = 0
    for range_ in ranges:
        if tasks and size + range_.size <= limit and tasks[-1][-1].tp != range_.tp:
            tasks[-1].append(range_)
            size += range_.size
        else:
            tasks.append([range_])
            size = range_.size
    return [tuple(tuple(range_) for range_ in task) for task in tasks]


def _share(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _parts(range_: TaskRange, count: int) -> Iterator[TaskRange]:
    start = range_.start
    for number in range(count):
        end = start + (range_.end - start) // (count - number)
        if end > start:
            yield range_._replace(start=start, end=end)
        start = end

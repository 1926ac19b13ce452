"""Offset ranges of tasks, and their splitting by the rules of spark-sql-kafka-0-10. Pure.

The rules are those of its KafkaOffsetRangeCalculator. `maxRecordsPerPartition` first: a larger range is split into as
many parts as needed, equal in size except for one offset. Then, if there are fewer ranges than `minPartitions`, each
range gets parts in proportion to its size: ranges worth one part stay whole, and the other parts are distributed over
the other ranges. The result has about that number of ranges, more or less by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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


def _share(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _parts(range_: TaskRange, count: int) -> Iterator[TaskRange]:
    start = range_.start
    for number in range(count):
        end = start + (range_.end - start) // (count - number)
        if end > start:
            yield range_._replace(start=start, end=end)
        start = end

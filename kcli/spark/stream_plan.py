"""Where the next micro-batch of a stream ends: start, limits, AvailableNow, new and vanished partitions. Pure.

Time comes in as ms of any steady clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.plan import Plan
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.spark.facts import LogEnds, Lookup
    from kcli.spark.options import SourceOptions

OffsetMap = Mapping[TopicPartition, int]


def initial_offsets(options: SourceOptions, lookup: Lookup) -> dict[TopicPartition, int]:
    """Where a new query starts: sentinels, times and groups resolved. Spark does not store it: see `StreamPlanner`."""
    raise NotImplementedError


class Progress(NamedTuple):
    """The end of the next batch, and what was lost on the way to it under failOnDataLoss=false."""

    end: dict[TopicPartition, int]
    reports: list[str] = []


class StreamPlanner:
    """The memory of one run of a query, in the planner's process: T1's empty first batch, T5's cached look-ups, the
    moment of the last batch, and the end that AvailableNow has fixed."""

    def __init__(self, options: SourceOptions, lookup: Lookup) -> None: ...

    def initial(self) -> dict[TopicPartition, int]:
        """The same answer however often it is asked (Spark asks twice)."""
        raise NotImplementedError

    def prepare_available_now(self) -> None:
        """Fix the end: what comes later is for the next run. min/maxTriggerDelay do not count from here on."""

    def latest(self, start: OffsetMap, max_rows: int | None, now_ms: float) -> Progress:
        """The end of the batch that begins at `start`; `start` itself: nothing to do now.

        `max_rows` None: all there is, as the engine asks under Trigger.Once, whatever the options limit.
        """
        raise NotImplementedError

    def plan(self, start: OffsetMap, end: OffsetMap) -> Plan:
        """The tasks of a batch from `start` to `end`, also when it is replayed after a failure: new partitions begin at
        their log's start; vanished ones and those whose records are gone are lost data."""
        raise NotImplementedError


def limit_pro_rata(
    start: OffsetMap, end: OffsetMap, logs: Mapping[TopicPartition, LogEnds], most: int
) -> dict[TopicPartition, int]:
    """Ends such that about `most` records are read, each partition in proportion to its backlog, at least one each."""
    raise NotImplementedError

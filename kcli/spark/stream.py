"""The source of a streaming query: Spark's questions, answered by `StreamPlanner`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kcli.spark.client_options import ignored_properties
from kcli.spark.group_commits import refuse_if_in_use
from kcli.spark.lookup import Lookup
from kcli.spark.offset_json import offsets_dict, read_offsets
from kcli.spark.options import SourceOptions
from kcli.spark.stream_plan import StreamPlanner
from kcli.spark.task import tell
from kcli.spark.views.registry import read_task


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc,unused-ignore]
    """One of these lives in Spark's planner process for as long as the query runs; tasks unpickle their own, which
    only `read`. Offsets are the connector's, in one order: Spark compares them as text."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._planner: StreamPlanner | None = None
        self._lookup: Lookup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None, "_lookup": None}

    @property
    def planner(self) -> StreamPlanner:
        """Made with the first question, in the process that asks it."""
        if self._planner is None:
            if self.options.commit_group is not None:
                refuse_if_in_use(self.options, self.options.commit_group)
            tell(self.options.notes)
            self._lookup = Lookup(self.options)
            tell(ignored_properties(self._lookup.config))
            self._planner = StreamPlanner(self.options, self._lookup)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        return offsets_dict(self.planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options limit a batch to. Spark hands it to `latestOffset`, or another if the trigger says so."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the batch that begins at `start` ends; `start`: there is nothing to do."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        least = limit.min_rows if isinstance(limit, ReadMinRows) else None
        progress = self.planner.latest(read_offsets(start), most, time.monotonic() * 1000, min_rows=least)
        tell(progress.reports)
        return offsets_dict(progress.end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs as last seen: `latestOffset` in the query's progress."""
        newest = None if self._planner is None else self._planner.newest
        return None if newest is None else offsets_dict(newest)

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is for the next run."""
        self.planner.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch, also of one that is done again."""
        plan = self.planner.plan(read_offsets(start), read_offsets(end))
        tell(plan.reports)
        return [InputPartition(tuple(task)) for task in plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow record batches of one task."""
        return read_task(self.options, partition.value)

    def stop(self) -> None:
        """The query has ended."""
        if self._lookup is not None:
            self._lookup.close()

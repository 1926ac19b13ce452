"""Reader of a streaming query: Spark's calls, answered by `StreamPlanner`."""

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

from kcli.errors import KcliError
from kcli.spark.broker_lookup import Lookup
from kcli.spark.client_options import ignored_properties
from kcli.spark.group_commits import refuse_if_in_use
from kcli.spark.offset_json import offsets_dict, read_offsets
from kcli.spark.options import SourceOptions
from kcli.spark.stream_plan import StreamPlanner
from kcli.spark.task import log_reports
from kcli.spark.task_ranges import group_ranges
from kcli.spark.views.registry import read_task


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc,unused-ignore]
    """Reader of a streaming query, in the connector's offset format.

    One instance is in Spark's planner process while the query runs; each task unpickles its own, which only calls
    `read`. Spark compares offsets as text, so they are always in canonical order.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._planner: StreamPlanner | None = None
        self._lookup: Lookup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None, "_lookup": None}

    @property
    def planner(self) -> StreamPlanner:
        """The planner. It is made on first access, in the process that plans."""
        if self._planner is None:
            if self.options.commit_group is not None:
                refuse_if_in_use(self.options, self.options.commit_group)
            log_reports(self.options.notes)
            self._lookup = Lookup(self.options)
            log_reports(ignored_properties(self._lookup.config))
            self._planner = StreamPlanner(self.options, self._lookup)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Return the start offsets of a new query."""
        return offsets_dict(self.planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch from the options. Spark passes it, or another by the trigger, to
        `latestOffset`.
        """
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end offsets of the batch that begins at `start`; `start` itself if there is nothing to read."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        least = limit.min_rows if isinstance(limit, ReadMinRows) else None
        progress = self.planner.latest(read_offsets(start), most, time.monotonic() * 1000, min_rows=least)
        log_reports(progress.reports)
        return offsets_dict(progress.end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the log ends as last seen, for `latestOffset` in the query's progress."""
        newest = None if self._planner is None else self._planner.newest
        return None if newest is None else offsets_dict(newest)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the run: later records are for the next run."""
        self.planner.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch, also of a repeated one."""
        plan = self.planner.plan(read_offsets(start), read_offsets(end))
        log_reports(plan.reports)
        options = self.options
        tasks = group_ranges(plan.ranges, options.min_partitions, options.max_records_per_partition)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the Arrow record batches of one task."""
        return read_task(self.options, partition.value)

    def stop(self) -> None:
        """Close the connection at the end of the query."""
        if self._lookup is not None:
            self._lookup.close()


class RefusedStream(DataSourceStreamReader):  # type: ignore[misc,unused-ignore]
    """Reader that raises this error when the query starts.

    PySpark hides an error of `DataSource.streamReader`: it stops the reader that it does not have (seen with 4.0 to
    4.3: "local variable 'reader' referenced before assignment").
    """

    def __init__(self, error: KcliError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raise the error: a query with a checkpoint does not ask for its start."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error: a repeated batch has its end already."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        raise self._error

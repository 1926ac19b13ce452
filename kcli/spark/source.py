"""`KcliDataSource`: the format "kcli" for PySpark's Python Data Source API, and its readers for batch queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kcli.errors import ConfigError, KcliError
from kcli.spark.batch_plan import plan_batch
from kcli.spark.broker_lookup import Lookup
from kcli.spark.client_options import ignored_properties
from kcli.spark.decoding.decode_plan import plan_decodings
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.pushdown import NO_BOUNDS, bounds_of, prune
from kcli.spark.record_schema import Columns, ddl
from kcli.spark.task import log_reports
from kcli.spark.task_ranges import group_ranges, split_ranges
from kcli.spark.views.registry import VIEWS, read_task
from kcli.spark.views.table import wanted_columns


class KcliDataSource(DataSource):  # type: ignore[misc,unused-ignore]
    """The format "kcli" for reading and writing, batch and stream, with the options of spark-sql-kafka-0-10."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kcli"

    def schema(self) -> str:
        """Return the columns of the view. ConfigError if options are not valid, when the query is loaded."""
        return ddl(columns_of(plan_decodings(parse_options(self.options, stream=None))))

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        options = with_schema(plan_decodings(parse_options(self.options, stream=False)), schema)
        return PushdownReader(options) if options.pushdown else BatchReader(options)

    def streamReader(self, schema: Any) -> Any:
        """Return the reader for `spark.readStream`."""
        from kcli.spark.stream import RefusedStream, StreamReader

        try:
            return StreamReader(with_schema(plan_decodings(parse_options(self.options, stream=True)), schema))
        except KcliError as error:
            return RefusedStream(error)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer for `df.write`."""
        from kcli.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer for `df.writeStream`. In output mode `complete` each batch is appended, as in the
        connector.
        """
        from kcli.spark.sink import stream_writer

        return stream_writer(self.options, schema)


def columns_of(options: SourceOptions) -> Columns:
    """Return the columns that the options select."""

    view = VIEWS.get(options.view)
    if view is None:
        return options.record_columns()
    return wanted_columns(view, options)


def with_schema(options: SourceOptions, schema: Any) -> SourceOptions:
    """Return the options with `columns` limited to `.schema(...)`. ConfigError if that is not a subset of the
    columns.
    """
    requested = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if [*map(_plain, requested)] == [*map(_plain, columns_of(options))]:
        return options
    names = tuple(name for name, _ in requested)
    chosen = columns_of(options._replace(columns=names))
    wrong = next((own for own, theirs in zip(chosen, requested, strict=True) if _plain(own) != _plain(theirs)), None)
    if wrong is not None:
        raise ConfigError(f"schema: {wrong[0]} is of type {wrong[1]}; columns can be left out, not changed")
    return options._replace(columns=names)


def _plain(column: tuple[str, str]) -> tuple[str, str]:
    """Return a column without the backticks of field names, which types that Spark gives do not have."""
    return column[0], column[1].replace("`", "")


class BatchReader(DataSourceReader):  # type: ignore[misc,unused-ignore]
    """Reader of a batch query. It plans once, on the driver: every action on the DataFrame sees the same offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.bounds = NO_BOUNDS

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        options = self.options
        log_reports(options.notes)
        view = VIEWS.get(options.view)
        if view is not None and not view.ranged:
            return [InputPartition(None)]
        with Lookup(options) as lookup:
            log_reports(ignored_properties(lookup.config))
            plan = plan_batch(options._replace(min_partitions=None, max_records_per_partition=None), lookup)
            ranges = prune(self.bounds, plan.ranges, lookup)
        log_reports(plan.reports)
        ranges = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        tasks = group_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the Arrow record batches of one task."""
        return read_task(self.options, partition.value)


class PushdownReader(BatchReader):
    """Reader that prunes ranges by filters.

    Spark refuses such a reader unless its configuration allows it (spark.sql.python.filterPushdown.enabled), so it is
    chosen by the option `pushdown`.
    """

    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:
        """Use the filters for pruning, and return all of them: Spark still applies each."""
        filters = list(filters)
        view = VIEWS.get(self.options.view)
        # In a view of fixed topics, `topic` and `partition` are columns of the data, not of the partition read.
        if view is None or view.topics is None:
            self.bounds = bounds_of(filters, has_records=view is None)
        return filters

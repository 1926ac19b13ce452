"""`KcliDataSource`: format "kcli" for PySpark's Python Data Source API, and its readers for batch queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kcli.errors import ConfigError
from kcli.spark.batch_plan import plan_batch
from kcli.spark.client_options import ignored_properties
from kcli.spark.lookup import Lookup
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.pushdown import NO_BOUNDS, bounds_of, prune
from kcli.spark.record_schema import Columns, ddl, record_columns
from kcli.spark.task import tell
from kcli.spark.task_ranges import split_ranges
from kcli.spark.views.registry import read_task


class KcliDataSource(DataSource):  # type: ignore[misc,unused-ignore]
    """`spark.read.format("kcli")` and `spark.readStream.format("kcli")`, with the options of spark-sql-kafka-0-10."""

    @classmethod
    def name(cls) -> str:
        """What `format` is called."""
        return "kcli"

    def schema(self) -> str:
        """The columns of the view. ConfigError says what is wrong with the options, when the query is loaded."""
        return ddl(columns_of(parse_options(self.options, stream=None)))

    def reader(self, schema: Any) -> DataSourceReader:
        """For `spark.read`."""
        options = with_schema(parse_options(self.options, stream=False), schema)
        return PushdownReader(options) if options.pushdown else BatchReader(options)

    def streamReader(self, schema: Any) -> Any:
        """For `spark.readStream`."""
        from kcli.spark.stream import StreamReader

        return StreamReader(with_schema(parse_options(self.options, stream=True), schema))


def columns_of(options: SourceOptions) -> Columns:
    """The columns that these options lead to."""
    from kcli.spark.views.registry import VIEWS
    from kcli.spark.views.table import wanted_columns

    view = VIEWS.get(options.view)
    if view is None:
        return record_columns(include_headers=options.include_headers, names=options.columns)
    return wanted_columns(view, options)


def with_schema(options: SourceOptions, schema: Any) -> SourceOptions:
    """The options, `columns` narrowed to what `.schema(...)` asks for. ConfigError: it is no choice of our columns."""
    asked = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if asked == columns_of(options):
        return options
    names = tuple(name for name, _ in asked)
    chosen = columns_of(options._replace(columns=names))
    if chosen != asked:
        wrong = next(mine for mine, theirs in zip(chosen, asked, strict=True) if mine != theirs)
        raise ConfigError(f"schema: {wrong[0]} is of type {wrong[1]}; columns can be left out, not changed")
    return options._replace(columns=names)


class BatchReader(DataSourceReader):  # type: ignore[misc,unused-ignore]
    """Plans once, on the driver: every action on the same DataFrame sees the same offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.bounds = NO_BOUNDS

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, as plain tuples: nothing of ours has to be unpickled to hand them out."""
        from kcli.spark.views.registry import VIEWS

        options = self.options
        tell(options.notes)
        view = VIEWS.get(options.view)
        if view is not None and not view.ranged:
            return [InputPartition(None)]
        with Lookup(options) as lookup:
            tell(ignored_properties(lookup.config))
            plan = plan_batch(options._replace(min_partitions=None, max_records_per_partition=None), lookup)
            ranges = prune(self.bounds, plan.ranges, lookup)
        tell(plan.reports)
        ranges = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return [InputPartition(tuple(task)) for task in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow record batches of one task."""
        return read_task(self.options, partition.value)


class PushdownReader(BatchReader):
    """Reads less where a filter says so. Spark refuses a reader that can, unless its configuration allows it
    (spark.sql.python.filterPushdown.enabled), so this one is chosen by the option `pushdown`."""

    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:
        """Take what helps to read less, and hand every filter back: Spark still applies them all."""
        from kcli.spark.views.registry import VIEWS

        filters = list(filters)
        view = VIEWS.get(self.options.view)
        if view is None or view.topics is None:  # else `topic` and `partition` are not those that are read
            self.bounds = bounds_of(filters, has_records=view is None)
        return filters

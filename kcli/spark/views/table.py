"""The type of a view, and helpers of its readers: columns, rows to RecordBatches, a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kcli.errors import KcliError
from kcli.spark.record_schema import project

if TYPE_CHECKING:
    import pyarrow

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange


Read: TypeAlias = "Callable[[SourceOptions, Sequence[TaskRange]], Iterator[pyarrow.RecordBatch]]"


class View(NamedTuple):
    """A view. `columns` are (name, type in Spark SQL), all nullable.

    `ranged`: read by offset ranges of partitions, like records, one or several in a task; `topics` then names the
    topics if the view reads fixed ones (`commits`). Other views have one task, without a range.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    ranged: bool
    read: Read
    topics: tuple[str, ...] | None = None


TP_COLUMNS = (("topic", "string"), ("partition", "int"))


def wanted_columns(view: View, options: SourceOptions) -> list[tuple[str, str]]:
    """Return the view's columns, or those in the options. ConfigError for an unknown name."""
    return list(view.columns) if options.columns is None else project(list(view.columns), options.columns)


def table_of(view: View, options: SourceOptions, rows: Iterable[Mapping[str, Any]]) -> Iterator[pyarrow.RecordBatch]:
    """Yield rows as batches of at most `options.batch_rows`; missing values are null."""
    import pyarrow as pa

    from kcli.spark.arrow import arrow_schema

    schema = arrow_schema(wanted_columns(view, options))
    items = list(rows)
    for first in range(0, len(items), options.batch_rows):
        part = items[first : first + options.batch_rows]
        yield pa.RecordBatch.from_arrays(
            [pa.array([row.get(field.name) for row in part], field.type) for field in schema], schema=schema
        )


def limited(batches: Iterator[pyarrow.RecordBatch], rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Yield the first `rows` rows of all batches together; `rows` is at least 1."""
    remaining = rows
    for batch in batches:
        yield batch.slice(0, remaining)
        remaining -= batch.num_rows
        if remaining <= 0:
            return


@contextmanager
def client_of(options: SourceOptions) -> Iterator[tuple[ConsumerNetworkClient, float]]:
    """A client, and the deadline of its requests (on its monotonic clock): the poll timeout of the options."""
    from kcli.client.connect import connect
    from kcli.spark.client_options import client_config

    client = connect(client_config(options.kafka))
    try:
        yield client, client.clock.now_ms() + options.poll_timeout_ms
    finally:
        client.close()


def error_text(error: KcliError | None) -> str | None:
    """Return the text of an error for the column `error`."""
    return None if error is None else str(error)

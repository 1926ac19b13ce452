"""Writers of `df.write.format("kcli")` and `df.writeStream.format("kcli")`: rows become records, with acks=all.

A task sends its rows in their order with an idempotent producer, waits for all acknowledgements, and only then
succeeds. So no row of a successful query is lost, and no retry of the producer stores a record twice. There are no
transactions, so these repetitions of Spark store records again (at least once, as with Spark's own connector):

| event | stored again |
|---|---|
| a task fails, its executor is lost, or speculation runs it twice | the records that this attempt has already stored |
| the driver of a stream ends before the batch is committed | the batch, when the query is started again |
| the driver of a batch ends | nothing by itself; what has been stored remains, and a new write stores all rows |

With the option `resumeFrom` (`kcli spark load` sets it) a repetition continues after the records that are stored: a
task then owns whole partitions, gets their rows in the same order every time, and compares the log end with the end
before the first attempt. This holds while no other producer writes to these partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kcli.errors import ConfigError, KcliError, Refused
from kcli.spark.client_options import ignored_properties, producer_config
from kcli.spark.sink_options import SinkOptions, check_columns, parse_sink_options
from kcli.spark.task import log_reports
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.producer.batches import Outcome
    from kcli.producer.producer import Producer
    from kcli.protocol.records.record import Headers, NewRecords


class _TaskWriter:
    """The part of a writer that runs in the tasks."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one task. Errors are those of `write_rows`."""
        write_rows(self.options, self.columns, iterator)
        return WriterCommitMessage()


class BatchWriter(_TaskWriter, DataSourceArrowWriter):  # type: ignore[misc,unused-ignore]
    """Writer of a batch query."""


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):  # type: ignore[misc,unused-ignore]
    """Writer of a streaming query."""


def batch_writer(options: Mapping[str, str], schema: Any, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch. ConfigError for options and columns that cannot be written."""
    if overwrite:
        raise ConfigError('a topic can only be appended to; use .mode("append")')
    parsed = parse_sink_options(options)
    columns = check_columns(_columns(schema), parsed.topic)
    log_reports(ignored_properties(producer_config(parsed.kafka)))
    return BatchWriter(parsed, columns)


def stream_writer(options: Mapping[str, str], schema: Any) -> StreamWriter:
    """Return the writer of a stream. ConfigError for options and columns that cannot be written."""
    parsed = parse_sink_options(options)
    return StreamWriter(parsed, check_columns(_columns(schema), parsed.topic))


def _columns(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def write_rows(options: SinkOptions, columns: Sequence[str], batches: Iterable[Any]) -> None:
    """Write the rows of Arrow record batches, and return when all are stored.

    KcliError: the first error of a record, or a row without a topic; the rows before it may be stored.
    """
    from kcli.client.connect import connect
    from kcli.producer.producer import Producer

    failed: list[KcliError] = []

    def on_outcome(outcome: Outcome) -> None:
        if outcome.error is not None and not failed:
            failed.append(outcome.error)

    config = producer_config(options.kafka)
    with closing(connect(config)) as client, Producer.from_config(config, client, in_background=False) as producer:
        skip = _skipping(producer, client, options)
        for batch in batches:
            for tp, records in records_by_place(batch, columns, options.topic).items():
                topic, partition = tp
                producer.send_many(topic, skip(tp, records), on_outcome, partition=partition)
            if failed:
                raise failed[0]
        producer.flush()
    if failed:
        raise failed[0]


Place = tuple[str, "int | None"]


def records_by_place(
    batch: Any, columns: Sequence[str], topic: str | None, now_ms: int | None = None
) -> dict[Place, NewRecords]:
    """Return the records of an Arrow record batch by topic and partition, each in the order of the rows.

    Partition None: the key decides. Times are rounded down to ms; without one it is `now_ms` (None: the present).
    KcliError for a row without a topic, and a header without a name.
    """
    from kcli.protocol.records.record import NewRecords

    if now_ms is None:
        from kcli.clock import SystemClock

        now_ms = SystemClock().wall_ms()
    rows = batch.num_rows
    column = {name: batch.column(batch.schema.get_field_index(name)) for name in columns}
    keys = _bytes(column["key"], rows) if "key" in column else None
    values = _bytes(column.get("value"), rows)
    times = _times(column.get("timestamp"), rows, now_ms)
    headers = _headers(column.get("headers"), rows)
    records = NewRecords(values, times, keys, headers)
    topics = [topic] * rows if topic is not None else column["topic"].to_pylist()
    if topic is None and None in topics:
        raise KcliError("a row has no topic: its column topic is null; fill it, or use the option topic")
    if "partition" not in column and topic is not None:
        return {(topic, None): records} if rows else {}
    partitions = column["partition"].to_pylist() if "partition" in column else [None] * rows
    by_place: dict[Place, list[int]] = {}
    for index, place in enumerate(zip(topics, partitions, strict=True)):
        by_place.setdefault(place, []).append(index)
    return {place: records.select(indices) for place, indices in by_place.items()}


def _bytes(column: Any, rows: int) -> list[bytes | None]:
    import pyarrow as pa

    if column is None:
        return [None] * rows
    texts: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return texts


def _times(column: Any, rows: int, now_ms: int) -> list[int]:
    import pyarrow as pa

    if column is None or pa.types.is_null(column.type):
        return [now_ms] * rows
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    times = [now_ms if time is None else time // 1000 for time in micros]
    if min(times, default=0) < -1:  # -1 is a record without a timestamp
        raise KcliError(
            "a row has a timestamp before 1970, which Kafka does not store; null stands for the current time"
        )
    return times


def _headers(column: Any, rows: int) -> list[Headers] | None:
    if column is None or column.null_count == rows:
        return None
    rows_of_headers = column.to_pylist()
    if any(header is None for row in rows_of_headers for header in row or ()):
        raise KcliError("a row has a header that is null; remove it from the array, for example by array_compact")
    headers: list[Headers] = [[(header["key"], header["value"]) for header in row or ()] for row in rows_of_headers]
    if any(name is None for row in headers for name, _ in row):
        raise KcliError("a row has a header without a name; the key of a header must not be null")
    return headers


def _skipping(
    producer: Producer, client: ConsumerNetworkClient, options: SinkOptions
) -> Callable[[Place, NewRecords], NewRecords]:
    """Return a function that drops the records which an earlier attempt has stored, with the option `resumeFrom`."""
    bases = options.resume_from
    if bases is None:
        return lambda _, records: records
    left: dict[Place, int] = {}

    def skip(place: Place, records: NewRecords) -> NewRecords:
        topic, partition = place
        if partition is None:
            raise ConfigError("resumeFrom requires a column partition without nulls")
        if place not in left:
            tp = TopicPartition(topic, partition)
            producer.partitions(topic)
            left[place] = stored_since(tp, bases, _log_end(client, tp))
        stored = min(left[place], len(records))
        left[place] -= stored
        return records.part(stored, len(records))

    return skip


def _log_end(client: ConsumerNetworkClient, tp: TopicPartition) -> int:
    from kcli.client.offset_lookup import LATEST, list_offsets

    result = list_offsets(client, {tp: LATEST}, client.clock.now_ms() + client.config.default_api_timeout_ms)
    for error in result.errors.values():
        raise error
    return result.values[tp].offset


def stored_since(tp: TopicPartition, bases: Mapping[TopicPartition, int], log_end: int) -> int:
    """Return the number of records that earlier attempts have stored. Refused if the log has become shorter."""
    stored = log_end - bases.get(tp, 0)
    if stored < 0:
        raise Refused(f"{tp} ends at offset {log_end}, before {bases[tp]}: the topic was created again or truncated")
    return stored

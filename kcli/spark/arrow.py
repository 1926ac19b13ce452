"""Decoded records as Arrow record batches: every column is made of whole buffers, no object per record.

The types are those that Spark wants to the letter: plain `binary` and `string`, `timestamp[us, tz=UTC]`, all nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kcli.spark.arrow_arrays import binary_array, number_array
from kcli.spark.record_schema import BATCH_FACTS, MOST_MS
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.batch_facts import BatchFacts
    from kcli.protocol.records.columns import RecordColumns

    Ints: TypeAlias = NDArray[np.int64]

BATCH_ROWS = 10_000
BATCH_BYTES = 8 << 20


def _struct(**fields: Any) -> Any:
    return pa.struct(list(fields.items()))


_TYPES: dict[str, Any] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "array<int>": pa.list_(pa.int32()),
    "array<struct<topic:string,partition:int>>": pa.list_(_struct(topic=pa.string(), partition=pa.int32())),
    "array<struct<key:string,value:binary>>": pa.list_(_struct(key=pa.string(), value=pa.binary())),
}
_BYTES = {"key", "value", "headers"}


def arrow_schema(columns: Sequence[tuple[str, str]]) -> Any:
    """The Arrow schema that Spark expects for these columns of (name, SQL type)."""
    return pa.schema([pa.field(name, _TYPES[sql_type]) for name, sql_type in columns])


class Batcher:
    """Turns the decoded records of one partition into record batches of the chosen columns.

    A batch has at most `batch_rows` rows, and at most `batch_bytes` of records as they were fetched, unless one alone
    has more; numbers alone are not counted in bytes. Only what `columns` names is built.
    """

    def __init__(
        self,
        tp: TopicPartition,
        columns: Sequence[tuple[str, str]],
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.schema = arrow_schema(columns)
        self._names = [name for name, _ in columns]
        self._rows = batch_rows
        self._bytes = batch_bytes
        self._constants: dict[tuple[str, object], Any] = {}
        self._tp = tp

    def batches(self, records: RecordColumns) -> Iterator[Any]:
        """The records as `pyarrow.RecordBatch`es, in order."""
        for start, end in cut(len(records), self._reached(records), self._rows, self._bytes):
            yield self._batch(records.take(slice(start, end)))

    def _reached(self, records: RecordColumns) -> Ints | None:
        """Up to where the buffer is used by each record and those before it: a bound of their bytes that costs nothing.

        None if bytes do not matter.
        """
        if not len(records) or not _BYTES & set(self._names):
            return None
        reached: Ints = records.header_ends - records.key_starts[0]
        return reached

    def _batch(self, records: RecordColumns) -> Any:
        arrays = [_MAKERS[name](self, records) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def constant(self, name: str, value: object, rows: int) -> Any:
        """`rows` times the same value: made once, then only cut."""
        array = self._constants.get((name, value))
        if array is None or len(array) < rows:
            array = pa.repeat(pa.scalar(value, self.schema.field(name).type), max(rows, min(self._rows, 4096)))
            self._constants[name, value] = array
        return array.slice(0, rows)

    @property
    def tp(self) -> TopicPartition:
        """The partition whose records these are."""
        return self._tp


def cut(rows: int, reached: Ints | None, most_rows: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Where batches of at most `most_rows` rows and `most_bytes` begin and end: evenly, where rows alone decide.

    `reached` are the bytes of each row and all before it; None: they do not count.
    """
    pieces = -(-rows // most_rows)
    even = -(-rows // pieces) if pieces else 0
    start = before = 0
    while start < rows:
        end = min(start + even, rows)
        if reached is not None:
            fitting = int(reached.searchsorted(before + most_bytes, side="right"))
            end = max(start + 1, min(end, fitting))
            before = int(reached[end - 1])
        yield start, end
        start = end


def timestamp_array(values_ms: Ints) -> Any:
    """Milliseconds as Spark's timestamps. No timestamp, -1, is one millisecond before 1970, as the connector has it."""
    return number_array(values_ms.clip(-MOST_MS, MOST_MS) * 1000, _TYPES["timestamp"])


def _size_array(lengths: Ints) -> Any:
    return number_array(lengths.astype(np.int32), pa.int32(), lengths < 0)


def _timestamp_type_array(batcher: Batcher, records: RecordColumns) -> Any:
    types = records.timestamp_types
    first = int(types[0])
    if (types == first).all():
        return batcher.constant("timestampType", first, len(types))
    return number_array(types.astype(np.int32), pa.int32())


def _headers_array(_: Batcher, records: RecordColumns) -> Any:
    from kcli.spark.arrow_headers import headers_array

    return headers_array(records)


def _batch_fact(name: str) -> Callable[[Batcher, RecordColumns], Any]:
    return lambda _, records: batch_fact_array(name, records)


_MAKERS: dict[str, Callable[[Batcher, RecordColumns], Any]] = {
    "key": lambda _, records: binary_array(records.buffer, records.key_starts, records.key_lengths),
    "value": lambda _, records: binary_array(records.buffer, records.value_starts, records.value_lengths),
    "topic": lambda batcher, records: batcher.constant("topic", batcher.tp.topic, len(records)),
    "partition": lambda batcher, records: batcher.constant("partition", batcher.tp.partition, len(records)),
    "offset": lambda _, records: number_array(records.offsets, pa.int64()),
    "timestamp": lambda _, records: timestamp_array(records.timestamps_ms),
    "timestampType": _timestamp_type_array,
    "headers": _headers_array,
    "key_size": lambda _, records: _size_array(records.key_lengths),
    "value_size": lambda _, records: _size_array(records.value_lengths),
    "headers_size": lambda _, records: _size_array(records.header_ends - records.header_starts),
    **{name: _batch_fact(name) for name, _ in BATCH_FACTS},
}


def batch_fact_array(name: str, records: RecordColumns) -> Any:
    """The column called `name`, one of `columns.BATCH_FACTS`; null where the batch does not tell it."""
    from kcli.protocol.records.batch_facts import batch_facts

    return _BATCH_FACT_ARRAYS[name](batch_facts(records))


def _ints(values: Ints) -> Any:
    return number_array(values.astype(np.int32), pa.int32(), values < 0)


def _longs(values: Ints) -> Any:
    return number_array(values, pa.int64(), values < 0)


def _compression_array(facts: BatchFacts) -> Any:
    from kcli.protocol.records.compression import CODEC_NAMES

    return pa.array(CODEC_NAMES, pa.string()).take(pa.array(facts.codecs()))


_BATCH_FACT_ARRAYS: dict[str, Callable[[BatchFacts], Any]] = {
    "leader_epoch": lambda facts: _ints(facts.of_each(facts.batches.leader_epochs)),
    "producer_id": lambda facts: _longs(facts.of_each(facts.batches.producer_ids)),
    "producer_epoch": lambda facts: _ints(facts.of_each(facts.batches.producer_epochs)),
    "sequence": lambda facts: _ints(facts.sequences()),
    "base_offset": lambda facts: _longs(facts.base_offsets()),
    "compression": _compression_array,
    "is_transactional": lambda facts: pa.array(facts.transactional() == 1, pa.bool_()),
}

"""Arrow record batches from decoded records: each column is built from whole buffers, without an object per record.

The types are exactly those that Spark expects: `binary` and `string` (not large), `timestamp[us, tz=UTC]`, all
nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kcli.protocol.records.arrow_arrays import binary_array, headers_array, number_array
from kcli.spark.record_schema import BATCH_FACTS, MOST_MS
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.batch_table import BatchFacts
    from kcli.protocol.records.columns import RecordColumns
    from kcli.spark.decoding.column import DecodedColumn

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
    """Return the Arrow schema that Spark expects for columns given as (name, SQL type)."""
    return pa.schema([pa.field(name, _TYPES[sql_type]) for name, sql_type in columns])


class Batcher:
    """Converter of the decoded records of one partition into record batches of the selected columns.

    A batch has at most `batch_rows` rows and at most `batch_bytes` of fetched records, unless a single record is
    larger. The byte limit applies only if a column with bytes is selected. Only the selected columns are built.
    """

    def __init__(
        self,
        tp: TopicPartition,
        columns: Sequence[tuple[str, str]],
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        decoded: Sequence[DecodedColumn] = (),
    ) -> None:
        """`decoded` has the decoders of keys or values, whose columns are then typed."""
        self._decoded = {column.side: column for column in decoded if {name for name, _ in columns} & {*column.names}}
        own = [name for column in self._decoded.values() for name in column.names]
        types = {name: type for column in self._decoded.values() for name, type in column.arrow_types().items()}
        plain = arrow_schema([(name, sql_type) for name, sql_type in columns if name not in own])
        self.schema = pa.schema(
            [pa.field(name, types[name]) if name in types else plain.field(name) for name, _ in columns]
        )
        self._names = [name for name, _ in columns]
        self._rows = batch_rows
        self._bytes = batch_bytes
        self._constants: dict[tuple[str, object], Any] = {}
        self._tp = tp

    def batches(self, records: RecordColumns) -> Iterator[Any]:
        """Yield the records as `pyarrow.RecordBatch`es, in order."""
        for start, end in batch_edges(len(records), self._used_bytes(records), self._rows, self._bytes):
            yield self._batch(records.take(slice(start, end)))

    def _used_bytes(self, records: RecordColumns) -> Ints | None:
        """Return the bytes of the buffer used up to each record: an upper bound of the record sizes that costs nothing.

        None if no column with bytes is selected.
        """
        if not len(records) or not (self._decoded or _BYTES & set(self._names)):
            return None
        used: Ints = records.header_ends - records.key_starts[0]
        return used

    def _batch(self, records: RecordColumns) -> Any:
        made: dict[str, Any] = {}
        for column in self._decoded.values():
            made |= column.arrays(records)
        arrays = [made[name] if name in made else _COLUMN_ARRAYS[name](self, records) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def constant(self, name: str, value: object, rows: int) -> Any:
        """Return `rows` times the same value. The array is built once and then sliced."""
        array = self._constants.get((name, value))
        if array is None or len(array) < rows:
            array = pa.repeat(pa.scalar(value, self.schema.field(name).type), max(rows, min(self._rows, 4096)))
            self._constants[name, value] = array
        return array.slice(0, rows)

    @property
    def tp(self) -> TopicPartition:
        """The partition of the records."""
        return self._tp


def batch_edges(rows: int, used: Ints | None, most_rows: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) rows of batches of at most `most_rows` rows and `most_bytes` bytes, evenly sized if only
    rows limit them.

    `used` has the bytes of each row and all rows before it; None: bytes do not limit.
    """
    parts = -(-rows // most_rows)
    even = -(-rows // parts) if parts else 0
    start = previous = 0
    while start < rows:
        end = min(start + even, rows)
        if used is not None:
            fitting = int(used.searchsorted(previous + most_bytes, side="right"))
            end = max(start + 1, min(end, fitting))
            previous = int(used[end - 1])
        yield start, end
        start = end


def timestamp_array(values_ms: Ints) -> Any:
    """Convert milliseconds to Spark's timestamps. No timestamp (-1) is one millisecond before 1970, as in the
    connector.
    """
    return number_array(values_ms.clip(-MOST_MS, MOST_MS) * 1000, _TYPES["timestamp"])


def _size_array(lengths: Ints) -> Any:
    return number_array(lengths.astype(np.int32), pa.int32(), lengths < 0)


def _timestamp_type_array(batcher: Batcher, records: RecordColumns) -> Any:
    types = records.timestamp_types
    first = int(types[0])
    if (types == first).all():
        return batcher.constant("timestampType", first, len(types))
    return number_array(types.astype(np.int32), pa.int32())


def _batch_fact(name: str) -> Callable[[Batcher, RecordColumns], Any]:
    return lambda _, records: batch_fact_array(name, records)


_COLUMN_ARRAYS: dict[str, Callable[[Batcher, RecordColumns], Any]] = {
    "key": lambda _, records: binary_array(records.buffer, records.key_starts, records.key_lengths),
    "value": lambda _, records: binary_array(records.buffer, records.value_starts, records.value_lengths),
    "topic": lambda batcher, records: batcher.constant("topic", batcher.tp.topic, len(records)),
    "partition": lambda batcher, records: batcher.constant("partition", batcher.tp.partition, len(records)),
    "offset": lambda _, records: number_array(records.offsets, pa.int64()),
    "timestamp": lambda _, records: timestamp_array(records.timestamps_ms),
    "timestampType": _timestamp_type_array,
    "headers": lambda _, records: headers_array(records.buffer, records.header_starts, records.header_counts),
    "key_size": lambda _, records: _size_array(records.key_lengths),
    "value_size": lambda _, records: _size_array(records.value_lengths),
    "headers_size": lambda _, records: _size_array(records.header_ends - records.header_starts),
    **{name: _batch_fact(name) for name, _ in BATCH_FACTS},
}


def batch_fact_array(name: str, records: RecordColumns) -> Any:
    """Return the column `name`, one of `record_schema.BATCH_FACTS`; null where the batch does not have the value."""
    return _BATCH_FACT_ARRAYS[name](records.batch_facts())


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

"""The view `batches`: a row for each record batch, from its header alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kcli.spark.record_schema import MOST_MS
from kcli.spark.views.table import TP_COLUMNS, View, wanted_columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow
    from numpy.typing import NDArray

    from kcli.protocol.records.batch_columns import BatchColumns
    from kcli.protocol.records.varints import Ints
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange
    from kcli.structs import TopicPartition


def read(options: SourceOptions, ranges: Sequence[TaskRange]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the batches whose last offset is in a range, so ranges that meet within a batch count it once.

    Values that the header does not have are null.
    """
    import pyarrow as pa

    from kcli.protocol.records.batch_columns import decode_headers
    from kcli.spark.arrow import arrow_schema
    from kcli.spark.task import read_columns

    schema = arrow_schema(wanted_columns(BATCHES, options))
    names, rows = [field.name for field in schema], options.batch_rows
    with closing(read_columns(options, ranges, decode_headers)) as chunks:
        for range_, chunk in chunks:
            ending = _ending_within(chunk.batches, range_.start, range_.end)
            for first in range(0, len(ending.froms), rows):
                arrays = batch_arrays(ending.pick(slice(first, first + rows)), range_.tp, names)
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


BATCHES = View(
    "batches",
    (
        *TP_COLUMNS,
        ("base_offset", "bigint"),
        ("last_offset", "bigint"),
        ("count", "int"),
        ("bytes", "int"),
        ("compression", "string"),
        ("producer_id", "bigint"),
        ("producer_epoch", "int"),
        ("base_sequence", "int"),
        ("first_timestamp", "timestamp"),
        ("max_timestamp", "timestamp"),
        ("timestamp_type", "int"),
        ("is_transactional", "boolean"),
        ("is_control", "boolean"),
        ("is_aborted", "boolean"),
        ("leader_epoch", "int"),
        ("magic", "int"),
    ),
    ranged=True,
    read=read,
)


def _ending_within(batches: BatchColumns, start: int, end: int) -> BatchColumns:
    lasts = batches.last_offsets
    if len(lasts) and lasts[0] >= start and lasts[-1] < end:
        return batches
    return batches.pick((lasts >= start) & (lasts < end))


def batch_arrays(batches: BatchColumns, tp: TopicPartition, names: Sequence[str]) -> list[Any]:
    """Return the columns called `names`, as Arrow arrays."""
    import pyarrow as pa

    place: dict[str, Any] = {
        "topic": pa.scalar(tp.topic, pa.string()),
        "partition": pa.scalar(tp.partition, pa.int32()),
    }
    count = len(batches.froms)
    return [pa.repeat(place[name], count) if name in place else _COLUMN_ARRAYS[name](batches) for name in names]


def _ints(values: Ints) -> Any:
    """Return Spark's int; null for values below 0, which are unknown."""
    import numpy as np
    import pyarrow as pa

    from kcli.protocol.records.arrow_arrays import number_array

    return number_array(values.astype(np.int32), pa.int32(), values < 0)


def _longs(values: Ints) -> Any:
    import pyarrow as pa

    from kcli.protocol.records.arrow_arrays import number_array

    return number_array(values, pa.int64(), values < 0)


def _times(values_ms: Ints) -> Any:
    import pyarrow as pa

    from kcli.protocol.records.arrow_arrays import number_array

    return number_array(values_ms.clip(max=MOST_MS) * 1000, pa.timestamp("us", tz="UTC"), values_ms < 0)


def _flags(values: NDArray[Any], unknown: NDArray[np.bool_] | None = None) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.bool_(), mask=unknown)


def _compression(batches: BatchColumns) -> Any:
    import pyarrow as pa

    from kcli.protocol.records.compression import CODEC_NAMES

    return pa.array(CODEC_NAMES, pa.string()).take(pa.array(batches.codecs))


def _timestamp_types(batches: BatchColumns) -> Any:
    import pyarrow as pa

    return pa.array(batches.timestamp_types, pa.int8()).cast(pa.int32())


_COLUMN_ARRAYS: dict[str, Callable[[BatchColumns], Any]] = {
    "base_offset": lambda batches: _longs(batches.base_offsets),
    "last_offset": lambda batches: _longs(batches.last_offsets),
    "count": lambda batches: _ints(batches.counts),
    "bytes": lambda batches: _ints(batches.sizes),
    "compression": _compression,
    "producer_id": lambda batches: _longs(batches.producer_ids),
    "producer_epoch": lambda batches: _ints(batches.producer_epochs),
    "base_sequence": lambda batches: _ints(batches.base_sequences),
    "first_timestamp": lambda batches: _times(batches.first_timestamps),
    "max_timestamp": lambda batches: _times(batches.max_timestamps),
    "timestamp_type": _timestamp_types,
    "is_transactional": lambda batches: _flags(batches.transactional),
    "is_control": lambda batches: _flags(batches.control),
    "is_aborted": lambda batches: _flags(batches.aborted == 1, batches.aborted < 0),
    "leader_epoch": lambda batches: _ints(batches.leader_epochs),
    "magic": lambda batches: _ints(batches.magic),
}

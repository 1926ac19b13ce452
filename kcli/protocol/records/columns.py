"""Decoded records as numpy columns over one buffer; a `Record` is made only for the row that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.batch_table import BatchFacts, BatchTable
from kcli.protocol.records.record import Record
from kcli.protocol.records.record_fields import read_headers
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from numpy.typing import NDArray

    from kcli.structs import TopicPartition

NO_TIMESTAMP, CREATE_TIME, APPEND_TIME = -1, 0, 1
_TIMESTAMP_TYPES = {NO_TIMESTAMP: "none", CREATE_TIME: "create", APPEND_TIME: "append"}
_ROWS_PER_STEP = 4096


class RecordColumns:
    """`len(self)` records of one partition, in strictly increasing offset order, over one `buffer`.

    All columns are arrays of the same length, int64 unless stated. Keys and values are spans (start, length) of
    `buffer`; a length of -1 is null. `header_starts` to `header_ends` are the encoded headers after their count.
    `timestamp_types` (int8) is `CREATE_TIME` (set by the producer), `APPEND_TIME` (by the broker) or `NO_TIMESTAMP`.
    `within` names the batches of the records: a table and its first and end row; None: unknown.

    Records of several partitions of one topic, merged in order of time, have `partitions`: the number of each record's
    partition. Only within a partition do their offsets increase.

        for record in columns: ...                     # one `Record` per row
        columns.take(columns.timestamps_ms >= since)   # a selection, without copying keys or values

    `to_arrow`, `to_pandas` and `to_polars` return them as a table of these libraries. The result of a whole poll is:

        pyarrow.concat_tables(columns.to_arrow(tp) for tp, columns in consumer.poll(1000).items())
        polars.concat(columns.to_polars(tp) for tp, columns in consumer.poll(1000).items())
    """

    __slots__ = (
        "buffer",
        "header_counts",
        "header_ends",
        "header_starts",
        "key_lengths",
        "key_starts",
        "offsets",
        "partitions",
        "timestamp_types",
        "timestamps_ms",
        "value_lengths",
        "value_starts",
        "within",
    )

    def __init__(
        self,
        buffer: Buffer,
        *,
        offsets: Ints,
        timestamps_ms: Ints,
        key_starts: Ints,
        key_lengths: Ints,
        value_starts: Ints,
        value_lengths: Ints,
        header_starts: Ints,
        header_counts: Ints,
        header_ends: Ints,
        timestamp_types: NDArray[np.int8],
        within: tuple[BatchTable, int, int] | None = None,
        partitions: Ints | None = None,
    ) -> None:
        self.buffer = buffer
        self.offsets = offsets
        self.partitions = partitions
        self.timestamps_ms = timestamps_ms
        self.key_starts = key_starts
        self.key_lengths = key_lengths
        self.value_starts = value_starts
        self.value_lengths = value_lengths
        self.header_starts = header_starts
        self.header_counts = header_counts
        self.header_ends = header_ends
        self.timestamp_types = timestamp_types
        self.within = within

    @classmethod
    def empty(cls) -> RecordColumns:
        """Return no records, over an empty buffer."""
        arrays: dict[str, Any] = {name: np.empty(0, np.int64) for name in _ARRAYS}
        arrays["timestamp_types"] = np.empty(0, np.int8)
        return cls(b"", **arrays)

    @classmethod
    def join(cls, parts: list[RecordColumns]) -> RecordColumns:
        """Concatenate the records of several columns over the same buffer."""
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        return cls(parts[0].buffer, **arrays)

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        if not len(self):
            return "<RecordColumns empty>"
        return f"<RecordColumns {len(self)} records, offsets {self.offsets[0]}..{self.offsets[-1]}>"

    @property
    def payload_bytes(self) -> int:
        """Total size of all keys and values in bytes."""
        return int(self.key_lengths.clip(min=0).sum() + self.value_lengths.clip(min=0).sum())

    def take(self, selection: slice | NDArray[Any] | list[int]) -> RecordColumns:
        """Return the records selected by a slice, a boolean mask or an array of indices, over the same buffer."""
        arrays: dict[str, Any] = {name: getattr(self, name)[selection] for name in _ARRAYS}
        partitions = None if self.partitions is None else self.partitions[selection]
        return RecordColumns(self.buffer, within=self.within, partitions=partitions, **arrays)

    def partition_numbers(self, partition: int) -> list[int]:
        """Return the partition number of each record; `partition` is that of records that are not merged."""
        return [partition] * len(self) if self.partitions is None else self.partitions.tolist()

    def keys(self) -> list[bytes | None]:
        """Return every key, copied from the buffer; None is null."""
        return _copy_spans(self.buffer, self.key_starts, self.key_lengths)

    def values(self) -> list[bytes | None]:
        """Return every value, copied from the buffer; None is null."""
        return _copy_spans(self.buffer, self.value_starts, self.value_lengths)

    def to_arrow(self, tp: TopicPartition | None = None) -> pyarrow.Table:
        """Return the records as a `pyarrow.Table`. ImportError without pyarrow (`kcli-kafka[arrow]`).

        | column | type | null |
        |---|---|---|
        | topic, partition | string, int32 | never; absent without `tp`, the partition of the records |
        | offset | int64 | never |
        | timestamp | timestamp[ms, tz=UTC] | a record of message format 0, which has none |
        | key, value | binary | a null; an empty one is not null |
        | headers | list<struct<name: string, value: binary>> | never; a value in it may be null |

        >>> from kcli import Consumer
        >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        ...     tables = [columns.to_arrow(tp) for tp, columns in consumer.columns(to_end=True)]
        >>> import pyarrow
        >>> orders = pyarrow.concat_tables(tables).sort_by("key")
        >>> orders.select(["partition", "offset", "key", "value"]).to_pylist()[0]
        {'partition': 0, 'offset': 0, 'key': b'a', 'value': b'1'}

        Numbers are those of these columns, without a copy; keys and values are copied once, without an object for each.
        Merged records (`partitions`) keep their own partitions. Keys or values of more than 2 GiB together raise
        `pyarrow.ArrowInvalid`.
        """
        _require("pyarrow", "to_arrow", "arrow")
        import pyarrow as pa

        from kcli.protocol.records.arrow_arrays import binary_array, headers_array, number_array

        place: dict[str, Any] = {}
        if tp is not None:
            place["topic"] = pa.repeat(pa.scalar(tp.topic, pa.string()), len(self))
        if self.partitions is not None:
            place["partition"] = number_array(self.partitions.astype(np.int32), pa.int32())
        elif tp is not None:
            place["partition"] = pa.repeat(pa.scalar(tp.partition, pa.int32()), len(self))
        times, starts, counts = self.timestamps_ms, self.header_starts, self.header_counts
        return pa.table(
            {
                **place,
                "offset": number_array(self.offsets, pa.int64()),
                "timestamp": number_array(times, pa.timestamp("ms", tz="UTC"), times == -1),
                "key": binary_array(self.buffer, self.key_starts, self.key_lengths),
                "value": binary_array(self.buffer, self.value_starts, self.value_lengths),
                "headers": headers_array(self.buffer, starts, counts, name_field="name", none_is_null=False),
            }
        )

    def to_pandas(self, tp: TopicPartition | None = None) -> pandas.DataFrame:
        """Return the records as a `pandas.DataFrame`, with the columns of `to_arrow`.

        Keys and values are `bytes` or None, headers an array of dicts. ImportError without pandas
        (`kcli-kafka[pandas]`).

        >>> from kcli import Consumer
        >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        ...     frames = [columns.to_pandas(tp) for tp, columns in consumer.columns(to_end=True)]
        >>> import pandas
        >>> int(pandas.concat(frames)["value"].map(int).sum())
        6
        """
        _require("pandas", "to_pandas", "pandas")
        return self.to_arrow(tp).to_pandas()

    def to_polars(self, tp: TopicPartition | None = None) -> polars.DataFrame:
        """Return the records as a `polars.DataFrame`, with the columns of `to_arrow`.

        ImportError without polars (`kcli-kafka[polars]`).

        >>> from kcli import Consumer
        >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        ...     frames = [columns.to_polars(tp) for tp, columns in consumer.columns(to_end=True)]
        >>> import polars
        >>> polars.concat(frames)["value"].cast(polars.String).cast(polars.Int64).sum()
        6
        """
        _require("polars", "to_polars", "polars")
        import polars

        return polars.DataFrame(self.to_arrow(tp))

    def headers(self, index: int) -> list[tuple[str, bytes | None]]:
        """Return the headers of one record, in order.

        A name may occur twice, and invalid UTF-8 in it is replaced.
        """
        count = int(self.header_counts[index])
        if not count:
            return []
        return read_headers(self.buffer, int(self.header_starts[index]), int(self.header_ends[index]), count)

    def timestamp_type(self, index: int) -> str:
        """Return `"create"`, `"append"` or `"none"` for one record."""
        return _TIMESTAMP_TYPES[int(self.timestamp_types[index])]

    def row(self, index: int) -> Record:
        """Return one record by value."""
        return next(iter(self.take([index])))

    def batch_facts(self) -> BatchFacts:
        """Return the batch of each record. ValueError for records whose batches are unknown.

        It costs nothing unless it is called: offsets ascend from batch to batch, so the batch of a record is the first
        one that reaches its offset.
        """
        if self.within is None:
            raise ValueError("the batches of these records are not known")
        batches, first, end = self.within
        owners = batches.next_offsets[first:end].searchsorted(self.offsets, side="right") + first
        return BatchFacts(batches, owners, self.offsets)

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), _ROWS_PER_STEP):
            part = self.take(slice(start, start + _ROWS_PER_STEP))
            rows = zip(part.offsets.tolist(), part.timestamps_ms.tolist(), part.keys(), part.values(), strict=True)
            for index, (offset, timestamp_ms, key, value) in enumerate(rows):
                yield Record(offset, timestamp_ms, key, value, part.headers(index))


_ARRAYS = tuple(name for name in RecordColumns.__slots__ if name not in ("buffer", "partitions", "within"))


def _require(package: str, method: str, extra: str) -> None:
    """Raise ImportError with the extra to install if the package cannot be imported."""
    try:
        import_module(package)
    except ImportError as error:
        need = f"{method} needs the Python package {package}: pip install 'kcli-kafka[{extra}]'"
        raise ImportError(need, name=package) from error


def _copy_spans(buffer: Buffer, starts: Ints, lengths: Ints) -> list[bytes | None]:
    view = memoryview(buffer)
    return [
        None if length < 0 else bytes(view[start : start + length])
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]

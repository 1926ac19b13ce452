"""Record headers as one Arrow list array: the k-th headers of all records are read together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kcli.protocol.records.varints import read_varint, read_varint_column
from kcli.spark.arrow_arrays import binary_array, bitmap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns

    Ints: TypeAlias = NDArray[np.int64]

_ELEMENT = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
# A record with thousands of headers must not cost as many numpy calls: where so few go on, they are read one by one.
_FEW = 16


def headers_array(records: RecordColumns) -> Any:
    """`list<struct<key: string, value: binary>>`: null, not empty, for a record without headers (as Spark's connector
    has it); a name that is no UTF-8 has it replaced, as in Java's consumer."""
    counts = records.header_counts
    edges = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    chosen = np.flatnonzero(counts)
    order = chosen[np.argsort(-counts[chosen], kind="stable")]
    names, values = _spans(records, order, edges)
    keys = _utf8(binary_array(records.buffer, *names))
    pairs = pa.StructArray.from_arrays([keys, binary_array(records.buffer, *values)], fields=_ELEMENT)
    missing = len(counts) - len(chosen)
    validity = bitmap(counts > 0) if missing else None
    kind = pa.list_(pa.struct(_ELEMENT))
    return pa.Array.from_buffers(kind, len(counts), [validity, pa.py_buffer(edges)], missing, 0, [pairs])


def _spans(records: RecordColumns, order: Ints, edges: NDArray[np.int32]) -> tuple[tuple[Ints, Ints], ...]:
    """(starts, lengths) of all names and of all values, in the order of the records; `order`: most headers first."""
    total = int(edges[-1])
    name_starts, name_lengths, value_starts, value_lengths = (np.empty(total, np.int64) for _ in range(4))
    data = np.frombuffer(records.buffer, np.uint8)
    counts = records.header_counts[order]
    at = records.header_starts[order]
    places = edges[order].astype(np.int64)
    step, live = 0, len(order)
    while live >= _FEW:
        lengths, starts, _ = read_varint_column(data, at[:live])
        sizes, behind, _ = read_varint_column(data, starts + lengths)
        here = places[:live] + step
        name_starts[here], name_lengths[here], value_starts[here], value_lengths[here] = starts, lengths, behind, sizes
        at[:live] = behind + sizes.clip(min=0)
        step += 1
        live = int(np.searchsorted(-counts, -step, side="left"))
    columns = name_starts, name_lengths, value_starts, value_lengths
    for index in range(live):
        first = int(places[index])
        _walk(records.buffer, int(at[index]), first + step, first + int(counts[index]), columns)
    return (name_starts, name_lengths), (value_starts, value_lengths)


def _walk(buffer: Any, at: int, first: int, behind: int, columns: tuple[Ints, Ints, Ints, Ints]) -> None:
    """Put the spans of one record's headers from `at` on into the places `first` to `behind`."""
    end = len(buffer)
    for place in range(first, behind):
        name_length, name_start = read_varint(buffer, at, end)
        value_length, value_start = read_varint(buffer, name_start + name_length, end)
        for column, found in zip(columns, (name_start, name_length, value_start, value_length), strict=True):
            column[place] = found
        at = value_start + max(value_length, 0)


def _utf8(names: Any) -> Any:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())

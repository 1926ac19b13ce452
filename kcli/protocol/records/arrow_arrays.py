"""Arrow arrays from whole buffers: numbers without a copy, spans of a buffer as binary values, lists of headers.

Keys and values are in the fetched buffer, with other bytes between them. With offsets start, end, start, end, ... that
buffer already is a binary array: its even entries are the wanted ones, and Arrow's `take` collects them natively. This
takes 20 to 35 ns per value; numpy needs 90 ns and Python objects 850 ns.

`RecordColumns.to_arrow` and the Spark source share these functions. The module is imported only by them, because it
needs pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.protocol.primitives import read_varint
from kcli.protocol.records.varints import read_varint_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

_MOST_OFFSET = (1 << 31) - 1


def binary_array(buffer: Any, starts: Ints, lengths: Ints) -> Any:
    """Return spans of `buffer` (already checked by the decoder) as a binary array; a negative length is null."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    nulls = lengths < 0
    has_nulls = bool(nulls.any())
    if has_nulls:
        lengths = lengths.clip(min=0)
    origin = int(starts.min())
    is_wide = len(memoryview(buffer)) - origin > _MOST_OFFSET  # several large batches, merged
    edges = np.empty(2 * count + 1, np.int64 if is_wide else np.int32)
    np.subtract(starts, origin, out=edges[:-1:2], casting="unsafe")
    np.add(edges[:-1:2], lengths, out=edges[1::2], casting="unsafe")
    edges[-1] = edges[:-1].max()  # not the last one: Arrow wants an end after the start, and spans may have any order
    data = pa.py_buffer(buffer).slice(origin)
    kind = pa.large_binary() if is_wide else pa.binary()
    spans = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(edges), data])
    taken = pc.take(spans, pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)), boundscheck=False)
    if is_wide:
        taken = taken.cast(pa.binary())
    if not has_nulls:
        return taken
    _, offsets, values = taken.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [bitmap(~nulls), offsets, values], int(nulls.sum()))


def bitmap(flags: NDArray[np.bool_]) -> Any:
    """Return a validity bitmap: one bit per flag."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def number_array(values: NDArray[Any], arrow_type: Any, nulls: NDArray[np.bool_] | None = None) -> Any:
    """Return numbers of the width of `arrow_type`; null where `nulls` is set."""
    validity = bitmap(~nulls) if nulls is not None and nulls.any() else None
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


# Headers: the k-th headers of all records are decoded together

# Below this number of records with a k-th header, headers are decoded one by one: a single record with thousands of
# headers must not cost thousands of numpy calls.
_VECTOR_MINIMUM = 16


def headers_array(
    buffer: Any, header_starts: Ints, counts: Ints, *, name_field: str = "key", none_is_null: bool = True
) -> Any:
    """Return `list<struct<name_field: string, value: binary>>` of the columns of `RecordColumns`.

    A record without headers is null, as in Spark's connector, or else an empty list. Invalid UTF-8 in a name is
    replaced, as in Java's consumer.
    """
    element = [pa.field(name_field, pa.string()), pa.field("value", pa.binary())]
    edges = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    with_headers = np.flatnonzero(counts)
    order = with_headers[np.argsort(-counts[with_headers], kind="stable")]
    names, values = _spans(buffer, header_starts[order], counts[order], edges, order)
    keys = _utf8(binary_array(buffer, *names))
    pairs = pa.StructArray.from_arrays([keys, binary_array(buffer, *values)], fields=element)
    missing = len(counts) - len(with_headers) if none_is_null else 0
    validity = bitmap(counts > 0) if missing else None
    kind = pa.list_(pa.struct(element))
    return pa.Array.from_buffers(kind, len(counts), [validity, pa.py_buffer(edges)], missing, 0, [pairs])


def _spans(buffer: Any, at: Ints, counts: Ints, edges: NDArray[np.int32], order: Ints) -> tuple[tuple[Ints, Ints], ...]:
    """Return (starts, lengths) of all names and of all values, in record order.

    `order` lists the records with most headers first, and so do `at`, where their headers start, and `counts`.
    """
    total = int(edges[-1])
    name_starts, name_lengths, value_starts, value_lengths = (np.empty(total, np.int64) for _ in range(4))
    data = np.frombuffer(buffer, np.uint8)
    places = edges[order].astype(np.int64)
    step, live = 0, len(order)
    while live >= _VECTOR_MINIMUM:
        lengths, starts, _ = read_varint_column(data, at[:live])
        sizes, value_at, _ = read_varint_column(data, starts + lengths)
        place = places[:live] + step
        name_starts[place], name_lengths[place], value_starts[place], value_lengths[place] = (
            starts,
            lengths,
            value_at,
            sizes,
        )
        at[:live] = value_at + sizes.clip(min=0)
        step += 1
        live = int(np.searchsorted(-counts, -step, side="left"))
    columns = name_starts, name_lengths, value_starts, value_lengths
    for index in range(live):
        first = int(places[index])
        _walk(buffer, int(at[index]), first + step, first + int(counts[index]), columns)
    return (name_starts, name_lengths), (value_starts, value_lengths)


def _walk(buffer: Any, at: int, first: int, last: int, columns: tuple[Ints, Ints, Ints, Ints]) -> None:
    """Write the spans of one record's headers, from buffer position `at`, to the indexes `first` to before `last`."""
    for place in range(first, last):
        name_length, name_start = read_varint(buffer, at)
        value_length, value_start = read_varint(buffer, name_start + name_length)
        for column, number in zip(columns, (name_start, name_length, value_start, value_length), strict=True):
            column[place] = number
        at = value_start + max(value_length, 0)


def _utf8(names: Any) -> Any:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())

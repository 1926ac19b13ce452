"""Arrow arrays from whole buffers: numbers without a copy, and spans of a buffer as binary values.

Keys and values are in the fetched buffer, with other bytes between them. With offsets start, end, start, end, ... that
buffer already is a binary array: its even entries are the wanted ones, and Arrow's `take` collects them natively. This
takes 20 to 35 ns per value; numpy needs 90 ns and Python objects 850 ns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]


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
    edges = np.empty(2 * count + 1, np.int32)
    np.subtract(starts, origin, out=edges[:-1:2], casting="unsafe")
    np.add(edges[:-1:2], lengths, out=edges[1::2], casting="unsafe")
    edges[-1] = edges[-2]
    data = pa.py_buffer(buffer).slice(origin)
    spans = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(edges), data])
    taken = pc.take(spans, pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)), boundscheck=False)
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

"""Columns of zigzag varints: one varint per record, decoded for all records of a response by few numpy operations.

`primitives.read_varint` reads a single one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Octets: TypeAlias = "NDArray[np.uint8]"
Ints: TypeAlias = "NDArray[np.int64]"


def read_varint_column(data: Octets, at: Ints, max_length: int = 5) -> tuple[Ints, Ints, Ints | None]:
    """Read one varint at each position of `at`.

    Returns the values, the positions after them, and the indices of varints over `max_length` bytes (None: there are
    none). A position outside `data` reads the nearest byte, so the caller has to compare the positions after the
    varints with its own bounds. Arithmetic uses the narrowest type that holds the values, which gives most of the
    speed.
    """
    first = data.take(at, mode="clip")
    after = at + 1
    if not len(first):
        return after - 1, after, None
    low, high = int(first.min()), int(first.max())
    if high < 0x80:
        if low == high:
            return np.full(len(at), (low >> 1) ^ -(low & 1)), after, None
        return _unzigzag(first.view(np.int8)), after, None
    second = data.take(after, mode="clip")
    if low >= 0x80:
        after += 1
    else:
        continues: Octets = first >> np.uint8(7)
        second *= continues
        after += continues
    first &= 0x7F
    if second.max() < 0x80:
        raw = second.astype(np.int16)
        raw <<= 7
        raw |= first
        return _unzigzag(raw), after, None
    return _read_long(data, first, second, after, max_length)


def _read_long(
    data: Octets, first: Octets, second: Octets, after: Ints, max_length: int
) -> tuple[Ints, Ints, Ints | None]:
    raw = (second & 0x7F).astype(np.int64) << 7 | first
    unfinished = np.flatnonzero(second >= 0x80)
    for shift in range(14, 7 * max_length, 7):
        byte = data.take(after[unfinished], mode="clip").astype(np.int64)
        raw[unfinished] |= (byte & 0x7F) << shift
        after[unfinished] += 1
        unfinished = unfinished[byte >= 0x80]
        if not len(unfinished):
            break
    # The top bit of a 64-bit value is not a sign yet, so shift it as unsigned.
    values = (raw.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(raw & 1)
    return values, after, unfinished if len(unfinished) else None


def _unzigzag(raw: NDArray[Any]) -> Ints:
    """Decode zigzag in place; `raw` has a signed type and no negative values."""
    sign = raw & 1
    np.negative(sign, out=sign)
    raw >>= 1
    raw ^= sign
    return raw.astype(np.int64)

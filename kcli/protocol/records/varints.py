"""Zigzag varints (the Protocol Buffers kind that record format v2 uses): one at a time, or a whole column at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

Octets: TypeAlias = "NDArray[np.uint8]"
Ints: TypeAlias = "NDArray[np.int64]"


def read_varint(buffer: Buffer, at: int, end: int, longest: int = 5) -> tuple[int, int]:
    """The signed varint at `at`, and the position behind it. `CorruptRecords` past `end` or `longest` bytes."""
    raw = shift = 0
    stop = min(end, at + longest)
    while at < stop:
        byte = buffer[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    raise CorruptRecords("a varint runs past the end of its record" if at >= end else "a varint is too long")


def read_varint_column(data: Octets, at: Ints, longest: int = 5) -> tuple[Ints, Ints, Ints | None]:
    """One varint at each position of `at`: values, positions behind them, indices of those over `longest` (None: none).

    Positions outside of `data` read its nearest byte: the caller checks the positions behind against its own ends.
    Arithmetic stays in the narrowest type that holds it, which is where most of the speed comes from.
    """
    first = data.take(at, mode="clip")
    behind = at + 1
    if not len(first):
        return behind - 1, behind, None
    low, high = int(first.min()), int(first.max())
    if high < 0x80:
        if low == high:
            return np.full(len(at), (low >> 1) ^ -(low & 1)), behind, None
        return _unzigzag(first.view(np.int8)), behind, None
    second = data.take(behind, mode="clip")
    if low >= 0x80:
        behind += 1
    else:
        more: Octets = first >> np.uint8(7)
        second *= more
        behind += more
    first &= 0x7F
    if second.max() < 0x80:
        raw = second.astype(np.int16)
        raw <<= 7
        raw |= first
        return _unzigzag(raw), behind, None
    return _read_long(data, first, second, behind, longest)


def _read_long(
    data: Octets,
    first: Octets,
    second: Octets,
    behind: Ints,
    longest: int,
) -> tuple[Ints, Ints, Ints | None]:
    raw = (second & 0x7F).astype(np.int64) << 7 | first
    unfinished = np.flatnonzero(second >= 0x80)
    for shift in range(14, 7 * longest, 7):
        byte = data.take(behind[unfinished], mode="clip").astype(np.int64)
        raw[unfinished] |= (byte & 0x7F) << shift
        behind[unfinished] += 1
        unfinished = unfinished[byte >= 0x80]
        if not len(unfinished):
            break
    # The top bit of a 64-bit value is no sign yet: shift it as unsigned.
    values = (raw.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(raw & 1)
    return values, behind, unfinished if len(unfinished) else None


def _unzigzag(raw: NDArray[Any]) -> Ints:
    """In place; `raw` is of a signed type and not negative."""
    sign = raw & 1
    np.negative(sign, out=sign)
    raw >>= 1
    raw ^= sign
    return raw.astype(np.int64)

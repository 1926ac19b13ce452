"""Zigzag varints (the Protocol Buffers kind that record format v2 uses): one at a time, or a whole column at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecords

_LOW_BITS = np.int64(0x7F)


def read_varint(buffer: Any, at: int, end: int, longest: int = 5) -> tuple[int, int]:
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


def write_varint(value: int) -> bytes:
    """A signed number of up to 64 bits as zigzag varint."""
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        return raw.to_bytes(1, "big")
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def read_varint_column(
    data: NDArray[np.uint8], at: NDArray[np.int64], longest: int = 5
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_] | None]:
    """One varint at each position of `at`: values, positions behind them, and which ran over `longest` (None: none).

    Positions outside of `data` read its nearest byte: the caller checks the positions behind against its own ends.
    """
    byte = data.take(at, mode="clip").astype(np.int64)
    behind = at + 1
    if len(byte) == 0 or int(byte.max()) < 0x80:
        return (byte >> 1) ^ -(byte & 1), behind, None
    raw = byte & _LOW_BITS
    unfinished = np.flatnonzero(byte >= 0x80)
    shift = 7
    for _ in range(longest - 1):
        byte = data.take(behind[unfinished], mode="clip").astype(np.int64)
        raw[unfinished] |= (byte & _LOW_BITS) << shift
        behind[unfinished] += 1
        shift += 7
        unfinished = unfinished[byte >= 0x80]
        if not len(unfinished):
            break
    # The shift right must not carry a 64-bit value's top bit along, so it is done unsigned.
    values = (raw.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(raw & 1)
    if not len(unfinished):
        return values, behind, None
    too_long = np.zeros(len(at), np.bool_)
    too_long[unfinished] = True
    return values, behind, too_long

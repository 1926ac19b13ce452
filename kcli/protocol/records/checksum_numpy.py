"""CRC-32C of many ranges at once in numpy, for machines that have no C module for it: Spark's executors.

A checksum is one long chain of steps, each of which needs the one before. But a CRC is linear: that of a range is the
exclusive or of what its parts come to alone, each moved on by the bytes behind it. So all ranges are cut into lanes of
64 bytes, counted from their ends; all lanes are stepped through side by side, eight bytes at a time, by tables of two
bytes each ("slicing"); and neighbours are joined, pairs, pairs of pairs, until one value for each range is left. Zeros
in front of a range change nothing, and the start value is the complement of its first four bytes.

Source: M. Kounavis and F. Berry, "A Systematic Approach to Building High Performance, Software-based, CRC Generators"
(2005); the polynomial is RFC 3720's, its bits reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kcli.protocol.records.batch import Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

Words: TypeAlias = "NDArray[np.uint32]"

_POLYNOMIAL = 0x82F63B78
_ALL = 0xFFFFFFFF
_LANE_BYTES = 64
# What is looked at together: the copy of its bytes, and a few times as much beside it while it is stepped through.
_SLICE_LANES = 16 * 1024
_SLICE_BYTES = _SLICE_LANES * _LANE_BYTES


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The checksum of `data`, going on from that of what came before it."""
    view = memoryview(data)
    for start in range(0, len(view), _SLICE_BYTES):
        piece = view[start : start + _SLICE_BYTES]
        (crc,) = _of_slice(piece, [0], [len(piece)], crc)
    return crc


def crc32c_many(data: Buffer, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The checksums of `data[start:end]`; the ranges may lie anywhere, and over each other."""
    view = memoryview(data)
    found: list[int] = []
    first = lanes = 0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        needed = max(1, -(-(end - start) // _LANE_BYTES))
        if lanes + needed > _SLICE_LANES:
            found += _of_slice(view, starts[first:number], ends[first:number])
            first, lanes = number, 0
        if needed > _SLICE_LANES:
            found.append(crc32c(view[start:end]))
            first = number + 1
        else:
            lanes += needed
    return found + _of_slice(view, starts[first:], ends[first:])


def _of_slice(view: memoryview, starts: Sequence[int], ends: Sequence[int], crc: int = 0) -> list[int]:
    """The checksums of a few ranges, each going on from `crc`."""
    if not starts:
        return []
    lengths = np.array(ends, np.int64) - np.array(starts, np.int64)
    counts = np.maximum(1, -(-lengths // _LANE_BYTES))
    behind = np.cumsum(counts) * _LANE_BYTES
    begins = behind - lengths
    copy = np.zeros(int(behind[-1]), np.uint8)
    into = memoryview(copy)  # type: ignore[arg-type]
    for start, end, to, to_end in zip(starts, ends, begins.tolist(), behind.tolist(), strict=True):
        into[to:to_end] = view[start:end]
    state = crc ^ _ALL
    for at in range(4):
        copy[begins[lengths > at] + at] ^= state >> 8 * at & 0xFF
    joined = _join(_step_through(copy), counts)
    joined ^= np.array([state >> 8 * min(length, 4) for length in range(5)], np.uint32)[np.minimum(lengths, 4)]
    found: list[int] = (joined ^ np.uint32(_ALL)).tolist()
    return found


def _step_through(data: NDArray[np.uint8]) -> Words:
    """What each lane comes to alone, from zero."""
    words = data.view("<u2").reshape(-1, _LANE_BYTES // 2)
    last, third, second, first = _slicing_tables()
    states = np.zeros(len(words), np.uint32)
    for at in range(0, _LANE_BYTES // 2, 4):
        low = words[:, at] ^ states.astype(np.uint16)
        high = words[:, at + 1] ^ (states >> 16).astype(np.uint16)
        states = _look_up(first, low)
        states ^= _look_up(second, high)
        states ^= _look_up(third, words[:, at + 2])
        states ^= _look_up(last, words[:, at + 3])
    return states


def _join(lanes: Words, counts: NDArray[np.int64]) -> Words:
    """One value for each range of `counts` lanes, in order. Ranges of about as many lanes are joined together."""
    behind = np.cumsum(counts)
    begins = behind - counts
    widths = 1 << np.ceil(np.log2(counts)).astype(np.int64)
    joined = np.zeros(len(counts), np.uint32)
    for width in np.unique(widths).tolist():
        members = np.flatnonzero(widths == width)
        places = behind[members, None] + np.arange(-width, 0)
        values = np.where(places >= begins[members, None], lanes[places], np.uint32(0))
        level = 0
        while values.shape[1] > 1:
            values = _move_on(values[:, 0::2], _tables_of_level(level)) ^ values[:, 1::2]
            level += 1
        joined[members] = values[:, 0]
    return joined


def _move_on(states: Words, tables: Words) -> Words:
    """The `states` behind the zeros that `tables` (four rows, one for each byte of a state) stand for."""
    a, b, c, d = (_look_up(tables[row], (states >> 8 * row).astype(np.uint8)) for row in range(4))
    a ^= b
    a ^= c
    a ^= d
    return a


def _look_up(table: Words, places: NDArray[Any]) -> Words:
    """`table[places]`, quicker; no place is beyond the table, which is as long as their type is wide."""
    return table.take(places, mode="clip")


@cache
def _slicing_tables() -> tuple[Words, Words, Words, Words]:
    """What two bytes come to, with 0, 2, 4 and 6 zeros behind them."""
    states = np.arange(1 << 16, dtype=np.uint32)
    tables = []
    for _ in range(4):
        states = _move_on(states, _two_zeros())
        tables.append(states)
    a, b, c, d = tables
    return a, b, c, d


@cache
def _tables_of_level(level: int) -> Words:
    """For `_move_on`: 64 zeros at level 0, and twice as many at each one above."""
    tables = _two_zeros() if level == 0 else _tables_of_level(level - 1)
    for _ in range(5 if level == 0 else 1):
        tables = _move_on(tables, tables)
    return tables


@cache
def _two_zeros() -> Words:
    """For `_move_on`: two zeros."""
    states: Words = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    one, polynomial = np.uint32(1), np.uint32(_POLYNOMIAL)
    for _ in range(16):
        states = (states >> one) ^ (states & one) * polynomial
    return states

"""CRC-32C of many ranges at once in numpy, for machines without the C module: Spark's executors.

A checksum is one long chain of steps, each of which depends on the one before. But a CRC is linear: the CRC of a range
is the exclusive or of the CRCs of its parts, each advanced by the number of bytes after it. So all ranges are cut into
lanes of 64 bytes, counted from their ends. All lanes are processed side by side, eight bytes at a time, by tables of
two bytes each ("slicing"). Then adjacent lanes are joined, pairs, pairs of pairs, until one value per range is left.
Zeros before a range change nothing, and the start value is the complement of its first four bytes.

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
# Bound of the bytes processed together: they are copied, and intermediate results take a few times as much memory.
_SLICE_LANES = 16 * 1024
_SLICE_BYTES = _SLICE_LANES * _LANE_BYTES


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Compute the checksum of `data`, continued from `crc`, the checksum of the bytes before it."""
    view = memoryview(data)
    for start in range(0, len(view), _SLICE_BYTES):
        block = view[start : start + _SLICE_BYTES]
        (crc,) = _of_slice(block, [0], [len(block)], crc)
    return crc


def crc32c_many(data: Buffer, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Compute the checksums of the ranges `data[start:end]`, which may overlap."""
    view = memoryview(data)
    results: list[int] = []
    first = lanes = 0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        lane_count = max(1, -(-(end - start) // _LANE_BYTES))
        if lanes + lane_count > _SLICE_LANES:
            results += _of_slice(view, starts[first:number], ends[first:number])
            first, lanes = number, 0
        if lane_count > _SLICE_LANES:
            results.append(crc32c(view[start:end]))
            first = number + 1
        else:
            lanes += lane_count
    return results + _of_slice(view, starts[first:], ends[first:])


def _of_slice(view: memoryview, starts: Sequence[int], ends: Sequence[int], crc: int = 0) -> list[int]:
    """Compute the checksums of a few ranges, each continued from `crc`."""
    if not starts:
        return []
    lengths = np.array(ends, np.int64) - np.array(starts, np.int64)
    counts = np.maximum(1, -(-lengths // _LANE_BYTES))
    range_ends = np.cumsum(counts) * _LANE_BYTES
    begins = range_ends - lengths
    copy = np.zeros(int(range_ends[-1]), np.uint8)
    into = memoryview(copy)  # type: ignore[arg-type]
    for start, end, to, to_end in zip(starts, ends, begins.tolist(), range_ends.tolist(), strict=True):
        into[to:to_end] = view[start:end]
    state = crc ^ _ALL
    for at in range(4):
        copy[begins[lengths > at] + at] ^= state >> 8 * at & 0xFF
    states = _join(_step_through(copy), counts)
    states ^= np.array([state >> 8 * min(length, 4) for length in range(5)], np.uint32)[np.minimum(lengths, 4)]
    checksums: list[int] = (states ^ np.uint32(_ALL)).tolist()
    return checksums


def _step_through(data: NDArray[np.uint8]) -> Words:
    """Compute the state of each lane alone, from zero."""
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
    """Join the lanes of each range, `counts` per range, to one value. Ranges of similar length are joined together."""
    range_ends = np.cumsum(counts)
    begins = range_ends - counts
    widths = 1 << np.ceil(np.log2(counts)).astype(np.int64)
    joined = np.zeros(len(counts), np.uint32)
    for width in np.unique(widths).tolist():
        members = np.flatnonzero(widths == width)
        places = range_ends[members, None] + np.arange(-width, 0)
        values = np.where(places >= begins[members, None], lanes[places], np.uint32(0))
        level = 0
        while values.shape[1] > 1:
            values = _advance(values[:, 0::2], _tables_of_level(level)) ^ values[:, 1::2]
            level += 1
        joined[members] = values[:, 0]
    return joined


def _advance(states: Words, tables: Words) -> Words:
    """Advance `states` by the zeros that `tables` stand for; it has four rows, one for each byte of a state."""
    a, b, c, d = (_look_up(tables[row], (states >> 8 * row).astype(np.uint8)) for row in range(4))
    a ^= b
    a ^= c
    a ^= d
    return a


def _look_up(table: Words, indices: NDArray[Any]) -> Words:
    """Return `table[indices]`, faster; the table covers the whole range of the indices' type."""
    return table.take(indices, mode="clip")


@cache
def _slicing_tables() -> tuple[Words, Words, Words, Words]:
    """Return the states after two bytes and 0, 2, 4 and 6 zeros."""
    states = np.arange(1 << 16, dtype=np.uint32)
    tables = []
    for _ in range(4):
        states = _advance(states, _two_zeros())
        tables.append(states)
    a, b, c, d = tables
    return a, b, c, d


@cache
def _tables_of_level(level: int) -> Words:
    """Return the tables of `_advance` for 64 zeros at level 0, and twice as many at each level above."""
    tables = _two_zeros() if level == 0 else _tables_of_level(level - 1)
    for _ in range(5 if level == 0 else 1):
        tables = _advance(tables, tables)
    return tables


@cache
def _two_zeros() -> Words:
    """Return the tables of `_advance` for two zeros."""
    states: Words = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    one, polynomial = np.uint32(1), np.uint32(_POLYNOMIAL)
    for _ in range(16):
        states = (states >> one) ^ (states & one) * polynomial
    return states

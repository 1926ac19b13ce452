"""Guesses where records begin, in many batches at once: quick, and to be proved by the caller.

A record says how long it is, so boundaries can only be followed one by one, and one step costs Python far more than
the bytes deserve. So every batch is cut into lanes of some records each. A lane's first boundary is guessed from what
a boundary looks like, all lanes walk at once (one numpy step for all), and where a lane runs into the beginning of the
next one the guess was right. A wrong guess costs time, never correctness: see `chain`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.records.varints import Ints, Octets

_RECORDS_PER_LANE = 16
_STEPS_AT_ONCE = 8
_FEW_LANES = 16
_SMALLEST_RECORD = 7
_FAR = 1 << 40
_ZERO, _ONE, _MORE = np.uint8(0), np.uint8(1), np.uint8(0x7F)


def _advances() -> Ints:
    """For the two bytes at a record's start, as a little-endian number, how far the next record is away.

    A length of three bytes or more (from 8 KiB on) is not for lanes, and leads far away.
    """
    low, high = np.arange(256, dtype=np.int64), np.arange(256, dtype=np.int64)[:, None]
    long = np.where(high < 0x80, 2 + (((low & 0x7F) | (high << 7)) >> 1), _FAR)
    return np.maximum(np.where(low < 0x80, 1 + (low >> 1), long), _SMALLEST_RECORD).reshape(-1)


_ADVANCES = _advances()


def guess_heads(data: Octets, starts: Ints, ends: Ints, counts: Ints) -> Ints:
    """Probably the places where the records of all batches begin, ascending. Batches ascend and do not overlap."""
    words: NDArray[np.uint16] = np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))
    last = len(words) - 1
    heads, untils = _plan_lanes(data, words, starts, ends, counts)
    np.minimum(untils, last, out=untils)
    blocks: list[Ints] = []
    while len(heads) > _FEW_LANES:
        block = np.empty((_STEPS_AT_ONCE + 1, len(heads)), np.int64)
        block[0] = heads
        for step in range(_STEPS_AT_ONCE):
            here, there = block[step], block[step + 1]
            np.add(here, _ADVANCES.take(words[here]), out=there)
            np.minimum(there, last, out=there)
        blocks.append(block[:-1][block[:-1] < untils])
        heads = block[-1]
        unfinished = heads < untils
        heads, untils = heads[unfinished], untils[unfinished]
    for head, until in zip(heads.tolist(), untils.tolist(), strict=True):
        blocks.append(_walk_alone(data, head, until))
    found = np.concatenate(blocks)
    found.sort()
    return found


def _walk_alone(data: Octets, head: int, until: int) -> Ints:
    heads = []
    while head < until:
        heads.append(head)
        head += int(_ADVANCES[int(data[head]) | int(data[head + 1]) << 8])
    return np.array(heads, np.int64)


def _plan_lanes(data: Octets, words: NDArray[np.uint16], starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Where each lane begins, and the place at which it must arrive: the next lane's beginning, or its batch's end."""
    lanes = np.maximum(counts // _RECORDS_PER_LANE, 1)
    batch = np.repeat(np.arange(len(lanes)), lanes)
    firsts = np.cumsum(lanes) - lanes
    number = np.arange(len(batch)) - firsts[batch]
    window = 2 * int((ends - starts).sum() // counts.sum())
    heads, plausible = _look_for_heads(data, words, starts[batch] + number * ((ends - starts) // lanes)[batch], window)
    plausible &= heads < ends[batch]
    heads[firsts] = starts
    plausible[firsts] = True
    heads, batch = heads[plausible], batch[plausible]
    untils = ends[batch]
    inside = batch[1:] == batch[:-1]
    untils[:-1][inside] = heads[1:][inside]
    return heads, untils


def _look_for_heads(data: Octets, words: NDArray[np.uint16], at: Ints, window: int) -> tuple[Ints, NDArray[np.bool_]]:
    """The first place behind each of `at` that looks like the beginning of a record, and whether it really does.

    The sign is three bytes: the last of the record before (0 for "no headers", or the first byte of a long length), a
    small non-zero one (the only or last byte of the length), and 0 (the attributes).
    """
    window = min(max(window, 64), 1024, len(data))
    at = np.minimum(at, len(data) - window)
    rows = np.ndarray((len(data) - window + 1, window), np.uint8, data, strides=(1, 1))[at]
    flat = rows.reshape(-1)
    sign = np.zeros(rows.shape, np.bool_)
    signs = sign.reshape(-1)[:-2]
    np.equal(flat[2:], _ZERO, out=signs)
    signs &= (flat[1:-1] - _ONE) < _MORE
    signs &= (flat[:-2] - _ONE) >= _MORE
    column = sign.argmax(axis=1)
    found = sign[np.arange(len(at)), column]
    heads = at + column
    heads += data.take(heads, mode="clip") < 0x80
    behind = heads + _ADVANCES.take(words[np.minimum(heads, len(words) - 1)])
    return heads, found & (data.take(behind + 1 + (data.take(behind, mode="clip") >= 0x80), mode="clip") == 0)

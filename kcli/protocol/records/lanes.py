"""Record boundaries in many batches at once, by walking side by side from guessed places.

A record says how long it is, so boundaries can only be followed one by one, and one step costs Python far more than
the bytes deserve. So every batch is cut into lanes of some records each. Where a lane begins is guessed from what a
boundary looks like, and all lanes take a step together. A lane that arrives exactly where the next one begins proves
that guess; a batch whose last lane arrives at its end is followed without a gap. A wrong guess costs time only.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kcli.protocol.records.batch import SMALLEST_RECORD_BYTES, Buffer
from kcli.protocol.records.varints import Ints, Octets

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Guessing costs by the lane, walking by the step: the more records, the longer the lanes that are the best of both.
_LANE_RECORDS, _LONG_LANE_RECORDS, _LONG_LANES_FROM = 16, 32, 32_768
_MOST_LANES = 8192
_MORE_STEPS = 4
_FEW_LANES = 24
_TRIES = 4
_NEVER = 1 << 40
_ZERO, _ONE, _MORE = np.uint8(0), np.uint8(1), np.uint8(0x7F)


@cache
def _advances() -> Ints:
    """For the two bytes at a record's start, as a little-endian number, how far the next record is away.

    What is no length leads nowhere, and so does one of three bytes (from 8 KiB on): that is not for lanes.
    """
    low, high = np.arange(256, dtype=np.int64), np.arange(256, dtype=np.int64)[:, None]
    long = np.where(high < 0x80, 2 + (((low & 0x7F) | (high << 7)) >> 1), _NEVER)
    steps = np.where(low < 0x80, 1 + (low >> 1), long)
    return np.where((low & 1 == 0) & (steps >= SMALLEST_RECORD_BYTES), steps, _NEVER).reshape(-1)


def follow_lanes(
    buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Where records begin, ascending, and which batches were followed without a gap from start to end.

    Batches ascend and do not overlap; what is returned of the others is of no use.
    """
    words: NDArray[np.uint16] = np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))
    last = len(words) - 1
    advances = _advances()
    heads, untils, batch = _plan_lanes(data, words, starts, ends, counts)
    whole = np.ones(len(starts), np.bool_)
    found: list[Ints] = []
    # Steps beyond the buffer stay on its last word, so lanes that have to arrive there cannot walk with the others.
    alone = untils >= last
    lone = list(zip(heads[alone].tolist(), untils[alone].tolist(), batch[alone].tolist(), strict=True))
    heads, untils, batch = heads[~alone], untils[~alone], batch[~alone]
    steps = min(_lane_records(int(counts.sum())), _LONG_LANE_RECORDS)
    while len(heads) > _FEW_LANES:
        block = np.empty((steps + 1, len(heads)), np.int64)
        block[0] = heads
        for step in range(steps):
            np.add(block[step], advances[words[block[step]]], out=block[step + 1])
            np.minimum(block[step + 1], last, out=block[step + 1])
        found.append(block[:-1][block[:-1] < untils])
        heads = block[-1]
        unfinished = heads < untils
        whole[batch[~(unfinished | (block == untils).any(axis=0))]] = False
        heads, untils, batch = heads[unfinished], untils[unfinished], batch[unfinished]
        steps = _MORE_STEPS
    lone += zip(heads.tolist(), untils.tolist(), batch.tolist(), strict=True)
    for head, until, owner in lone:
        walked, arrived = _walk_alone(buffer, head, until)
        found.append(np.array(walked, np.int64))
        whole[owner] &= arrived == until
    everything = np.concatenate(found)
    everything.sort()
    return everything, whole


def _lane_records(total: int) -> int:
    usual = _LANE_RECORDS if total < _LONG_LANES_FROM else _LONG_LANE_RECORDS
    return max(usual, total // _MOST_LANES)


def _walk_alone(buffer: Buffer, head: int, until: int) -> tuple[list[int], int]:
    walked: list[int] = []
    advances = memoryview(_advances())  # type: ignore[arg-type]
    while head < until - 1:
        walked.append(head)
        head += advances[buffer[head] | buffer[head + 1] << 8]
    return walked, head


def _plan_lanes(
    data: Octets, words: NDArray[np.uint16], starts: Ints, ends: Ints, counts: Ints
) -> tuple[Ints, Ints, Ints]:
    """Where each lane begins, where it must arrive (at the next one's beginning or its batch's end), its batch."""
    total = int(counts.sum())
    lanes = np.maximum(counts // _lane_records(total), 1)
    batch = np.repeat(np.arange(len(lanes)), lanes)
    firsts = np.cumsum(lanes) - lanes
    number = np.arange(len(batch)) - firsts[batch]
    guessed = np.flatnonzero(number)
    heads = starts[batch]
    plausible = np.ones(len(heads), np.bool_)
    if len(guessed):
        about = heads[guessed] + number[guessed] * ((ends - starts) // lanes)[batch[guessed]]
        window = 2 * int((ends - starts).sum()) // total
        heads[guessed], plausible[guessed] = _look_for_heads(data, words, about, ends[batch[guessed]], window)
        heads, batch = heads[plausible], batch[plausible]
    untils = ends[batch]
    inside = batch[1:] == batch[:-1]
    np.copyto(untils[:-1], heads[1:], where=inside)
    return heads, untils, batch


def _look_for_heads(
    data: Octets, words: NDArray[np.uint16], at: Ints, ends: Ints, window: int
) -> tuple[Ints, NDArray[np.bool_]]:
    """For each of `at` a place within `window` bytes that looks like a record's beginning, and whether there is one.

    The sign is three bytes: the last of the record before (0 for "no headers", or the first byte of a long length), a
    small non-zero one (the only or last byte of the length), and 0 (the attributes). And another record must follow.
    """
    window = min(max(window, 64), 1024, len(data))
    np.minimum(at, len(data) - window, out=at)
    windows: Octets = np.ndarray((len(data) - window + 1, window), np.uint8, data, strides=(1, 1))
    rows = windows[at]
    sign = _signs(rows)
    heads = at.copy()
    found = np.zeros(len(at), np.bool_)
    missing: Ints = np.arange(len(at))
    for _ in range(_TRIES):
        column: Ints = sign.argmax(axis=1)
        here = np.flatnonzero(sign[np.arange(len(column)), column])
        if not len(here):
            break
        missing, column, sign = missing[here], column[here], sign[here]
        places, good = _plausible(data, words, at[missing] + column, ends[missing])
        heads[missing] = places
        found[missing] = good
        again = ~good
        missing, sign = missing[again], sign[again]
        sign[np.arange(len(missing)), column[again]] = False
    return heads, found


def _signs(rows: Octets) -> NDArray[np.bool_]:
    flat = rows.reshape(-1)
    signs = np.zeros(rows.shape, np.bool_)
    inner = signs.reshape(-1)[:-2]
    np.equal(flat[2:], _ZERO, out=inner)
    flat -= _ONE
    small = flat < _MORE
    inner &= small[1:-1]
    np.logical_not(small, out=small)
    inner &= small[:-2]
    return signs


def _plausible(data: Octets, words: NDArray[np.uint16], heads: Ints, ends: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The sign is at `heads`: where the record begins then, and whether the same sign or the end follows on it."""
    heads = heads + (data.take(heads, mode="clip") < 0x80)
    behind = heads + _advances()[words[np.minimum(heads, len(words) - 1)]]
    before = behind - (data.take(behind, mode="clip") < 0x80)
    good = data.take(before + 2, mode="clip") == 0
    good &= (data.take(before + 1, mode="clip") - _ONE) < _MORE
    good &= (data.take(before, mode="clip") - _ONE) >= _MORE
    good &= behind < ends
    good |= behind == ends
    return heads, good

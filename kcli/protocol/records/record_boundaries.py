"""The boundaries of records in many batches: the one part of a batch that cannot be read side by side.

A record declares its own length, so its end is known only after its start, and one step in Python costs far more than
reading the bytes. So every batch is cut into lanes of several records each. The start of a lane is guessed from the
typical bytes of a boundary, and all lanes take each step together. A lane that arrives exactly at the start of the next
one proves that guess. If the last lane arrives at the batch's end, every record of the batch was found. A wrong guess
costs only time: such a batch is walked record by record, as are few records and large ones.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import SMALLEST_RECORD_BYTES, Buffer
from kcli.protocol.records.varints import Ints, Octets, read_varint_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Lanes pay off from this number of records, and up to this mean size.
_MIN_LANE_TOTAL = 256
_MAX_LANE_RECORD_BYTES = 4096

# Guessing costs per lane, walking per step: with more records, longer lanes are the best compromise.
_LANE_RECORDS, _LONG_LANE_RECORDS, _LONG_LANES_FROM = 16, 32, 32_768
_MAX_LANES = 8192
_EXTRA_STEPS = 4
_FEW_LANES = 24
_MAX_GUESSES = 4
_NEVER = 1 << 40
# The size of the longest record whose length is one byte, that byte included.
_LONGEST_WITH_ONE_BYTE = 1 + 0x7F // 2
_ZERO, _ONE, _CONTINUES = np.uint8(0), np.uint8(1), np.uint8(0x7F)


class Boundaries(NamedTuple):
    """Start and end of each record's body, batch after batch.

    `counts` are the records of each batch: 0 for a damaged batch, whose reason is in `failures` by its index.
    """

    body_starts: Ints
    body_ends: Ints
    counts: Ints
    failures: dict[int, str]


def find_boundaries(buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints) -> Boundaries:
    """Find the `counts[i]` records that must fill `buffer[starts[i]:ends[i]]` exactly, for every batch i.

    Batches ascend in the buffer and do not overlap; `data` is `buffer` as an array.
    """
    total = int(counts.sum())
    if total < _MIN_LANE_TOTAL or int((ends - starts).sum()) > total * _MAX_LANE_RECORD_BYTES:
        return _walk_batches(buffer, data, starts, ends, counts)
    heads, complete = _follow_lanes(buffer, data, starts, ends, counts)
    lows, highs = np.searchsorted(heads, starts), np.searchsorted(heads, ends)
    complete &= highs - lows == counts
    body_ends = _record_ends(heads, highs[complete], ends[complete])
    body_starts = heads + 1
    body_starts += body_ends - heads > _LONGEST_WITH_ONE_BYTE
    if complete.all():
        return Boundaries(body_starts, body_ends, counts, {})
    incomplete = ~complete
    walked = _walk_batches(buffer, data, starts[incomplete], ends[incomplete], counts[incomplete])
    return _join_boundaries(complete, lows, highs, body_starts, body_ends, walked)


def _record_ends(heads: Ints, edges: Ints, batch_ends: Ints) -> Ints:
    """A record ends at the start of the next one; the last records of batches, before `edges`, end with the batch."""
    ends = np.empty_like(heads)
    ends[:-1] = heads[1:]
    ends[edges - 1] = batch_ends
    return ends


def _join_boundaries(
    complete: NDArray[np.bool_], lows: Ints, highs: Ints, body_starts: Ints, body_ends: Ints, walked: Boundaries
) -> Boundaries:
    """Join the batches found by lanes, from `lows[i]` to `highs[i]`, and the walked ones, in the order of batches."""
    indices = np.flatnonzero(~complete)
    counts = highs - lows
    counts[indices] = walked.counts
    edges = np.concatenate(([0], np.cumsum(walked.counts))).tolist()
    parts: list[tuple[Ints, Ints]] = []
    walked_index = 0
    for is_complete, low, high in zip(complete.tolist(), lows.tolist(), highs.tolist(), strict=True):
        if is_complete:
            parts.append((body_starts[low:high], body_ends[low:high]))
        else:
            part = slice(edges[walked_index], edges[walked_index + 1])
            parts.append((walked.body_starts[part], walked.body_ends[part]))
            walked_index += 1
    failures = {int(indices[index]): problem for index, problem in walked.failures.items()}
    merged_starts, merged_ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Boundaries(merged_starts, merged_ends, counts, failures)


def divide_batch(header: memoryview, payload: memoryview, max_records: int) -> bytearray:
    """Return the uncompressed records of a large v2 batch as several batches of at most `max_records` records.

    `header` begins with the header of the batch. All have its base offset; the last one has its last offset, and the
    others end with their last record. CorruptRecords if its records do not fill `payload` exactly.
    """
    count = batch.read_batch_info(header).record_count
    divided = bytearray()
    at = 0
    try:
        for first in range(0, count, max_records):
            start, last_at = at, at
            part_count = min(max_records, count - first)
            for _ in range(part_count):
                last_at = at
                length = payload[at]
                if length < 0x80 and not length & 1:
                    at += 1 + (length >> 1)
                else:
                    size, at = read_varint(payload, at)
                    at += max(size, 0)
            is_last = first + part_count == count
            delta = None if is_last else _offset_delta(payload, last_at)
            divided += _with_records(header, payload[start:at], part_count, delta)
    except (IndexError, ProtocolError):
        raise CorruptRecords(f"its {count} records do not fit in {len(payload)} bytes") from None
    if at != len(payload):
        raise CorruptRecords(f"{len(payload) - at} bytes follow the last of {count} records")
    return divided


def _with_records(header: Buffer, payload: Buffer, count: int, last_offset_delta: int | None) -> bytearray:
    """Return a batch with the header of another one and `count` uncompressed records. None: its last offset, too."""
    from kcli.protocol.records.checksum import crc32c

    base_offset, _size, epoch, magic, _crc, attributes, last_delta, *others, _count = batch.HEADER.unpack_from(header)
    last_delta = last_delta if last_offset_delta is None else last_offset_delta
    size = batch.HEADER_BYTES - batch.PREFIX_BYTES + len(payload)
    made = bytearray(batch.HEADER_BYTES + len(payload))
    batch.HEADER.pack_into(
        made, 0, base_offset, size, epoch, magic, 0, attributes & ~batch.CODEC_MASK, last_delta, *others, count
    )
    made[batch.HEADER_BYTES :] = payload
    struct.pack_into(">I", made, batch.CRC_AT, crc32c(memoryview(made)[batch.CRC_FROM :]))
    return made


def _offset_delta(payload: memoryview, at: int) -> int:
    _, at = read_varint(payload, at)
    _, at = read_varlong(payload, at + 1)
    return read_varint(payload, at)[0]


# --- record by record


def _walk_batches(buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints) -> Boundaries:
    heads: list[int] = []
    failures: dict[int, str] = {}
    valid_counts = counts.copy()
    for index, (start, end, count) in enumerate(zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        batch_heads = _walk_batch(buffer, start, end, count)
        if batch_heads is None:
            failures[index] = _explain_lengths(buffer, start, end, count)
            valid_counts[index] = 0
        else:
            heads += batch_heads
    head_column = np.array(heads, np.int64)
    _, body_starts, _ = read_varint_column(data, head_column)
    filled = valid_counts > 0
    return Boundaries(
        body_starts, _record_ends(head_column, np.cumsum(valid_counts)[filled], ends[filled]), valid_counts, failures
    )


def _walk_batch(buffer: Buffer, at: int, end: int, count: int) -> list[int] | None:
    """Return the start of each record; None if the records do not fill the batch exactly."""
    heads: list[int] = []
    add_head = heads.append
    try:
        for _ in range(count):
            add_head(at)
            length = buffer[at]
            if length < 0x80:
                at += 1 + (length >> 1)
            elif buffer[at + 1] < 0x80:
                length += (buffer[at + 1] << 7) - 0x80
                at += 2 + (length >> 1)
            else:
                size, at = read_varint(buffer, at)
                at += size
                length = size < 0
            if length & 1:
                return None
    except (IndexError, ProtocolError):
        return None
    return heads if at == end else None


def _explain_lengths(buffer: Buffer, at: int, end: int, count: int) -> str:
    """Return the reason why the records of a batch do not fill it."""
    view = memoryview(buffer)[:end]
    try:
        for index in range(count):
            size, at = read_varint(view, at)
            if not 0 < size <= end - at:
                return f"the length of record {index} of {count} is {size}, but only {end - at} bytes are left"
            at += size
    except ProtocolError as problem:
        return problem.message
    return f"{end - at} bytes follow the last of {count} records"


# --- in lanes


def _follow_lanes(
    buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the starts of records, ascending, and a mask of the batches that were followed from start to end.

    The starts in other batches are not usable.
    """
    heads, targets, batch = _plan_lanes(data, starts, ends, counts)
    complete = np.ones(len(starts), np.bool_)
    parts: list[Ints] = []
    steps = min(_lane_records(int(counts.sum())), _LONG_LANE_RECORDS)
    while len(heads) > _FEW_LANES:
        block = np.empty((steps + 1, len(heads)), np.int64)
        block[0] = heads
        for step in range(steps):
            np.add(block[step], _distances(data, block[step]), out=block[step + 1])
        parts.append(block[:-1][block[:-1] < targets])
        heads = block[-1]
        unfinished = heads < targets
        complete[batch[~(unfinished | (block == targets).any(axis=0))]] = False
        heads, targets, batch = heads[unfinished], targets[unfinished], batch[unfinished]
        steps = _EXTRA_STEPS
    for head, target, owner in zip(heads.tolist(), targets.tolist(), batch.tolist(), strict=True):
        lane_heads, arrived_at = _walk_lane(buffer, head, target)
        parts.append(np.array(lane_heads, np.int64))
        complete[owner] &= arrived_at == target
    all_heads = np.concatenate(parts)
    all_heads.sort()
    return all_heads, complete


def _distances(data: Octets, heads: Ints) -> Ints:
    """Return the distance from each record's start to the next one; a start outside `data` leads anywhere after it.

    Two reads of single bytes take half the time of one read of two bytes, which are not aligned.
    """
    first = data.take(heads, mode="clip")
    both_bytes: Ints = data.take(heads + 1, mode="clip").astype(np.int64)
    both_bytes <<= 8
    both_bytes |= first
    return _advances().take(both_bytes, mode="clip")


@cache
def _advances() -> Ints:
    """Map the two bytes at a record's start, as a little-endian number, to the distance of the next record.

    Invalid lengths lead nowhere, as do lengths of three bytes (from 8 KiB on), which are too long for lanes, and of two
    bytes where one suffices: so the size of a record shows how many bytes its length has.
    """
    low, high = np.arange(256, dtype=np.int64), np.arange(256, dtype=np.int64)[:, None]
    two_bytes = np.where((high > 0) & (high < 0x80), 2 + (((low & 0x7F) | (high << 7)) >> 1), _NEVER)
    steps = np.where(low < 0x80, 1 + (low >> 1), two_bytes)
    return np.where((low & 1 == 0) & (steps >= SMALLEST_RECORD_BYTES), steps, _NEVER).reshape(-1)


def _walk_lane(buffer: Buffer, head: int, target: int) -> tuple[list[int], int]:
    heads: list[int] = []
    advances = memoryview(_advances())  # type: ignore[arg-type]
    while head < target - 1:
        heads.append(head)
        head += advances[buffer[head] | buffer[head + 1] << 8]
    return heads, head


def _lane_records(total: int) -> int:
    usual = _LANE_RECORDS if total < _LONG_LANES_FROM else _LONG_LANE_RECORDS
    return max(usual, total // _MAX_LANES)


def _plan_lanes(data: Octets, starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Return start, target (start of the next lane or end of the batch) and batch of each lane."""
    total = int(counts.sum())
    lanes = np.maximum(counts // _lane_records(total), 1)
    batch = np.repeat(np.arange(len(lanes)), lanes)
    firsts = np.cumsum(lanes) - lanes
    number = np.arange(len(batch)) - firsts[batch]
    guessed = np.flatnonzero(number)
    heads = starts[batch]
    plausible = np.ones(len(heads), np.bool_)
    if len(guessed):
        estimates = heads[guessed] + number[guessed] * ((ends - starts) // lanes)[batch[guessed]]
        window = 2 * int((ends - starts).sum()) // total
        heads[guessed], plausible[guessed] = _guess_heads(data, estimates, ends[batch[guessed]], window)
        heads, batch = heads[plausible], batch[plausible]
    targets = ends[batch]
    same_batch = batch[1:] == batch[:-1]
    np.copyto(targets[:-1], heads[1:], where=same_batch)
    return heads, targets, batch


def _guess_heads(data: Octets, at: Ints, ends: Ints, window: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Find a plausible record start within `window` bytes of each of `at`, and a mask of where there is one.

    The sign is three bytes: the last of the record before (0 for "no headers", or the first byte of a long length), a
    small non-zero one (the only or last byte of the length), and 0 (the attributes). And another record must follow.
    """
    window = min(max(window, 64), 1024, len(data))
    np.minimum(at, len(data) - window, out=at)
    windows: Octets = np.ndarray((len(data) - window + 1, window), np.uint8, data, strides=(1, 1))
    rows = windows[at]
    sign = _signs(rows)
    heads = at.copy()
    plausible = np.zeros(len(at), np.bool_)
    missing: Ints = np.arange(len(at))
    for _ in range(_MAX_GUESSES):
        column: Ints = sign.argmax(axis=1)
        hit_rows = np.flatnonzero(sign[np.arange(len(column)), column])
        if not len(hit_rows):
            break
        missing, column, sign = missing[hit_rows], column[hit_rows], sign[hit_rows]
        candidates, confirmed = _confirm(data, at[missing] + column, ends[missing])
        heads[missing] = candidates
        plausible[missing] = confirmed
        rejected = ~confirmed
        missing, sign = missing[rejected], sign[rejected]
        sign[np.arange(len(missing)), column[rejected]] = False
    return heads, plausible


def _signs(rows: Octets) -> NDArray[np.bool_]:
    flat = rows.reshape(-1)
    signs = np.zeros(rows.shape, np.bool_)
    inner = signs.reshape(-1)[:-2]
    np.equal(flat[2:], _ZERO, out=inner)
    flat -= _ONE
    small = flat < _CONTINUES
    inner &= small[1:-1]
    np.logical_not(small, out=small)
    inner &= small[:-2]
    return signs


def _confirm(data: Octets, heads: Ints, ends: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the record starts for signs at `heads`, and a mask of those followed by another sign or by the end."""
    heads = heads + (data.take(heads, mode="clip") < 0x80)
    next_heads = heads + _distances(data, heads)
    signs_at = next_heads - (data.take(next_heads, mode="clip") < 0x80)
    confirmed = data.take(signs_at + 2, mode="clip") == 0
    confirmed &= (data.take(signs_at + 1, mode="clip") - _ONE) < _CONTINUES
    confirmed &= (data.take(signs_at, mode="clip") - _ONE) >= _CONTINUES
    confirmed &= next_heads < ends
    confirmed |= next_heads == ends
    return heads, confirmed

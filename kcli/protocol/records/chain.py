"""Record lengths, followed from record to record: the one part of a batch that cannot be read side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.lanes import guess_heads
from kcli.protocol.records.varints import Ints, Octets, read_varint, read_varint_column

_WORTH_GUESSING_RECORDS = 256
_WORTH_GUESSING_BYTES = 4096


class Chain(NamedTuple):
    """Where each record's body lies, batch after batch; a failed batch has count 0 and its reason in `failures`."""

    body_starts: Ints
    body_ends: Ints
    counts: Ints
    failures: dict[int, str]


def chain_records(buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints) -> Chain:
    """Bodies of the `counts[i]` records that must fill `buffer[starts[i]:ends[i]]` exactly, for every batch i.

    Batches ascend in the buffer and do not overlap. The boundaries are guessed (see `lanes`), then proved: the first
    record begins where its batch does, each next one where the one before ends, and the last ends with the batch.
    Batches without such a proof are walked record by record.
    """
    total = int(counts.sum())
    if total < _WORTH_GUESSING_RECORDS or int((ends - starts).sum()) > total * _WORTH_GUESSING_BYTES:
        return _walk(buffer, starts, ends, counts)
    heads = guess_heads(data, starts, ends, counts)
    lengths, body_starts, _ = read_varint_column(data, heads)
    body_ends = body_starts + lengths
    if _proved(heads, body_ends, starts, ends, counts):
        return Chain(body_starts, body_ends, counts, {})
    return _prove_each(buffer, heads, body_starts, body_ends, starts, ends, counts)


def _proved(heads: Ints, behind: Ints, starts: Ints, ends: Ints, counts: Ints) -> bool:
    """Whether all batches are right at once; none is empty."""
    edges = np.cumsum(counts)
    if len(heads) != edges[-1]:
        return False
    expected = np.empty_like(heads)
    expected[:-1] = heads[1:]
    expected[edges - 1] = ends
    return bool((behind == expected).all() and (heads[edges - counts] == starts).all())


def _prove_each(
    buffer: Buffer, heads: Ints, body_starts: Ints, body_ends: Ints, starts: Ints, ends: Ints, counts: Ints
) -> Chain:
    lows, highs = np.searchsorted(heads, starts).tolist(), np.searchsorted(heads, ends).tolist()
    proved = np.zeros(len(starts), np.bool_)
    for index, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high - low == counts[index]:
            one = slice(index, index + 1)
            proved[index] = _proved(heads[low:high], body_ends[low:high], starts[one], ends[one], counts[one])
    walked = _walk(buffer, starts[~proved], ends[~proved], counts[~proved])
    return _merge(proved, lows, highs, body_starts, body_ends, walked)


def _merge(
    proved: NDArray[np.bool_], lows: list[int], highs: list[int], body_starts: Ints, body_ends: Ints, walked: Chain
) -> Chain:
    places = np.flatnonzero(~proved)
    counts = np.array(highs, np.int64) - np.array(lows, np.int64)
    counts[places] = walked.counts
    edges = np.concatenate(([0], np.cumsum(walked.counts))).tolist()
    parts: list[tuple[Ints, Ints]] = []
    seen = 0
    for index, good in enumerate(proved.tolist()):
        if good:
            part = slice(lows[index], highs[index])
            parts.append((body_starts[part], body_ends[part]))
        else:
            part = slice(edges[seen], edges[seen + 1])
            parts.append((walked.body_starts[part], walked.body_ends[part]))
            seen += 1
    failures = {int(places[which]): problem for which, problem in walked.failures.items()}
    merged_starts, merged_ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Chain(merged_starts, merged_ends, counts, failures)


def _walk(buffer: Buffer, starts: Ints, ends: Ints, counts: Ints) -> Chain:
    """Record by record, with the reason where that fails."""
    bodies: list[int] = []
    behind: list[int] = []
    failures: dict[int, str] = {}
    kept = counts.copy()
    for index, (start, end, count) in enumerate(zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        before = len(bodies)
        try:
            _walk_batch(buffer, start, end, count, bodies, behind)
        except CorruptRecords as problem:
            failures[index] = problem.message
            kept[index] = 0
            del bodies[before:], behind[before:]
    return Chain(np.array(bodies, np.int64), np.array(behind, np.int64), kept, failures)


def _walk_batch(buffer: Buffer, at: int, end: int, count: int, bodies: list[int], behind: list[int]) -> None:
    for index in range(count):
        # The length is nearly always a varint of two bytes, or of one.
        length = buffer[at] if at < end else 0xFF
        if length >= 0x80 and at + 1 < end and buffer[at + 1] < 0x80:
            length += (buffer[at + 1] << 7) - 0x80
            at += 2
        elif length < 0x80:
            at += 1
        else:
            length, at = read_varint(buffer, at, end)
            length <<= 1
        if length & 1 or at + (length >> 1) > end or length <= 0:
            raise CorruptRecords(f"record {index} of {count} claims {length >> 1} bytes of {end - at}")
        bodies.append(at)
        at += length >> 1
        behind.append(at)
    if at != end:
        raise CorruptRecords(f"{end - at} bytes are left over behind the last of {count} records")

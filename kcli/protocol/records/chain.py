"""Record lengths, followed from record to record: the one part of a batch that cannot be read side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.lanes import follow_lanes
from kcli.protocol.records.varints import Ints, Octets, read_varint, read_varint_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    Batches ascend in the buffer and do not overlap. Where many small records make it worth while they are followed in
    lanes; batches for which that fails are walked record by record, and so are few records and large ones.
    """
    total = int(counts.sum())
    if total < _WORTH_GUESSING_RECORDS or int((ends - starts).sum()) > total * _WORTH_GUESSING_BYTES:
        return _walk(buffer, data, starts, ends, counts)
    heads, followed = follow_lanes(buffer, data, starts, ends, counts)
    lows, highs = np.searchsorted(heads, starts), np.searchsorted(heads, ends)
    followed &= highs - lows == counts
    body_starts = heads + 1
    body_starts += data.take(heads) >= 0x80
    body_ends = _behind(heads, highs[followed], ends[followed])
    if followed.all():
        return Chain(body_starts, body_ends, counts, {})
    walked = _walk(buffer, data, starts[~followed], ends[~followed], counts[~followed])
    return _merge(followed, lows, highs, body_starts, body_ends, walked)


def _behind(heads: Ints, edges: Ints, ends: Ints) -> Ints:
    """A record ends where the next one begins; the last ones of batches, before `edges`, where those do."""
    behind = np.empty_like(heads)
    behind[:-1] = heads[1:]
    behind[edges - 1] = ends
    return behind


def _merge(
    followed: NDArray[np.bool_], lows: Ints, highs: Ints, body_starts: Ints, body_ends: Ints, walked: Chain
) -> Chain:
    """The batches that were followed, from `lows[i]` to `highs[i]`, and the walked ones in their places."""
    places = np.flatnonzero(~followed)
    counts = highs - lows
    counts[places] = walked.counts
    edges = np.concatenate(([0], np.cumsum(walked.counts))).tolist()
    parts: list[tuple[Ints, Ints]] = []
    seen = 0
    for good, low, high in zip(followed.tolist(), lows.tolist(), highs.tolist(), strict=True):
        if good:
            parts.append((body_starts[low:high], body_ends[low:high]))
        else:
            part = slice(edges[seen], edges[seen + 1])
            parts.append((walked.body_starts[part], walked.body_ends[part]))
            seen += 1
    failures = {int(places[which]): problem for which, problem in walked.failures.items()}
    merged_starts, merged_ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Chain(merged_starts, merged_ends, counts, failures)


def _walk(buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints) -> Chain:
    """Record by record, with the reason where that fails."""
    found: list[int] = []
    failures: dict[int, str] = {}
    kept = counts.copy()
    for index, (start, end, count) in enumerate(zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        heads = _walk_batch(buffer, start, end, count)
        if heads is None:
            failures[index] = _explain(buffer, start, end, count)
            kept[index] = 0
        else:
            found += heads
    heads_found = np.array(found, np.int64)
    _, body_starts, _ = read_varint_column(data, heads_found)
    full = kept > 0
    return Chain(body_starts, _behind(heads_found, np.cumsum(kept)[full], ends[full]), kept, failures)


def _walk_batch(buffer: Buffer, at: int, end: int, count: int) -> list[int] | None:
    """Where the records begin; None if they do not fill the batch exactly."""
    heads: list[int] = []
    found = heads.append
    try:
        for _ in range(count):
            found(at)
            length = buffer[at]
            if length < 0x80:
                at += 1 + (length >> 1)
            elif buffer[at + 1] < 0x80:
                length += (buffer[at + 1] << 7) - 0x80
                at += 2 + (length >> 1)
            else:
                size, at = read_varint(buffer, at, end)
                at += size
                length = size < 0
            if length & 1:
                return None
    except (IndexError, CorruptRecords):
        return None
    return heads if at == end else None


def _explain(buffer: Buffer, at: int, end: int, count: int) -> str:
    """What is wrong with the lengths of a batch."""
    try:
        for index in range(count):
            size, at = read_varint(buffer, at, end)
            if not 0 < size <= end - at:
                return f"record {index} of {count} claims {size} bytes of {end - at}"
            at += size
    except CorruptRecords as problem:
        return problem.message
    return f"{end - at} bytes are left over behind the last of {count} records"

"""The fields of many v2 records at once: one numpy pass per field over all batches of a fetch response."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.headers import header_ends, skip_headers
from kcli.protocol.records.varints import Ints, Octets, read_varint, read_varint_column


class Fields(NamedTuple):
    """One entry per record; `bad` are the indices of those that do not hold together (`explain` says why)."""

    timestamp_deltas: Ints
    offset_deltas: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    header_starts: Ints
    header_counts: Ints
    bad: Ints


def read_fields(buffer: Buffer, data: Octets, starts: Ints, ends: Ints) -> Fields:
    """Read the records whose bodies are `buffer[starts[i]:ends[i]]`; `data` is `buffer` as an array.

    Nothing is checked on the way: reading outside of `data` does no harm and positions only grow, so a record whose
    lengths are possible holds together exactly when it ends where it should.
    """
    suspect = np.zeros(len(starts), np.bool_)

    def varints(at: Ints, longest: int = 5) -> tuple[Ints, Ints]:
        values, behind, too_long = read_varint_column(data, at, longest)
        if too_long is not None:
            suspect[too_long] = True
        return values, behind

    timestamp_deltas, at = varints(starts + 1, 10)
    offset_deltas, at = varints(at)
    key_lengths, key_starts = varints(at)
    value_lengths, value_starts = varints(_behind(key_starts, key_lengths))
    header_counts, header_starts = varints(_behind(value_starts, value_lengths))
    for lengths in (key_lengths, value_lengths):
        if len(lengths) and lengths.min() < -1:
            suspect |= lengths < -1
    if header_counts.any():
        suspect |= header_ends(buffer, data, header_starts, header_counts, ends) != ends
    else:
        suspect |= header_starts != ends
        header_starts, header_counts = ends, np.broadcast_to(np.int64(0), len(ends))
    return Fields(
        timestamp_deltas, offset_deltas, key_starts, key_lengths, value_starts, value_lengths,
        header_starts, header_counts, np.flatnonzero(suspect),
    )  # fmt: skip


def _behind(starts: Ints, lengths: Ints) -> Ints:
    """Where the spans end; null has no extent."""
    if len(lengths) and lengths.min() < 0:
        lengths = np.maximum(lengths, 0)
    return starts + lengths


def explain(buffer: Buffer, start: int, end: int) -> str:
    """What is wrong with the record `buffer[start:end]`, read slowly and carefully."""
    try:
        _, at = read_varint(buffer, start + 1, end, 10)
        _, at = read_varint(buffer, at, end)
        at = _skip_span(buffer, at, end, "key")
        at = _skip_span(buffer, at, end, "value")
        count, at = read_varint(buffer, at, end)
        skip_headers(buffer, at, end, count)
    except CorruptRecords as problem:
        return problem.message
    return "its offset does not follow the one before, or leaves the batch"


def _skip_span(buffer: Buffer, at: int, end: int, what: str) -> int:
    length, at = read_varint(buffer, at, end)
    if not -1 <= length <= end - at:
        raise CorruptRecords(f"the {what} claims {length} bytes of {end - at}")
    return at + max(length, 0)

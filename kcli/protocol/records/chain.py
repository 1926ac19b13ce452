"""Record lengths, followed from record to record: the one part of a batch that cannot be read side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records.columns import Buffer, Ints
from kcli.protocol.records.varints import read_varint


class Chain(NamedTuple):
    """Where each record's body lies, batch after batch; a failed batch has count 0 and its reason in `failures`."""

    body_starts: Ints
    body_ends: Ints
    counts: Ints
    failures: dict[int, str]


def chain_records(buffer: Buffer, starts: Ints, ends: Ints, counts: Ints) -> Chain:
    """Bodies of the `counts[i]` records that must fill `buffer[starts[i]:ends[i]]` exactly, for every batch i."""
    body_starts: list[int] = []
    body_ends: list[int] = []
    failures: dict[int, str] = {}
    for batch, (start, end, count) in enumerate(zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        try:
            ones, twos = _follow(buffer, start, end, count)
        except CorruptRecords as problem:
            failures[batch] = problem.message
            continue
        body_starts += ones
        body_ends += twos
    kept = counts.copy()
    kept[list(failures)] = 0
    return Chain(np.array(body_starts, np.int64), np.array(body_ends, np.int64), kept, failures)


def _follow(buffer: Buffer, at: int, end: int, count: int) -> tuple[list[int], list[int]]:
    body_starts: list[int] = []
    body_ends: list[int] = []
    for index in range(count):
        length, at = read_varint(buffer, at, end)
        if not 0 <= length <= end - at:
            raise CorruptRecords(f"record {index} of {count} claims {length} bytes of {end - at}")
        body_starts.append(at)
        at += length
        body_ends.append(at)
    if at != end:
        raise CorruptRecords(f"{end - at} bytes are left over behind the last of {count} records")
    return body_starts, body_ends

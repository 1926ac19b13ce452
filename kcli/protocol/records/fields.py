"""The fields of many records of format v2 at once: one numpy pass per field over all batches of a fetch response."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecords
from kcli.protocol.records.columns import Buffer, Ints, decode_headers
from kcli.protocol.records.varints import read_varint_column


class Fields(NamedTuple):
    """One entry per record; `problems` maps the index of a bad record to what is wrong with it."""

    timestamp_deltas: Ints
    offset_deltas: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    header_starts: Ints
    header_counts: Ints
    problems: dict[int, str]


def read_fields(buffer: Buffer, data: NDArray[np.uint8], body_starts: Ints, body_ends: Ints) -> Fields:
    """Read every record that lies in `body_starts[i]` to `body_ends[i]`; `data` is `buffer` as an array."""
    bad: dict[int, str] = {}
    timestamp_deltas, at = _varints(data, body_starts + 1, bad, "the timestamp delta", longest=10)
    offset_deltas, at = _varints(data, at, bad, "the offset delta")
    key_lengths, key_starts = _varints(data, at, bad, "the key length")
    at = _behind_span(key_starts, key_lengths, body_ends, bad, "key")
    value_lengths, value_starts = _varints(data, at, bad, "the value length")
    at = _behind_span(value_starts, value_lengths, body_ends, bad, "value")
    header_counts, header_starts = _varints(data, at, bad, "the header count")
    _check_headers(buffer, header_starts, header_counts, body_ends, bad)
    return Fields(
        timestamp_deltas, offset_deltas, key_starts, key_lengths, value_starts, value_lengths,
        header_starts, header_counts, bad,
    )  # fmt: skip


def _varints(data: NDArray[np.uint8], at: Ints, bad: dict[int, str], what: str, longest: int = 5) -> tuple[Ints, Ints]:
    values, behind, too_long = read_varint_column(data, at, longest)
    if too_long is not None:
        _note(bad, too_long, f"{what} is a varint of more than {longest} bytes")
    return values, behind


def _behind_span(starts: Ints, lengths: Ints, ends: Ints, bad: dict[int, str], what: str) -> Ints:
    """Position behind each span; one that leaves its record is noted, and replaced by something harmless."""
    present = np.maximum(lengths, 0)
    behind = starts + present
    wrong = (behind > ends) | (lengths < -1)
    if wrong.any():
        _note(bad, wrong, f"the {what} does not fit into its record")
        behind[wrong] = ends[wrong]
    return behind


def _check_headers(buffer: Buffer, starts: Ints, counts: Ints, ends: Ints, bad: dict[int, str]) -> None:
    wrong = np.where(counts == 0, starts != ends, (counts < 0) | (counts > (ends - starts) >> 1))
    if wrong.any():
        _note(bad, wrong, "the headers do not fill the rest of the record")
    for index in np.flatnonzero((counts > 0) & ~wrong).tolist():
        try:
            decode_headers(buffer, int(starts[index]), int(ends[index]), int(counts[index]))
        except CorruptRecords as problem:
            bad.setdefault(index, problem.message)


def _note(bad: dict[int, str], wrong: NDArray[np.bool_], problem: str) -> None:
    for index in np.flatnonzero(wrong).tolist():
        bad.setdefault(index, problem)

"""Record headers: read when somebody asks for them, but checked beforehand, for many records at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.varints import Ints, Octets, read_varint, read_varint_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW = 16
_NOWHERE = -1


def read_headers(buffer: Buffer, start: int, end: int, count: int) -> list[tuple[str, bytes | None]]:
    """The `count` headers that fill `buffer[start:end]` exactly; `CorruptRecords` when they do not.

    Bad UTF-8 in a name is replaced, as Java's consumer does.
    """
    headers: list[tuple[str, bytes | None]] = []
    at = start
    for _ in range(count):
        name_at, name_end, value_at, at = _next_header(buffer, at, end)
        name = bytes(buffer[name_at:name_end]).decode("utf-8", "replace")
        headers.append((name, None if value_at is None else bytes(buffer[value_at:at])))
    if at != end:
        raise CorruptRecords(f"{end - at} bytes are left over behind the last header")
    return headers


def skip_headers(buffer: Buffer, start: int, end: int, count: int) -> None:
    """Check that `count` headers fill `buffer[start:end]` exactly; `CorruptRecords` says what is wrong if not."""
    if not 0 <= count <= (end - start) // 2:
        raise CorruptRecords(f"the record claims {count} headers in {end - start} bytes")
    at = start
    for _ in range(count):
        name_length = buffer[at] if at < end else 1
        value_at = at + 1 + (name_length >> 1)
        if name_length < 0x80 and not name_length & 1 and value_at < end and buffer[value_at] < 0x80:
            # Both lengths are varints of one byte, as they nearly always are; 1 is null, other odd ones are negative.
            value_length = buffer[value_at]
            at = value_at + 1 + (value_length >> 1)
            if value_length == 1 or (not value_length & 1 and at <= end):
                continue
            at = value_at - 1 - (name_length >> 1)
        at = _next_header(buffer, at, end)[3]
    if at != end:
        raise CorruptRecords(f"{end - at} bytes are left over behind the last header")


def _next_header(buffer: Buffer, at: int, end: int) -> tuple[int, int, int | None, int]:
    name_length, name_at = read_varint(buffer, at, end)
    if not 0 <= name_length <= end - name_at:
        raise CorruptRecords(f"a header's name claims {name_length} bytes of {end - name_at}")
    name_end = name_at + name_length
    value_length, value_at = read_varint(buffer, name_end, end)
    if not -1 <= value_length <= end - value_at:
        raise CorruptRecords(f"a header's value claims {value_length} bytes of {end - value_at}")
    if value_length < 0:
        return name_at, name_end, None, value_at
    return name_at, name_end, value_at, value_at + value_length


def header_ends(
    buffer: Buffer,
    data: Octets,
    starts: Ints,
    counts: Ints,
    ends: Ints,
) -> Ints:
    """Where each record's headers really end, -1 for those that cannot be read.

    The k-th headers of all records are skipped together. The last few records, if they have many headers, go one by
    one: a record with a million headers must not cost a million numpy calls.
    """
    possible = (counts >= 0) & (counts <= (ends - starts) >> 1)
    order = np.argsort(-np.where(possible, counts, 0), kind="stable")
    descending = np.where(possible, counts, 0)[order]
    at = starts[order]
    good = np.ones(len(at), np.bool_)
    step = 0
    while True:
        live = int(np.searchsorted(-descending, -step, side="left"))
        if live < _FEW:
            break
        behind, wrong = _skip_one(data, at[:live])
        at[:live] = behind
        good[:live] &= ~wrong
        step += 1
    for index in range(live):
        count, end = int(descending[index]) - step, int(ends[order[index]])
        try:
            if good[index]:
                skip_headers(buffer, int(at[index]), end, count)
            at[index] = end
        except CorruptRecords:
            good[index] = False
    result = np.empty(len(at), np.int64)
    result[order] = np.where(good, at, _NOWHERE)
    result[~possible] = _NOWHERE
    return result


def _skip_one(data: Octets, at: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    name_lengths, at, long_name = read_varint_column(data, at)
    value_lengths, at, long_value = read_varint_column(data, at + np.maximum(name_lengths, 0))
    wrong = (name_lengths < 0) | (value_lengths < -1)
    for indices in (long_name, long_value):
        if indices is not None:
            wrong[indices] = True
    return at + np.maximum(value_lengths, 0), wrong

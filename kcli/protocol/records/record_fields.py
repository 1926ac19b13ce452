"""The fields of v2 records: one numpy pass per field over the records of all batches of a fetch response.

Record headers are checked here for all records, but read only for the record that is asked for (`read_headers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.varints import Ints, Octets, read_varint_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Below this number of records, headers are skipped record by record.
_FEW_RECORDS = 16
_UNREADABLE = -1


class Fields(NamedTuple):
    """One array entry per record; `bad` are the indices of inconsistent records (`explain_record` gives the reason)."""

    timestamp_deltas: Ints
    offset_deltas: Ints
    key_starts: Ints
    key_lengths: Ints
    value_starts: Ints
    value_lengths: Ints
    header_starts: Ints
    header_counts: Ints
    invalid: Ints


def read_fields(buffer: Buffer, data: Octets, starts: Ints, ends: Ints) -> Fields:
    """Read the records whose bodies are `buffer[starts[i]:ends[i]]`; `data` is `buffer` as an array.

    Positions are not checked in between: a read outside `data` does no harm and positions only grow, so a record with
    valid lengths is consistent exactly if it ends where it should.
    """
    is_invalid = np.zeros(len(starts), np.bool_)

    def varints(at: Ints, max_length: int = 5) -> tuple[Ints, Ints]:
        values, after, too_long = read_varint_column(data, at, max_length)
        if too_long is not None:
            is_invalid[too_long] = True
        return values, after

    timestamp_deltas, at = varints(starts + 1, 10)
    offset_deltas, at = varints(at)
    key_lengths, key_starts = varints(at)
    value_lengths, value_starts = varints(_span_ends(key_starts, key_lengths))
    header_counts, header_starts = varints(_span_ends(value_starts, value_lengths))
    for lengths in (key_lengths, value_lengths):
        if len(lengths) and lengths.min() < -1:  # null, as for Java's reader
            np.maximum(lengths, -1, out=lengths)
    if header_counts.any():
        is_invalid |= _header_ends(buffer, data, header_starts, header_counts, ends) != ends
    else:
        is_invalid |= header_starts != ends
        header_starts, header_counts = ends, np.broadcast_to(np.int64(0), len(ends))
    return Fields(
        timestamp_deltas, offset_deltas, key_starts, key_lengths, value_starts, value_lengths,
        header_starts, header_counts, np.flatnonzero(is_invalid),
    )  # fmt: skip


def _span_ends(starts: Ints, lengths: Ints) -> Ints:
    """Return the ends of spans; a null span is empty."""
    if len(lengths) and lengths.min() < 0:
        lengths = np.maximum(lengths, 0)
    return starts + lengths


def explain_record(buffer: Buffer, start: int, end: int) -> str:
    """Return the reason why the record `buffer[start:end]` is inconsistent."""
    view = memoryview(buffer)[:end]
    try:
        _, at = read_varlong(view, start + 1)
        _, at = read_varint(view, at)
        at = _skip_span(view, at, "key")
        at = _skip_span(view, at, "value")
        count, at = read_varint(view, at)
        _skip_headers(buffer, at, end, count)
    except (CorruptRecords, ProtocolError) as problem:
        return problem.message
    return "its offset does not follow the offset of the record before, or is outside the batch"


def _skip_span(view: memoryview, at: int, field: str) -> int:
    length, at = read_varint(view, at)
    if length > len(view) - at:
        raise CorruptRecords(f"the length of the {field} is {length}, but only {len(view) - at} bytes are left")
    return at + max(length, 0)


def read_headers(buffer: Buffer, start: int, end: int, count: int) -> list[tuple[str, bytes | None]]:
    """Read the `count` headers that fill `buffer[start:end]` exactly; `CorruptRecords` if they do not.

    Invalid UTF-8 in a name is replaced, as Java's consumer does.
    """
    headers: list[tuple[str, bytes | None]] = []
    view = memoryview(buffer)[:end]
    at = start
    for _ in range(count):
        name_at, name_end, value_at, at = _next_header(view, at)
        name = bytes(view[name_at:name_end]).decode("utf-8", "replace")
        headers.append((name, None if value_at is None else bytes(view[value_at:at])))
    _check_headers_end(at, end)
    return headers


def _skip_headers(buffer: Buffer, start: int, end: int, count: int) -> None:
    """Check that `count` headers fill `buffer[start:end]` exactly; `CorruptRecords` with the reason if not."""
    if not 0 <= count <= (end - start) // 2:
        raise CorruptRecords(f"the header count of the record is {count}, but only {end - start} bytes are left")
    at = start
    for _ in range(count):
        name_length = buffer[at] if at < end else 1
        value_at = at + 1 + (name_length >> 1)
        if name_length < 0x80 and not name_length & 1 and value_at < end and buffer[value_at] < 0x80:
            # Both lengths are varints of one byte, as they nearly always are; odd ones are negative, which is null.
            value_length = buffer[value_at]
            at = value_at + 1 + (0 if value_length & 1 else value_length >> 1)
            if at <= end:
                continue
            at = value_at - 1 - (name_length >> 1)
        at = _next_header(memoryview(buffer)[:end], at)[3]
    _check_headers_end(at, end)


def _next_header(view: memoryview, at: int) -> tuple[int, int, int | None, int]:
    try:
        name_length, name_at = read_varint(view, at)
        name_end = name_at + name_length
        if name_length < 0 or name_end > len(view):
            raise CorruptRecords(
                f"the length of a header name is {name_length}, but only {len(view) - name_at} bytes are left"
            )
        value_length, value_at = read_varint(view, name_end)
    except ProtocolError as problem:
        raise CorruptRecords(problem.message) from None
    if value_length > len(view) - value_at:
        raise CorruptRecords(
            f"the length of a header value is {value_length}, but only {len(view) - value_at} bytes are left"
        )
    if value_length < 0:
        return name_at, name_end, None, value_at
    return name_at, name_end, value_at, value_at + value_length


def _check_headers_end(at: int, end: int) -> None:
    if at != end:
        raise CorruptRecords(f"{end - at} bytes follow the last header")


def _header_ends(buffer: Buffer, data: Octets, starts: Ints, counts: Ints, ends: Ints) -> Ints:
    """Return the end of the headers of each record, -1 for headers that cannot be read.

    The k-th headers of all records are skipped together. The last few records with many headers are skipped one by
    one, because a record with a million headers must not cost a million numpy calls.
    """
    is_plausible = (counts >= 0) & (counts <= (ends - starts) >> 1)
    order = np.argsort(-np.where(is_plausible, counts, 0), kind="stable")
    descending = np.where(is_plausible, counts, 0)[order]
    at = starts[order]
    is_readable = np.ones(len(at), np.bool_)
    step = 0
    while True:
        active_count = int(np.searchsorted(-descending, -step, side="left"))
        if active_count < _FEW_RECORDS:
            break
        next_at, is_malformed = _skip_header_column(data, at[:active_count])
        at[:active_count] = next_at
        is_readable[:active_count] &= ~is_malformed
        step += 1
    for index in range(active_count):
        count, end = int(descending[index]) - step, int(ends[order[index]])
        try:
            if is_readable[index]:
                _skip_headers(buffer, int(at[index]), end, count)
            at[index] = end
        except CorruptRecords:
            is_readable[index] = False
    result = np.empty(len(at), np.int64)
    result[order] = np.where(is_readable, at, _UNREADABLE)
    result[~is_plausible] = _UNREADABLE
    return result


def _skip_header_column(data: Octets, at: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    name_lengths, at, long_name = read_varint_column(data, at)
    value_lengths, at, long_value = read_varint_column(data, at + np.maximum(name_lengths, 0))
    is_malformed = name_lengths < 0
    for indices in (long_name, long_value):
        if indices is not None:
            is_malformed[indices] = True
    return at + np.maximum(value_lengths, 0), is_malformed

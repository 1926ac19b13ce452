"""A summary of the records of one batch, for the checks of a Produce: a walk over their lengths, without numpy.

The walk reads some ten bytes of each record. Producers that benchmark or log send runs of records of the same size. In
such a run each of these bytes is in a column with a constant stride, and Python compares whole columns at once.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_unsigned_varlong, read_varint

_LOW = bytes(range(128))
_HIGH = bytes(range(128, 256))
# The varints of offset deltas, of one and of two bytes, by index.
_DELTAS = bytes(range(0, 128, 2))
_ONE_BYTE_DELTAS = 1 << 6
_TWO_BYTE_DELTAS = 1 << 13
_DELTA_LOWS = bytes(2 * index & 0x7F | 0x80 for index in range(_ONE_BYTE_DELTAS)) * (
    _TWO_BYTE_DELTAS // _ONE_BYTE_DELTAS
)
_DELTA_HIGHS = bytes(index >> 6 for index in range(_TWO_BYTE_DELTAS))

_SHORT_RUN = 4
_PAUSE = 16
_SMALLEST_HEADER_BYTES = 2


class RecordsSummary(NamedTuple):
    """Facts about the records of a batch. Timestamp deltas are in ms, and 0 without records.

    `is_dense`: the offset deltas are 0, 1, 2 and so on.
    """

    min_timestamp_delta: int
    max_timestamp_delta: int
    has_null_key: bool
    is_dense: bool


def summarize_records(data: bytes, count: int) -> RecordsSummary:
    """Summarize the `count` uncompressed records that fill `data` exactly; `CorruptRecords` if they do not."""
    try:
        return _walk(data, count)
    except IndexError:
        raise CorruptRecords(f"the record count of the batch is {count}, but its bytes end before that") from None
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None


def _walk(data: bytes, count: int) -> RecordsSummary:
    """Walk in one long function, because a call per record would take as long as reading the record."""
    end = len(data)
    at = index = last_size = next_try = 0
    stamps: set[int] = set()
    key_missing, dense = False, True
    while index < count:
        start = at
        length = data[at]
        if length < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            length += (high << 7) - 0x80
            at += 2
        else:
            length, at = read_unsigned_varlong(data, at)
        record_end = at + (length >> 1)
        if length & 1 or record_end > end:
            raise CorruptRecords(f"record {index} does not fit in the batch")

        stamp_at = at + 1
        stamp = data[stamp_at]
        if stamp < 0x80:
            at += 2
        else:
            stamp, at = read_unsigned_varlong(data, stamp_at)
        stamps.add(stamp)

        delta_at = at
        delta = data[at]
        if delta < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            delta += (high << 7) - 0x80
            at += 2
        else:
            delta, at = read_unsigned_varlong(data, at)
        if delta != index + index:
            dense = False

        key_at = at
        length = data[at]
        if length < 0x80:
            at += 1
        else:
            length, at = read_unsigned_varlong(data, at)
        if length & 1:  # every negative length is null, as for Java
            key_missing = True
        else:
            at += length >> 1

        value_at = at
        length = data[at]
        if length < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            length += (high << 7) - 0x80
            at += 2
        else:
            length, at = read_unsigned_varlong(data, at)
        if not length & 1:
            at += length >> 1

        if at + 1 != record_end or data[at]:
            _check_headers(data, at, record_end, index)
            last_size = 0
        elif record_end - start != last_size:
            last_size = record_end - start
        elif index >= next_try and dense:
            fixed = (*range(start, stamp_at - 1), key_at, *_varint_at(data, value_at), at)
            same = _run_length(data, start, last_size, index, count, fixed, stamp_at, delta_at, key_at, stamps)
            next_try = index + same + (_PAUSE if same < _SHORT_RUN else 1)
            index += same
            record_end += same * last_size
        at = record_end
        index += 1
    if at != end:
        raise CorruptRecords(f"{end - at} bytes follow the last of {count} records")
    deltas = [(stamp >> 1) ^ -(stamp & 1) for stamp in stamps] or [0]
    return RecordsSummary(min(deltas), max(deltas), key_missing, dense)


def _run_length(
    data: bytes,
    start: int,
    size: int,
    index: int,
    count: int,
    fixed: tuple[int, ...],
    stamp_at: int,
    delta_at: int,
    key_at: int,
    stamps: set[int],
) -> int:
    """Return the number of records after the one at `start` with its shape, and add their timestamps to `stamps`.

    They have equal bytes at `fixed` and the next offset deltas. The timestamp and the offset delta of the first record
    are at `stamp_at` and `delta_at`.
    """
    delta_bytes, stamp_bytes = key_at - delta_at, delta_at - stamp_at
    max_index = {1: _ONE_BYTE_DELTAS, 2: _TWO_BYTE_DELTAS}.get(delta_bytes, 0)
    room = min(count - index - 1, (len(data) - start) // size - 1, max_index - index - 1)
    if room < 1 or stamp_bytes > 2 or data[key_at] >= 0x80:
        return 0
    run_end = start + (room + 1) * size
    for position in fixed:
        column = data[position + size : run_end : size]
        room = min(room, len(column) - len(column.lstrip(data[position : position + 1])))
        if not room:
            return 0
        run_end = start + (room + 1) * size
    stamp_columns = [data[position + size : run_end : size] for position in range(stamp_at, delta_at)]
    for column, allowed in zip(stamp_columns, (_LOW,) if stamp_bytes == 1 else (_HIGH, _LOW), strict=True):
        room = min(room, len(column) - len(column.lstrip(allowed)))
    run_end = start + (room + 1) * size
    expected = (_DELTAS,) if delta_bytes == 1 else (_DELTA_LOWS, _DELTA_HIGHS)
    for offset, table in enumerate(expected):
        if data[delta_at + offset + size : run_end : size] != table[index + 1 : index + 1 + room]:
            return 0
    if stamp_bytes == 1:
        stamps.update(stamp_columns[0][:room])
    else:
        pairs = set(zip(stamp_columns[0][:room], stamp_columns[1][:room], strict=True))
        stamps.update(low + (high << 7) - 0x80 for low, high in pairs)
    return room


def _varint_at(data: bytes, at: int) -> range:
    """Return the positions of the bytes of a varint that is known to be complete."""
    last = at
    while data[last] >= 0x80:
        last += 1
    return range(at, last + 1)


def _check_headers(data: bytes, at: int, record_end: int, index: int) -> None:
    if at >= record_end:
        raise CorruptRecords(f"the key and value of record {index} do not fit in the record")
    count, at = read_varint(data, at)
    if not 0 <= count <= (record_end - at) // _SMALLEST_HEADER_BYTES:
        raise CorruptRecords(
            f"the header count of record {index} is {count}, but only {record_end - at} bytes are left"
        )
    for _ in range(count):
        length, at = read_varint(data, at)
        value_length, at = read_varint(data, at + length if length >= 0 else record_end)
        if length < 0:
            raise CorruptRecords(f"a header length of record {index} is not valid")
        at += max(value_length, 0)
        if at > record_end:
            break
    if at != record_end:
        raise CorruptRecords(f"the headers of record {index} do not fill the record")

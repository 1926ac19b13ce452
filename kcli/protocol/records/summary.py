"""What a broker must know of the records of an ordinary Produce: a walk over their lengths, without numpy.

The walk reads some ten bytes of each record. Producers that benchmark or log send runs of records of one size; in such
a run each of those bytes lies in a column with a constant stride, and Python compares whole columns at once.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_unsigned_varlong, read_varint

_LOW = bytes(range(128))
_HIGH = bytes(range(128, 256))
# The varints of the offset deltas, of one and of two bytes, by index.
_PLACES = bytes(range(0, 128, 2))
_MOST_SHORT = 1 << 6
_MOST_PLACE = 1 << 13
_PLACE_LOWS = bytes(2 * index & 0x7F | 0x80 for index in range(_MOST_SHORT)) * (_MOST_PLACE // _MOST_SHORT)
_PLACE_HIGHS = bytes(index >> 6 for index in range(_MOST_PLACE))

_SHORT_RUN = 4
_PAUSE = 16
_SMALLEST_HEADER_BYTES = 2


class RecordsSummary(NamedTuple):
    """What a walk over the records of a batch found: the range of their timestamp deltas (0 when there are none).

    `is_dense`: their offset deltas are 0, 1, 2 and so on.
    """

    least_timestamp_delta: int
    most_timestamp_delta: int
    has_null_key: bool
    is_dense: bool


def summarize_records(data: bytes, count: int) -> RecordsSummary:
    """Walk over exactly `count` uncompressed records that fill `data`; `CorruptRecords` when it does not hold those."""
    try:
        return _walk(data, count)
    except IndexError:
        raise CorruptRecords(f"the batch claims {count} records and ends before") from None
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None


def _walk(data: bytes, count: int) -> RecordsSummary:
    """One long function: a call per record would take as long as reading it does."""
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
        behind = at + (length >> 1)
        if length & 1 or behind > end:
            raise CorruptRecords(f"record {index} does not fit in the batch")

        stamp_at = at + 1
        stamp = data[stamp_at]
        if stamp < 0x80:
            at += 2
        else:
            stamp, at = read_unsigned_varlong(data, stamp_at)
        stamps.add(stamp)

        place_at = at
        place = data[at]
        if place < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            place += (high << 7) - 0x80
            at += 2
        else:
            place, at = read_unsigned_varlong(data, at)
        if place != index + index:
            dense = False

        key_at = at
        length = data[at]
        if length < 0x80:
            at += 1
        else:
            length, at = read_unsigned_varlong(data, at)
        if not length & 1:
            at += length >> 1
        elif length == 1:
            key_missing = True
        else:
            raise CorruptRecords(f"record {index} has a key of impossible length")

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
        elif length != 1:
            raise CorruptRecords(f"record {index} has a value of impossible length")

        if at + 1 != behind or data[at]:
            _check_headers(data, at, behind, index)
            last_size = 0
        elif behind - start != last_size:
            last_size = behind - start
        elif index >= next_try and dense:
            fixed = (*range(start, stamp_at - 1), key_at, *_varint_at(data, value_at), at)
            same = _run_length(data, start, last_size, index, count, fixed, stamp_at, place_at, key_at, stamps)
            next_try = index + same + (_PAUSE if same < _SHORT_RUN else 1)
            index += same
            behind += same * last_size
        at = behind
        index += 1
    if at != end:
        raise CorruptRecords(f"{end - at} bytes are left over behind the last of {count} records")
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
    place_at: int,
    key_at: int,
    stamps: set[int],
) -> int:
    """How many records behind the one at `start` have its shape: the bytes at `fixed` equal, the next offset deltas.

    Its timestamp and its offset delta are at `stamp_at` and `place_at`. Their `stamps` are added.
    """
    place_bytes, stamp_bytes = key_at - place_at, place_at - stamp_at
    most_index = {1: _MOST_SHORT, 2: _MOST_PLACE}.get(place_bytes, 0)
    room = min(count - index - 1, (len(data) - start) // size - 1, most_index - index - 1)
    if room < 1 or stamp_bytes > 2 or data[key_at] >= 0x80:
        return 0
    behind = start + (room + 1) * size
    for place in fixed:
        column = data[place + size : behind : size]
        room = min(room, len(column) - len(column.lstrip(data[place : place + 1])))
        if not room:
            return 0
        behind = start + (room + 1) * size
    stamp_columns = [data[place + size : behind : size] for place in range(stamp_at, place_at)]
    for column, allowed in zip(stamp_columns, (_LOW,) if stamp_bytes == 1 else (_HIGH, _LOW), strict=True):
        room = min(room, len(column) - len(column.lstrip(allowed)))
    behind = start + (room + 1) * size
    expected = (_PLACES,) if place_bytes == 1 else (_PLACE_LOWS, _PLACE_HIGHS)
    for offset, table in enumerate(expected):
        if data[place_at + offset + size : behind : size] != table[index + 1 : index + 1 + room]:
            return 0
    if stamp_bytes == 1:
        stamps.update(stamp_columns[0][:room])
    else:
        pairs = set(zip(stamp_columns[0][:room], stamp_columns[1][:room], strict=True))
        stamps.update(low + (high << 7) - 0x80 for low, high in pairs)
    return room


def _varint_at(data: bytes, at: int) -> range:
    """The places of the bytes of a varint that is known to be whole."""
    behind = at
    while data[behind] >= 0x80:
        behind += 1
    return range(at, behind + 1)


def _check_headers(data: bytes, at: int, behind: int, index: int) -> None:
    if at >= behind:
        raise CorruptRecords(f"the key and value of record {index} do not fit in it")
    count, at = read_varint(data, at)
    if not 0 <= count <= (behind - at) // _SMALLEST_HEADER_BYTES:
        raise CorruptRecords(f"record {index} claims {count} headers in {behind - at} bytes")
    for _ in range(count):
        length, at = read_varint(data, at)
        value_length, at = read_varint(data, at + length if length >= 0 else behind)
        if length < 0 or value_length < -1:
            raise CorruptRecords(f"a header of record {index} has an impossible length")
        at += max(value_length, 0)
        if at > behind:
            break
    if at != behind:
        raise CorruptRecords(f"the headers of record {index} do not fill it")

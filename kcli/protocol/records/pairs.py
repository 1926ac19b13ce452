"""Keys and values of one batch's records and nothing else, for logs that are read as tables. No numpy.

A walk over plain bytes in one loop: a start over a long log of committed offsets is made of little else.
"""

from __future__ import annotations

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_unsigned_varint
from kcli.protocol.records import batch
from kcli.protocol.records.scan import read_payload

#: The distance to the batch's base offset, the key and the value.
Pair = tuple[int, bytes | None, bytes | None]


def read_pairs(data: memoryview) -> list[Pair]:
    """The records of one whole batch of format v2; `CorruptRecords` for what is none. The CRC is not looked at."""
    if len(data) < batch.HEADER_BYTES or data[batch.MAGIC_AT] != 2:
        raise CorruptRecords("that is no record batch of format v2")
    count = batch.HEADER.unpack_from(data)[12]
    payload = read_payload(data)
    pairs: list[Pair] = []
    at = 0
    try:
        for _ in range(count):
            at = _read_pair(payload, at, pairs)
    except (IndexError, ProtocolError):
        raise CorruptRecords(f"record {len(pairs)} of {count} does not fit in the batch") from None
    if at != len(payload):
        raise CorruptRecords(f"{len(payload) - at} bytes are left over behind the last record")
    return pairs


def _read_pair(data: bytes, at: int, pairs: list[Pair]) -> int:
    """Lengths are zigzag: the lowest bit is the sign, and of the negative ones only -1 (null) has a meaning."""
    length = data[at]
    at += 1
    if length >= 0x80:
        length, at = read_unsigned_varint(data, at - 1)
    behind = at + (length >> 1)
    if length & 1 or behind > len(data):
        raise IndexError
    at += 1  # attributes
    while data[at] >= 0x80:  # the time
        at += 1
    delta = data[at + 1]
    at += 2
    if delta >= 0x80:
        delta, at = read_unsigned_varint(data, at - 1)
    key_length = data[at]
    at += 1
    if key_length >= 0x80:
        key_length, at = read_unsigned_varint(data, at - 1)
    key = None
    if key_length != 1:
        key = data[at : at + (key_length >> 1)]
        at += key_length >> 1
    value_length = data[at]
    at += 1
    if value_length >= 0x80:
        value_length, at = read_unsigned_varint(data, at - 1)
    value = None
    if value_length != 1:
        value = data[at : at + (value_length >> 1)]
        at += value_length >> 1
    if at > behind or delta & 1:
        raise IndexError
    pairs.append((delta >> 1, key, value))
    return behind

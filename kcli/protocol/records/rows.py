"""Rows of record format v2, encoded one after another. Imports no numpy: a producer starts without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kcli.protocol.primitives import varint_bytes


class NewRecord(NamedTuple):
    """A record to be written; the batch gives it its offset."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def write_varint(value: int) -> bytes:
    """A signed number of up to 64 bits as zigzag varint."""
    return varint_bytes((value << 1) ^ (value >> 63))


# Varints of the small numbers, which nearly all lengths and deltas are; it grows to this size with the first batches.
_SMALL: list[bytes] = [write_varint(n) for n in range(256)]
_MOST_SMALL = 8192
_NULL = b"\x01"


def encode_rows(rows: Sequence[NewRecord], offset_deltas: Iterable[int], base_timestamp_ms: int) -> bytes:
    """The records of a batch, before compression."""
    if len(_SMALL) < min(len(rows), _MOST_SMALL):
        _SMALL.extend(write_varint(n) for n in range(len(_SMALL), _MOST_SMALL))
    small, limit = _SMALL, len(_SMALL)
    parts: list[bytes] = []
    last_stamp, stamp = -1, b""
    for (key, value, timestamp_ms, headers), delta in zip(rows, offset_deltas, strict=True):
        if timestamp_ms != last_stamp or not stamp:
            last_stamp, stamp = timestamp_ms, b"\0" + write_varint(timestamp_ms - base_timestamp_ms)
        place = small[delta] if delta < limit else write_varint(delta)
        size = len(stamp) + len(place) + 1
        if key is None:
            key_size, key = _NULL, b""
            size += 1
        else:
            length = len(key)
            key_size = small[length] if length < limit else write_varint(length)
            size += len(key_size) + length
        if value is None:
            value_size, value = _NULL, b""
            size += 1
        else:
            length = len(value)
            value_size = small[length] if length < limit else write_varint(length)
            size += len(value_size) + length
        tail = b"\0"
        if headers:
            tail = _encode_headers(headers)
            size += len(tail) - 1
        parts += (
            small[size] if size < limit else write_varint(size),
            stamp,
            place,
            key_size,
            key,
            value_size,
            value,
            tail,
        )
    return b"".join(parts)


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [write_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += write_varint(len(encoded)), encoded
        parts += (_NULL,) if value is None else (write_varint(len(value)), value)
    return b"".join(parts)

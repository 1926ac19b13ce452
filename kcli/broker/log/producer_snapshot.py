"""A partition's `.snapshot` files: its producers as Kafka's ProducerSnapshot message, version 1, writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from kcli.errors import CorruptRecords
from kcli.protocol.records.checksum import crc32c

VERSION = 1

_HEADER = struct.Struct(">hIi")  # version, CRC-32C of all that follows it, count
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")


class ProducerEntry(NamedTuple):
    """A producer and its last batch; `offset_delta` is the batch's last offset less its first. -1: there is none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_offset: int


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot file."""
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join([struct.pack(">i", len(rows)), *rows])
    return _HEADER.pack(VERSION, crc32c(body), len(rows))[:_CRC_FROM] + body


def decode(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot file; `CorruptRecords` says what is wrong with a damaged one."""
    if len(data) < _HEADER.size:
        raise CorruptRecords(f"a producer snapshot of {len(data)} bytes ends too early")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptRecords(f"a producer snapshot has the unknown version {version}")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        raise CorruptRecords("the checksum of a producer snapshot is wrong")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptRecords(f"a producer snapshot claims {count} producers in {len(data)} bytes")
    return [ProducerEntry(*row) for row in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]

"""The first record at or behind an offset, with its key, read out of fetched batches. Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kcli.admin.offsets.plan import FirstRecord
from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer, walk_batches
from kcli.protocol.records.scan import read_payload

MOST_KEY_BYTES = 64

_OLD_MESSAGE = struct.Struct(">q8xbb")  # offset, size, CRC, magic, attributes
_LONG, _INT = struct.Struct(">q"), struct.Struct(">i")


class Sample(NamedTuple):
    """A record (None: there is none), and how many bytes its batch takes for how many offsets."""

    record: FirstRecord | None
    batch_bytes: int = 0
    batch_offsets: int = 0


def first_record(data: Buffer, offset: int) -> Sample | int | None:
    """The record; if none of these batches has it, where to read on; None if there is no whole batch.

    `CorruptRecords` for a batch that cannot be read. Of a compressed set of format 1 or 0 no key is told.
    """
    walk = walk_batches(data, 0, len(data))
    behind: int | None = None
    for start, end in zip(walk.starts, walk.ends, strict=True):
        whole = memoryview(data)[start:end]
        found = _in_batch(whole, offset) if whole[batch.MAGIC_AT] >= 2 else _in_old_message(whole, offset)
        if isinstance(found, Sample):
            return found
        behind = max(offset, found)
    if behind is None and walk.problem:
        raise CorruptRecords(f"the batch at offset {offset} is damaged: {walk.problem}")
    return behind


def _in_batch(whole: memoryview, offset: int) -> Sample | int:
    """The record, or the offset behind this batch."""
    base, _, _, _, _, attributes, last_delta, base_ms, max_ms, _, _, _, count = batch.HEADER.unpack_from(whole)
    behind: int = base + last_delta + 1
    if behind <= offset or not count or attributes & batch.CONTROL_BIT:
        return behind
    try:
        sure = max(0, offset - base) if count == last_delta + 1 else 0  # so many lie before it: none was compacted away
        record = _find(read_payload(whole), sure, count, base, base_ms, offset)
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None
    if record is None:
        return behind
    if attributes & batch.APPEND_TIME_BIT:
        record = record._replace(timestamp_ms=max_ms)
    return Sample(record, len(whole), last_delta + 1)


def _find(payload: bytes, before: int, count: int, base: int, base_ms: int, offset: int) -> FirstRecord | None:
    """The first `before` records are skipped; of others before the offset no more than their heads are read."""
    at = 0
    for number in range(count):
        length, at = read_varint(payload, at)
        if not 0 < length <= len(payload) - at:
            raise CorruptRecords(f"a record claims {length} bytes of {len(payload) - at}")
        if number < before:
            at += length
            continue
        time_delta, head = read_varlong(payload, at + 1)
        offset_delta, head = read_varint(payload, head)
        if base + offset_delta >= offset:
            key_size, head = read_varint(payload, head)
            return _record(base + offset_delta, base_ms + time_delta, payload, head, key_size, at + length)
        at += length
    return None


def _in_old_message(whole: memoryview, offset: int) -> Sample | int:
    last, magic, attributes = _OLD_MESSAGE.unpack_from(whole)
    behind: int = last + 1
    if behind <= offset:
        return behind
    at = batch.MAGIC_AT + 2
    timestamp_ms = _LONG.unpack_from(whole, at)[0] if magic else -1
    at += _LONG.size if magic else 0
    if attributes & batch.CODEC_MASK:
        return Sample(FirstRecord(offset, timestamp_ms), len(whole), 1)
    record = _record(last, timestamp_ms, whole, at + _INT.size, _INT.unpack_from(whole, at)[0], len(whole))
    return Sample(record, len(whole), 1)


def _record(offset: int, timestamp_ms: int, data: Buffer, at: int, key_size: int, limit: int) -> FirstRecord:
    if key_size < 0:
        return FirstRecord(offset, timestamp_ms)
    if key_size > limit - at:
        raise CorruptRecords(f"a record's key claims {key_size} bytes of {limit - at}")
    return FirstRecord(offset, timestamp_ms, bytes(data[at : at + min(key_size, MOST_KEY_BYTES)]), key_size)

"""First record at or after an offset, with its key, from fetched batches. Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kcli.admin.offsets.offset_plan import FirstRecord
from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import int64, read_varint
from kcli.protocol.records import batch
from kcli.protocol.records.batch import BatchInfo, Buffer, walk_batches
from kcli.protocol.records.scan import iter_record_heads, read_payload
from kcli.settings import MAX_DECOMPRESSED_BYTES

MAX_KEY_BYTES = 64

_INT = struct.Struct(">i")


class Sample(NamedTuple):
    """A record, None if the log has no such record, with the bytes and the number of offsets of its batch."""

    record: FirstRecord | None
    batch_bytes: int = 0
    batch_offsets: int = 0


def first_record(data: Buffer, offset: int, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Sample | int | None:
    """Return the record; if these batches do not have it, the next offset to fetch; None without a whole batch.

    `CorruptRecords` for a batch that cannot be read, `RecordTooLarge` for one that decompresses to more than
    `max_bytes`. A compressed message set of format 1 or 0 gives no key.
    """
    walk = walk_batches(data, 0, len(data))
    next_offset: int | None = None
    for start in walk.starts:
        info = batch.read_batch_info(data, start)
        end = info.last_offset + 1
        if end > offset:
            sample = _in_batch(info, offset, max_bytes) if info.magic >= 2 else _in_old_message(info, offset)
            if sample is not None:
                return sample
        next_offset = max(offset, end)
    if next_offset is None and walk.problem:
        raise CorruptRecords(f"the batch at offset {offset} is damaged: {walk.problem}")
    return next_offset


def _in_batch(info: BatchInfo, offset: int, max_bytes: int) -> Sample | None:
    """Return the record; None if the batch has none at or after the offset."""
    if not info.record_count or info.is_control:
        return None
    span = info.last_offset - info.base_offset + 1
    # Without compaction, this many records lie before the offset.
    before = max(0, offset - info.base_offset) if info.record_count == span else 0
    payload = read_payload(memoryview(info.records), max_bytes)
    for offset_delta, time_delta, key_at, end in iter_record_heads(payload, info.record_count, skip=before):
        if info.base_offset + offset_delta >= offset:
            timestamp_ms = info.max_timestamp_ms if info.is_append_time else int64(info.base_timestamp_ms + time_delta)
            key_size, key_at = _read_key_size(payload, key_at)
            record = _record(info.base_offset + offset_delta, timestamp_ms, payload, key_at, key_size, end)
            return Sample(record, info.size, span)
    return None


def _read_key_size(payload: bytes, at: int) -> tuple[int, int]:
    try:
        return read_varint(payload, at)
    except ProtocolError as error:
        raise CorruptRecords(f"a record is damaged: {error}") from None


def _in_old_message(info: BatchInfo, offset: int) -> Sample:
    if info.codec:
        return Sample(FirstRecord(offset, info.base_timestamp_ms), info.size, 1)
    at = batch.MAGIC_AT + (10 if info.magic else 2)
    key_size = _INT.unpack_from(info.records, at)[0]
    record = _record(info.last_offset, info.base_timestamp_ms, info.records, at + _INT.size, key_size, info.size)
    return Sample(record, info.size, 1)


def _record(offset: int, timestamp_ms: int, data: Buffer, at: int, key_size: int, limit: int) -> FirstRecord:
    if key_size < 0:
        return FirstRecord(offset, timestamp_ms)
    if key_size > limit - at:
        remaining = limit - at
        raise CorruptRecords(f"a record is damaged: its key size is {key_size} bytes, but {remaining} bytes remain")
    return FirstRecord(offset, timestamp_ms, bytes(data[at : at + min(key_size, MAX_KEY_BYTES)]), key_size)

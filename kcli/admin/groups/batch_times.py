"""The time of the first record at or behind an offset, read out of fetched batches. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer, walk_batches
from kcli.protocol.records.scan import read_payload

_OLD_MESSAGE = struct.Struct(">q8xbbq")  # offset, size, CRC, magic, attributes, and in format 1 the timestamp
_NO_TIME = -1


class RecordTime(NamedTuple):
    """The first record at or behind an offset. `offset` -1: there is none. `timestamp_ms` -1: it has no time.

    `append_time`: the broker's clock wrote the time (LogAppendTime), not a producer's. An `offset` behind the one that
    was asked for: what was there is gone (compaction) or was never a record (a transaction's marker).
    """

    offset: int
    timestamp_ms: int = _NO_TIME
    append_time: bool = False


def first_record_time(data: Buffer, offset: int) -> RecordTime | int | None:
    """The record's time; if none of these batches has it, where to read on; None if there is no whole batch.

    `CorruptRecords` for a batch that cannot be read. Of a compressed set of format 1 the newest time is told.
    """
    walk = walk_batches(data, 0, len(data))
    behind: int | None = None
    for start, end in zip(walk.starts, walk.ends, strict=True):
        found = _in_batch(memoryview(data)[start:end], offset)
        if isinstance(found, RecordTime):
            return found
        behind = max(offset, found)
    if behind is None and walk.problem:
        raise CorruptRecords(f"the batch at offset {offset} is damaged: {walk.problem}")
    return behind


def _in_batch(whole: memoryview, offset: int) -> RecordTime | int:
    """The record, or the offset behind this batch."""
    if whole[batch.MAGIC_AT] < 2:
        return _in_old_message(whole, offset)
    base, _, _, _, _, attributes, last_delta, base_ms, max_ms, _, _, _, count = batch.HEADER.unpack_from(whole)
    behind: int = base + last_delta + 1
    if behind <= offset or not count or attributes & batch.CONTROL_BIT:
        return behind
    append_time = bool(attributes & batch.APPEND_TIME_BIT)
    first = max(offset, base)
    if count == last_delta + 1:  # none was compacted away: the header may tell enough, though the rest be compressed
        if append_time:
            return RecordTime(first, max_ms, append_time)
        if first == base and not attributes & batch.DELETE_HORIZON_BIT:
            return RecordTime(first, base_ms)
    for record_offset, timestamp_ms in _offsets_and_times(read_payload(whole), count, base, base_ms):
        if record_offset >= offset:
            return RecordTime(record_offset, max_ms if append_time else timestamp_ms, append_time)
    return behind


def _offsets_and_times(payload: bytes, count: int, base: int, base_ms: int) -> Iterator[tuple[int, int]]:
    """Of each record no more than its head is read, in half the time that a whole one takes."""
    at = 0
    try:
        for _ in range(count):
            length, at = read_varint(payload, at)
            if not 0 < length <= len(payload) - at:
                raise CorruptRecords(f"a record claims {length} bytes of {len(payload) - at}")
            time_delta, head = read_varlong(payload, at + 1)
            offset_delta, _ = read_varint(payload, head)
            yield base + offset_delta, base_ms + time_delta
            at += length
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None


def _in_old_message(whole: memoryview, offset: int) -> RecordTime | int:
    last, magic, attributes, timestamp_ms = _OLD_MESSAGE.unpack_from(whole)
    behind: int = last + 1
    if behind <= offset:
        return behind
    first = offset if attributes & batch.CODEC_MASK else last
    return RecordTime(first, timestamp_ms if magic else _NO_TIME, bool(magic and attributes & batch.APPEND_TIME_BIT))

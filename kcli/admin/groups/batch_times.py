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
    return FetchedTimes(data).first_behind(offset)


class FetchedTimes:
    """Times of records in fetched batches, for several offsets one after another: the batches are read only once."""

    def __init__(self, data: Buffer) -> None:
        self._walk = walk_batches(data, 0, len(data))
        self._batches = map(_Batch, map(memoryview(data).__getitem__, map(slice, self._walk.starts, self._walk.ends)))
        self._batch = next(self._batches, None)

    def __repr__(self) -> str:
        return f"<FetchedTimes of {len(self._walk.starts)} batches>"

    def first_behind(self, offset: int) -> RecordTime | int | None:
        """What `first_record_time` says. No offset may be below the one that was asked for before."""
        behind: int | None = None
        while self._batch is not None:
            found = self._batch.first_behind(offset)
            if isinstance(found, RecordTime):
                return found
            behind = max(offset, found)
            following = next(self._batches, None)
            if following is None:  # the last one stays, to tell where it ends
                break
            self._batch = following
        if behind is None and self._walk.problem:
            raise CorruptRecords(f"the batch at offset {offset} is damaged: {self._walk.problem}")
        return behind


class _Batch:
    """One batch, or one message of an older format; of its records so many heads are read as had to be."""

    def __init__(self, whole: memoryview) -> None:
        self._whole = whole
        self._heads: Iterator[tuple[int, int]] | None = None
        self._head = (-1, _NO_TIME)

    def first_behind(self, offset: int) -> RecordTime | int:
        """The record, or the offset behind this batch."""
        whole = self._whole
        if whole[batch.MAGIC_AT] < 2:
            return _in_old_message(whole, offset)
        base, _, _, _, _, attributes, last_delta, base_ms, max_ms, _, _, _, count = batch.HEADER.unpack_from(whole)
        behind: int = base + last_delta + 1
        if behind <= offset or not count or attributes & batch.CONTROL_BIT:
            return behind
        append_time = bool(attributes & batch.APPEND_TIME_BIT)
        first = max(offset, base)
        if (
            count == last_delta + 1
        ):  # none was compacted away: the header may tell enough, though the rest be compressed
            if append_time:
                return RecordTime(first, max_ms, append_time)
            if first == base and not attributes & batch.DELETE_HORIZON_BIT:
                return RecordTime(first, base_ms)
        if self._heads is None:
            self._heads = _offsets_and_times(read_payload(whole), count, base, base_ms)
        while self._head[0] < offset:
            head = next(self._heads, None)
            if head is None:
                return behind
            self._head = head
        record_offset, timestamp_ms = self._head
        return RecordTime(record_offset, max_ms if append_time else timestamp_ms, append_time)


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

"""The time of the first record at or behind an offset, read out of fetched batches. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import BatchInfo, Buffer, read_batch_info, walk_batches
from kcli.protocol.records.scan import RecordHead, iter_record_heads, read_payload

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
        self._batches = (_Batch(read_batch_info(data, start)) for start in self._walk.starts)
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

    def __init__(self, info: BatchInfo) -> None:
        self._info = info
        self._heads: Iterator[RecordHead] | None = None
        self._head_offset = -1
        self._head_ms = _NO_TIME

    def first_behind(self, offset: int) -> RecordTime | int:
        """The record, or the offset behind this batch."""
        info = self._info
        behind = info.last_offset + 1
        if behind <= offset or not info.record_count or info.is_control:
            return behind
        if info.magic < 2:
            first = offset if info.codec else info.last_offset
            return RecordTime(first, info.base_timestamp_ms, info.is_append_time)
        first = max(offset, info.base_offset)
        # Nothing was compacted away: the header may tell enough, though the records be compressed.
        if info.record_count == behind - info.base_offset:
            if info.is_append_time:
                return RecordTime(first, info.max_timestamp_ms, append_time=True)
            if first == info.base_offset and info.delete_horizon_ms is None:
                return RecordTime(first, info.base_timestamp_ms)
        if self._heads is None:
            self._heads = iter_record_heads(read_payload(memoryview(info.records)), info.record_count)
        while self._head_offset < offset:
            head = next(self._heads, None)
            if head is None:
                return behind
            self._head_offset, self._head_ms = info.base_offset + head[0], info.base_timestamp_ms + head[1]
        timestamp_ms = info.max_timestamp_ms if info.is_append_time else self._head_ms
        return RecordTime(self._head_offset, timestamp_ms, info.is_append_time)

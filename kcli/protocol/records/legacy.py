"""Messages of format 0 and 1 (before Kafka 0.11): single messages, and wrappers with a compressed set inside."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer, walk_batches
from kcli.protocol.records.columns import APPEND_TIME, CREATE_TIME, NO_TIMESTAMP, RecordColumns
from kcli.protocol.records.varints import Ints, Octets

_ATTRIBUTES_AT = 17
_BODY_AT = 18
_TIMESTAMP_BYTES = 8


class Message(NamedTuple):
    """One uncompressed message at `start` to `end`; `batch` is the index of the batch that held it.

    `offset` is absolute. `append_time_ms` is set if its wrapper was stamped by the broker.
    """

    batch: int
    start: int
    end: int
    offset: int
    append_time_ms: int | None = None


def read_messages(buffer: Buffer, data: Octets, messages: list[Message]) -> tuple[RecordColumns, Ints]:
    """The messages as columns, and the indices of those whose key and value do not fit them exactly."""
    starts = np.array([it.start for it in messages], np.int64)
    ends = np.array([it.end for it in messages], np.int64)
    new = data[starts + batch.MAGIC_AT] == 1
    key_at = starts + _BODY_AT + _TIMESTAMP_BYTES * new
    key_lengths = _read_ints(data, key_at, ">i4")
    value_at = key_at + 4 + np.maximum(key_lengths, 0)
    value_lengths = _read_ints(data, value_at, ">i4")
    behind = value_at + 4 + np.maximum(value_lengths, 0)
    bad = np.flatnonzero((key_lengths < -1) | (value_lengths < -1) | (behind != ends))

    timestamps = np.where(new, _read_ints(data, starts + _BODY_AT, ">i8"), -1)
    appended = new & ((data[starts + _ATTRIBUTES_AT] & batch.APPEND_TIME_BIT) != 0)
    types = np.where(new, np.where(appended, APPEND_TIME, CREATE_TIME), NO_TIMESTAMP).astype(np.int8)
    for index, message in enumerate(messages):
        if message.append_time_ms is not None:
            timestamps[index], types[index] = message.append_time_ms, APPEND_TIME
    none = np.zeros(len(messages), np.int64)
    columns = RecordColumns(
        buffer,
        offsets=np.array([it.offset for it in messages], np.int64),
        timestamps_ms=timestamps,
        key_starts=key_at + 4,
        key_lengths=key_lengths,
        value_starts=value_at + 4,
        value_lengths=value_lengths,
        header_starts=behind,
        header_counts=none,
        header_ends=behind,
        timestamp_types=types,
    )
    return columns, bad


def _read_ints(data: Octets, at: Ints, kind: str) -> Ints:
    width = np.dtype(kind).itemsize
    rows: NDArray[np.uint8] = data.take(at[:, None] + np.arange(width), mode="clip")
    return rows.view(kind).reshape(len(at)).astype(np.int64)


def wrapped_set(buffer: memoryview, start: int, end: int) -> memoryview:
    """The compressed message set in the value of the wrapper at `start` to `end`."""
    at = start + _BODY_AT + _TIMESTAMP_BYTES * (buffer[start + batch.MAGIC_AT] == 1)
    for what in ("key", "value"):
        length = int.from_bytes(buffer[at : at + 4], "big", signed=True)
        at += 4
        if not -1 <= length <= end - at:
            raise CorruptRecords(f"the wrapper's {what} claims {length} bytes of {end - at}")
        at += max(length, 0)
    if at != end or length < 0:
        raise CorruptRecords("the wrapper holds no message set")
    return buffer[end - length : end]


def unwrap(buffer: memoryview, start: int, wrapper: memoryview, index: int, check_crcs: bool) -> list[Message]:
    """The messages of the decompressed set `buffer[start:]` that `wrapper`, batch `index`, had inside.

    In format 0 the inner offsets are absolute; in format 1 they are relative, and the wrapper has the last one's.
    """
    walk = walk_batches(buffer, start, len(buffer))
    if walk.problem or walk.truncated or not walk.starts:
        raise CorruptRecords("the message set in the wrapper is broken")
    magic = wrapper[batch.MAGIC_AT]
    offsets = [batch.PREFIX.unpack_from(buffer, start)[0] for start in walk.starts]
    outer_offset = batch.PREFIX.unpack_from(wrapper, 0)[0]
    base = outer_offset - offsets[-1] if magic == 1 else 0
    append_time_ms = None
    if magic == 1 and wrapper[_ATTRIBUTES_AT] & batch.APPEND_TIME_BIT:
        append_time_ms = int.from_bytes(wrapper[_BODY_AT : _BODY_AT + _TIMESTAMP_BYTES], "big", signed=True)
    messages: list[Message] = []
    for offset, start, end in zip(offsets, walk.starts, walk.ends, strict=True):
        if buffer[start + batch.MAGIC_AT] != magic or buffer[start + _ATTRIBUTES_AT] & batch.CODEC_MASK:
            raise CorruptRecords("a message in the wrapper has another format, or is compressed itself")
        if check_crcs and zlib.crc32(buffer[start + batch.MAGIC_AT : end]) != int.from_bytes(
            buffer[start + batch.PREFIX_BYTES : start + batch.MAGIC_AT], "big"
        ):
            raise CorruptRecords(f"the CRC of the message {len(messages)} in the wrapper is wrong")
        if not 0 <= base + offset <= outer_offset:
            raise CorruptRecords("the offsets in the wrapper are impossible")
        messages.append(Message(index, start, end, base + offset, append_time_ms))
    return messages

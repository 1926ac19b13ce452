"""Messages of format 0 and 1 (before Kafka 0.11): single messages, and wrappers with a compressed set inside."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer, walk_batches
from kcli.protocol.records.columns import APPEND_TIME, CREATE_TIME, NO_TIMESTAMP, RecordColumns
from kcli.protocol.records.varints import Ints, Octets

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ATTRIBUTES_AT = 17
_BODY_AT = 18
_TIMESTAMP_BYTES = 8
_OWN_TIME = np.iinfo(np.int64).min
# What a wrapper may hold: a hundred times what the largest one had in practice.
_MOST_MESSAGES = 1 << 18
_MOST_OFFSET = 1 << 62


class Messages(NamedTuple):
    """Uncompressed messages at `starts` to `ends`; `batches` are the indices of the batches that held them.

    `offsets` are absolute. `append_times` are those of wrappers that the broker stamped, else the least int64.
    """

    batches: Ints
    starts: Ints
    ends: Ints
    offsets: Ints
    append_times: Ints

    @classmethod
    def plain(cls, batches: Ints, starts: Ints, ends: Ints, offsets: Ints) -> Messages:
        """Messages that were in no wrapper."""
        return cls(batches, starts, ends, offsets, np.full(len(batches), _OWN_TIME))

    @classmethod
    def join(cls, parts: list[Messages]) -> Messages:
        """All of them, one behind the other."""
        nothing = np.empty(0, np.int64)
        return cls(*(np.concatenate(columns) for columns in zip(cls.plain(*[nothing] * 4), *parts, strict=True)))


def read_messages(buffer: Buffer, data: Octets, messages: Messages) -> tuple[RecordColumns, Ints]:
    """The messages as columns, and the indices of those whose key and value do not fit them exactly."""
    starts = messages.starts
    new = data[starts + batch.MAGIC_AT] == 1
    key_at = starts + _BODY_AT + _TIMESTAMP_BYTES * new
    key_lengths = _read_ints(data, key_at, ">i4")
    value_at = key_at + 4 + np.maximum(key_lengths, 0)
    value_lengths = _read_ints(data, value_at, ">i4")
    behind = value_at + 4 + np.maximum(value_lengths, 0)
    bad = np.flatnonzero((key_lengths < -1) | (value_lengths < -1) | (behind != messages.ends))

    stamped = messages.append_times != _OWN_TIME
    appended = stamped | (new & ((data[starts + _ATTRIBUTES_AT] & batch.APPEND_TIME_BIT) != 0))
    own_times = np.where(new, _read_ints(data, starts + _BODY_AT, ">i8"), -1)
    types = np.where(appended, APPEND_TIME, np.where(new, CREATE_TIME, NO_TIMESTAMP))
    columns = RecordColumns(
        buffer,
        offsets=messages.offsets,
        timestamps_ms=np.where(stamped, messages.append_times, own_times),
        key_starts=key_at + 4,
        key_lengths=key_lengths,
        value_starts=value_at + 4,
        value_lengths=value_lengths,
        header_starts=behind,
        header_counts=np.zeros(len(starts), np.int64),
        header_ends=behind,
        timestamp_types=types.astype(np.int8),
    )
    return columns, bad


def _read_ints(data: Octets, at: Ints, kind: str) -> Ints:
    width = np.dtype(kind).itemsize
    rows: NDArray[np.uint8] = data.take(at[:, None] + np.arange(width), mode="clip")
    return rows.view(kind).reshape(len(at)).astype(np.int64)


def wrapped_set(buffer: memoryview, start: int, end: int) -> memoryview:
    """The compressed message set in the value of the wrapper at `start` to `end`."""
    at = start + _BODY_AT + _TIMESTAMP_BYTES * (buffer[start + batch.MAGIC_AT] == 1)
    length = -1
    for what in ("key", "value"):
        length = int.from_bytes(buffer[at : at + 4], "big", signed=True)
        at += 4
        if not -1 <= length <= end - at:
            raise CorruptRecords(f"the wrapper's {what} claims {length} bytes of {end - at}")
        at += max(length, 0)
    if at != end or length < 0:
        raise CorruptRecords("the wrapper holds no message set")
    return buffer[end - length : end]


def unwrap(buffer: memoryview, data: Octets, start: int, wrapper: memoryview, index: int, check_crcs: bool) -> Messages:
    """The messages of the decompressed set `buffer[start:]` that `wrapper`, batch `index`, had inside.

    In format 0 the inner offsets are absolute; in format 1 they are relative, and the wrapper has the last one's.
    """
    walk = walk_batches(buffer, start, len(buffer), _MOST_MESSAGES)
    if walk.problem or walk.stopped_at != len(buffer) or not walk.starts:
        raise CorruptRecords("the message set in the wrapper is broken, or too large")
    starts, ends = np.array(walk.starts), np.array(walk.ends)
    magic = wrapper[batch.MAGIC_AT]
    if (data[starts + batch.MAGIC_AT] != magic).any() or (data[starts + _ATTRIBUTES_AT] & batch.CODEC_MASK).any():
        raise CorruptRecords("a message in the wrapper has another format, or is compressed itself")
    if check_crcs:
        _check_crcs(buffer, walk.starts.tolist(), walk.ends.tolist())
    offsets = _read_ints(data, starts, ">i8")
    last = batch.PREFIX.unpack_from(wrapper, 0)[0]
    base = last - int(offsets[-1]) if magic == 1 else 0
    if abs(base) <= _MOST_OFFSET:
        offsets += base
    if abs(base) > _MOST_OFFSET or offsets.min() < 0 or offsets.max() > last:
        raise CorruptRecords("the offsets in the wrapper are impossible")
    messages = Messages.plain(np.full(len(starts), index), starts, ends, offsets)
    if magic == 1 and wrapper[_ATTRIBUTES_AT] & batch.APPEND_TIME_BIT:
        stamp = int.from_bytes(wrapper[_BODY_AT : _BODY_AT + _TIMESTAMP_BYTES], "big", signed=True)
        messages.append_times.fill(stamp)
    return messages


def _check_crcs(buffer: memoryview, starts: list[int], ends: list[int]) -> None:
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        expected = int.from_bytes(buffer[start + batch.PREFIX_BYTES : start + batch.MAGIC_AT], "big")
        if zlib.crc32(buffer[start + batch.MAGIC_AT : end]) != expected:
            raise CorruptRecords(f"the CRC of message {number} in the wrapper is wrong")

"""Messages of format 0 and 1 (before Kafka 0.11): plain messages, and wrappers of a compressed message set."""

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
# Bound of messages in a wrapper: a hundred times the largest one seen in practice.
_MAX_MESSAGES = 1 << 22
_MAX_OFFSET = 1 << 62


class Messages(NamedTuple):
    """Uncompressed messages from `starts` to `ends`; `rows` are the batch table's rows of their batches.

    `offsets` are absolute. `append_times` are the append times of their wrappers, else the lowest int64.
    """

    rows: Ints
    starts: Ints
    ends: Ints
    offsets: Ints
    append_times: Ints

    @classmethod
    def plain(cls, rows: Ints, starts: Ints, ends: Ints, offsets: Ints) -> Messages:
        """Return messages without a wrapper."""
        return cls(rows, starts, ends, offsets, np.full(len(rows), _OWN_TIME))

    @classmethod
    def join(cls, parts: list[Messages]) -> Messages:
        """Concatenate messages; there must be some."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def read_messages(buffer: Buffer, data: Octets, messages: Messages) -> tuple[RecordColumns, Ints]:
    """Return the messages as columns, and the indices of those whose key and value do not fill them exactly."""
    starts = messages.starts
    is_v1 = data[starts + batch.MAGIC_AT] == 1
    key_at = starts + _BODY_AT + _TIMESTAMP_BYTES * is_v1
    key_lengths = _read_ints(data, key_at, ">i4").clip(min=-1)  # every negative length is null, as for Java's reader
    value_at = key_at + 4 + np.maximum(key_lengths, 0)
    value_lengths = _read_ints(data, value_at, ">i4").clip(min=-1)
    end_at = value_at + 4 + np.maximum(value_lengths, 0)
    invalid = np.flatnonzero(end_at != messages.ends)

    has_wrapper_time = messages.append_times != _OWN_TIME
    appended = has_wrapper_time | (is_v1 & ((data[starts + _ATTRIBUTES_AT] & batch.APPEND_TIME_BIT) != 0))
    own_times = np.where(is_v1, _read_ints(data, starts + _BODY_AT, ">i8"), -1)
    types = np.where(appended, APPEND_TIME, np.where(is_v1, CREATE_TIME, NO_TIMESTAMP))
    columns = RecordColumns(
        buffer,
        offsets=messages.offsets,
        timestamps_ms=np.where(has_wrapper_time, messages.append_times, own_times),
        key_starts=key_at + 4,
        key_lengths=key_lengths,
        value_starts=value_at + 4,
        value_lengths=value_lengths,
        header_starts=end_at,
        header_counts=np.zeros(len(starts), np.int64),
        header_ends=end_at,
        timestamp_types=types.astype(np.int8),
    )
    return columns, invalid


def _read_ints(data: Octets, at: Ints, kind: str) -> Ints:
    width = np.dtype(kind).itemsize
    rows: NDArray[np.uint8] = data.take(at[:, None] + np.arange(width), mode="clip")
    return rows.view(kind).reshape(len(at)).astype(np.int64)


def wrapped_set(buffer: memoryview, start: int, end: int) -> memoryview:
    """Return the compressed message set in the value of the wrapper `buffer[start:end]`."""
    at = start + _BODY_AT + _TIMESTAMP_BYTES * (buffer[start + batch.MAGIC_AT] == 1)
    length = -1
    for field in ("key", "value"):
        length = int.from_bytes(buffer[at : at + 4], "big", signed=True)
        at += 4
        if length > end - at:
            raise CorruptRecords(f"the length of the wrapper's {field} is {length}, but only {end - at} bytes are left")
        at += max(length, 0)
    if at != end or length < 0:
        raise CorruptRecords("the wrapper contains no message set")
    return buffer[end - length : end]


def unwrap(buffer: memoryview, data: Octets, start: int, wrapper: memoryview, row: int, check_crcs: bool) -> Messages:
    """Return the messages of the decompressed set `buffer[start:]` of `wrapper`, which is the batch in `row`.

    In format 0 the inner offsets are absolute. In format 1 they are relative, and the wrapper's offset is the last one.
    """
    walk = walk_batches(buffer, start, len(buffer), _MAX_MESSAGES)
    if walk.problem or walk.stopped_at != len(buffer) or not walk.starts:
        raise CorruptRecords("the message set in the wrapper is damaged or too large")
    starts, ends = np.array(walk.starts), np.array(walk.ends)
    magic = wrapper[batch.MAGIC_AT]
    if (data[starts + batch.MAGIC_AT] != magic).any() or (data[starts + _ATTRIBUTES_AT] & batch.CODEC_MASK).any():
        raise CorruptRecords("a message in the wrapper has another format or is itself compressed")
    if check_crcs:
        _check_crcs(buffer, walk.starts.tolist(), walk.ends.tolist())
    offsets = _read_ints(data, starts, ">i8")
    last = batch.PREFIX.unpack_from(wrapper, 0)[0]
    base = last - int(offsets[-1]) if magic == 1 else 0
    if abs(base) <= _MAX_OFFSET:
        offsets += base
    if abs(base) > _MAX_OFFSET or offsets.min() < 0 or offsets.max() > last:
        raise CorruptRecords("the offsets in the wrapper are out of range")
    messages = Messages.plain(np.full(len(starts), row), starts, ends, offsets)
    if magic == 1 and wrapper[_ATTRIBUTES_AT] & batch.APPEND_TIME_BIT:
        append_time = int.from_bytes(wrapper[_BODY_AT : _BODY_AT + _TIMESTAMP_BYTES], "big", signed=True)
        messages.append_times.fill(append_time)
    return messages


def _check_crcs(buffer: memoryview, starts: list[int], ends: list[int]) -> None:
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        expected = int.from_bytes(buffer[start + batch.PREFIX_BYTES : start + batch.MAGIC_AT], "big")
        if zlib.crc32(buffer[start + batch.MAGIC_AT : end]) != expected:
            raise CorruptRecords(f"the CRC of message {number} in the wrapper is wrong")

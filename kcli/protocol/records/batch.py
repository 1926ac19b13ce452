"""Record batch headers: the layout of format v2 (KIP-98), one header by value, and the walk over many. No numpy."""

from __future__ import annotations

import struct
from array import array
from typing import NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# Offset, size and the place of the magic byte are the same in message formats 0, 1 and 2.
PREFIX = struct.Struct(">qi")
PREFIX_BYTES = 12
MAGIC_AT = 16
_SIZE_AND_MAGIC = struct.Struct(">8xi4xB")
SMALLEST_MESSAGE_BYTES = 26
_SMALLEST_OLD_SIZE = SMALLEST_MESSAGE_BYTES - PREFIX_BYTES
_OLD_ATTRIBUTES_AT, _OLD_TIMESTAMP_AT = 17, 18
_TIMESTAMP = struct.Struct(">q")

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
_SMALLEST_SIZE = HEADER_BYTES - PREFIX_BYTES
CRC_AT, CRC_FROM = 17, 21
ATTRIBUTES_AT = 21
SMALLEST_RECORD_BYTES = 7

CODEC_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_LAST_SEQUENCE = (1 << 31) - 1


class BatchInfo(NamedTuple):
    """The header of one batch, and its bytes in `records`.

    Times are in ms. Producer id, epoch and sequence are -1 without an idempotent producer. `size` counts all bytes of
    the batch, header included; `records` may be shorter if the buffer ended before the batch did.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size: int
    records: Buffer
    magic: int = 2

    def __repr__(self) -> str:
        producer = (
            f" producer={self.producer_id}/{self.producer_epoch}@{self.base_sequence}" if self.has_producer else ""
        )
        return f"<BatchInfo {self.base_offset}..{self.last_offset} n={self.record_count} {self.size} bytes{producer}>"

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; 0 follows the largest int32. -1 without an idempotent producer."""
        if self.base_sequence < 0:
            return -1
        last = self.base_sequence + self.last_offset - self.base_offset
        return last if last <= _LAST_SEQUENCE else last - _LAST_SEQUENCE - 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which the cleaner may drop the tombstones (KIP-534); None before the first cleaning."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None


def read_batch_info(data: Buffer, at: int = 0) -> BatchInfo:
    """Read the header at `at` without checking it. IndexError or `struct.error` if `data` ends inside the header.

    A message of format 0 or 1 is a batch of one record at one offset, without an epoch or a producer. Its times are -1
    in format 0. A compressed message set of these formats is known by its last offset only.
    """
    if data[at + MAGIC_AT] < 2:
        return _read_old_info(data, at)
    (
        base_offset, size, leader_epoch, magic, _crc, attributes, last_delta, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, count,
    ) = HEADER.unpack_from(data, at)  # fmt: skip
    size += PREFIX_BYTES
    return BatchInfo(
        base_offset, base_offset + last_delta, leader_epoch, attributes, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, count, size, memoryview(data)[at : at + size], magic,
    )  # fmt: skip


def _read_old_info(data: Buffer, at: int) -> BatchInfo:
    offset, size = PREFIX.unpack_from(data, at)
    size += PREFIX_BYTES
    magic = data[at + MAGIC_AT]
    attributes = data[at + _OLD_ATTRIBUTES_AT] & (CODEC_MASK | (APPEND_TIME_BIT if magic else 0))
    time_ms = _TIMESTAMP.unpack_from(data, at + _OLD_TIMESTAMP_AT)[0] if magic else -1
    records = memoryview(data)[at : at + size]
    return BatchInfo(offset, offset, -1, attributes, time_ms, time_ms, -1, -1, -1, 1, size, records, magic)


class Walk(NamedTuple):
    """Positions of the whole batches of a section, each from `starts[i]` to `ends[i]`.

    `stopped_at` is where the walk ended. It lies before the section's end if a partial batch follows (`truncated`), if
    the next bytes cannot be a batch (`problem`), or if the walk reached its maximum of batches.
    """

    starts: array[int]
    ends: array[int]
    stopped_at: int
    truncated: bool = False
    problem: str | None = None


def walk_batches(data: Buffer, start: int, end: int, max_batches: int | None = None) -> Walk:
    """Step over the batches (or messages of format 0 and 1) of `data[start:end]` by their declared sizes."""
    starts: list[int] = []
    add_start, size_and_magic = starts.append, _SIZE_AND_MAGIC.unpack_from
    at, last = start, end - MAGIC_AT
    problem, interrupted = None, False
    remaining = -1 if max_batches is None else max_batches
    while at < last and remaining:
        remaining -= 1
        size, magic = size_and_magic(data, at)
        if size < (_SMALLEST_OLD_SIZE if magic < 2 else _SMALLEST_SIZE):
            problem = f"its size field is {size} bytes, which is too small"
            break
        next_at = at + PREFIX_BYTES + size
        if next_at > end:
            break
        add_start(at)
        at = next_at
    else:
        interrupted = at < last
    ends = array("q", starts[1:])
    if starts:
        ends.append(at)
    return Walk(array("q", starts), ends, at, problem is None and not interrupted and at < end, problem)

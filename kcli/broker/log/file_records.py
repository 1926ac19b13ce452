"""Record batches of a log file: iteration, search by offset, and search for the next valid batch after damage.

Kafka's FileRecords and FileLogInputStream, for batches of format v2 only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kcli.network.file_slice import SliceableFile
from kcli.protocol.records import batch
from kcli.protocol.records.batch import BatchInfo, read_batch_info
from kcli.protocol.records.checksum import crc32c

# A block holds many small batches; of large batches only the headers are read, unless the bodies are needed too.
_HEADERS_BYTES = 4096
_BODIES_BYTES = 1 << 20
_SEARCH_BYTES = 1 << 20
_SCAN = struct.Struct(">qi4xb6xi")  # base offset, size, magic, last offset delta


class LogDamage(Exception):
    """No whole, valid batch at `position` of a log file; `reason` describes the damage."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


def iter_batches(file: SliceableFile, start: int, end: int, *, bodies: bool = False) -> Iterator[tuple[int, BatchInfo]]:
    """Yield (position, batch) of `file[start:end]`. `LogDamage` where a batch is not valid or does not end by `end`.

    With `bodies` the `records` of each batch are complete; without, they may end anywhere after the header. Only the
    header is checked, not the checksum.
    """
    at, block_bytes = start, _BODIES_BYTES if bodies else _HEADERS_BYTES
    while at < end:
        block = file.read_at(at, min(block_bytes, end - at))
        block_end, offset_in_block, min_block_bytes = len(block), 0, 0
        if block_end < batch.HEADER_BYTES:
            raise LogDamage(at, f"{end - at} bytes are too few for a batch")
        while block_end - offset_in_block >= batch.HEADER_BYTES:
            info = read_batch_info(block, offset_in_block)
            reason = _header_error(info, block[offset_in_block + batch.MAGIC_AT], end - at - offset_in_block)
            if reason:
                raise LogDamage(at + offset_in_block, reason)
            if bodies and info.size > block_end - offset_in_block:
                min_block_bytes = info.size
                break
            yield at + offset_in_block, info
            offset_in_block += info.size
        at += offset_in_block
        block_bytes = max(block_bytes, min_block_bytes)


def _header_error(info: BatchInfo, magic: int, available: int) -> str | None:
    if info.size < batch.HEADER_BYTES:
        return f"{info.size} is not a valid batch size"
    if magic != 2:
        return f"{magic} is not a valid batch format"
    if info.size > available:
        return f"only {available} of a batch's {info.size} bytes are present"
    if info.base_offset < 0 or info.last_offset < info.base_offset:
        return f"{info.base_offset} to {info.last_offset} are not valid offsets of a batch"
    return None


def find_batch(file: SliceableFile, end: int, offset: int, floor: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return position and size of the first batch of `file[:end]` whose last offset is at least `offset`, or None.

    `floor` is the index entry to start from: an offset up to `offset`, and the position of a batch whose last offset is
    not larger. (The entries of Kafka's cleaner name the first of several batches with the last offset of the last one.)
    `LogDamage` when there is no such batch at that position, or no valid batch on the way.
    """
    max_offset, at = floor or (None, 0)
    while at < end:
        block = file.read_at(at, min(_HEADERS_BYTES, end - at))
        inner, last_inner = 0, len(block) - batch.HEADER_BYTES
        while inner <= last_inner:
            base, size, magic, delta = _SCAN.unpack_from(block, inner)
            size += batch.PREFIX_BYTES
            last = base + delta
            if (
                magic != 2
                or size < batch.HEADER_BYTES
                or (max_offset is not None and not 0 <= base <= last <= max_offset)
            ):
                raise LogDamage(at + inner, "no valid batch, or not the batch of the index entry")
            if last >= offset:
                return at + inner, size
            max_offset = None
            inner += size
        if not inner:
            raise LogDamage(at, f"{end - at} bytes are too few for a batch")
        at += inner
    return None


def has_valid_checksum(info: BatchInfo) -> bool:
    """Return whether the checksum of a whole batch is right. It does not cover the offset and the leader epoch."""
    stored = int.from_bytes(info.records[batch.CRC_AT : batch.CRC_FROM], "big")
    return crc32c(info.records[batch.CRC_FROM :]) == stored


def next_valid_batch(file: SliceableFile, position: int, size: int, offset: int) -> int | None:
    """Return the position after `position` of the next valid batch with a base offset of at least `offset`, or None."""
    for start in _possible_starts(file, position, size):
        info = valid_batch_at(file, start, size)
        if info is not None and info.base_offset >= offset:
            return start
    return None


def valid_batch_at(file: SliceableFile, position: int, size: int) -> BatchInfo | None:
    """Return the batch at `position` if it is whole and its checksum is valid."""
    try:
        _, info = next(iter_batches(file, position, size))
    except (LogDamage, StopIteration):
        return None
    info = info._replace(records=memoryview(file.read_at(position, info.size)))
    return info if has_valid_checksum(info) else None


def _possible_starts(file: SliceableFile, position: int, size: int) -> Iterator[int]:
    """Yield positions where the batch after a damaged one may start: its end by its own size, then possible headers."""
    prefix = file.read_at(position, batch.PREFIX_BYTES)
    if len(prefix) == batch.PREFIX_BYTES:
        end = position + batch.PREFIX_BYTES + batch.PREFIX.unpack(prefix)[1]
        if position < end < size:
            yield end
    start = position + 1
    while start + batch.MAGIC_AT < size:
        block = file.read_at(start, min(_SEARCH_BYTES, size - start))
        at = block.find(b"\2", batch.MAGIC_AT)
        while at >= 0:
            # Format 2 and an offset below 2^48: every batch written by a broker starts with two zero bytes.
            if block[at - batch.MAGIC_AT : at - batch.MAGIC_AT + 2] == b"\0\0":
                yield start + at - batch.MAGIC_AT
            at = block.find(b"\2", at + 1)
        start += max(len(block) - batch.MAGIC_AT, 1)

"""Batches in a log file: the walk over them, the search for an offset, and the next whole batch after damage."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kcli.network.file_slice import SliceableFile
from kcli.protocol.records import batch
from kcli.protocol.records.batch import BatchInfo, read_batch_info
from kcli.protocol.records.checksum import crc32c

# Small batches lie many in a block; of large ones only the headers are read unless their bodies are asked for.
_HEADERS_BYTES = 4096
_BODIES_BYTES = 1 << 20
_SCAN = struct.Struct(">qi4xb6xi")  # base offset, size, magic, last offset delta


class LogDamage(Exception):
    """At `position` of a log file there is no whole batch; `reason` says what is there instead."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position} {reason}")
        self.position = position
        self.reason = reason


def walk(file: SliceableFile, start: int, end: int, *, bodies: bool = False) -> Iterator[tuple[int, BatchInfo]]:
    """The batches of `file[start:end]` with their positions. `LogDamage` when they do not fill it exactly.

    With `bodies` their `records` are whole; without, they may end anywhere behind the header. Nothing is believed of
    a header but that its size is possible.
    """
    at, block_bytes = start, _BODIES_BYTES if bodies else _HEADERS_BYTES
    while at < end:
        block = file.read_at(at, min(block_bytes, end - at))
        have, inner, wanted = len(block), 0, 0
        if have < batch.HEADER_BYTES:
            raise LogDamage(at, f"are {end - at} bytes, too few for a batch")
        while have - inner >= batch.HEADER_BYTES:
            info = read_batch_info(block, inner)
            reason = _impossible(info, block[inner + batch.MAGIC_AT], end - at - inner)
            if reason:
                raise LogDamage(at + inner, reason)
            if bodies and info.size > have - inner:
                wanted = info.size
                break
            yield at + inner, info
            inner += info.size
        at += inner
        block_bytes = max(block_bytes, wanted)


def _impossible(info: BatchInfo, magic: int, room: int) -> str | None:
    if info.size < batch.HEADER_BYTES:
        return f"something claims to be a batch of {info.size} bytes"
    if magic != 2:
        return f"something claims to be a batch of format {magic}"
    if info.size > room:
        return f"only {room} of a batch's {info.size} bytes are there"
    if info.base_offset < 0 or info.last_offset < info.base_offset:
        return f"a batch claims the offsets {info.base_offset} to {info.last_offset}"
    return None


def find(file: SliceableFile, end: int, offset: int, floor: tuple[int, int] | None) -> tuple[int, int] | None:
    """Position and size of the first batch of `file[:end]` that ends at `offset` or behind it; None: there is none.

    `floor` is an index entry, at or below `offset`, from which to look: an offset, and the position of a batch that
    does not go beyond it. (Kafka's cleaner indexes the first of many batches with the last one's offset.) `LogDamage`
    when it names no such batch, or when something on the way is none.
    """
    most, at = floor or (None, 0)
    while at < end:
        block = file.read_at(at, min(_HEADERS_BYTES, end - at))
        inner, last_inner = 0, len(block) - batch.HEADER_BYTES
        while inner <= last_inner:
            base, size, magic, delta = _SCAN.unpack_from(block, inner)
            size += batch.PREFIX_BYTES
            last = base + delta
            if magic != 2 or size < batch.HEADER_BYTES or (most is not None and not 0 <= base <= last <= most):
                raise LogDamage(at + inner, "is no batch, or not the one that should be there")
            if last >= offset:
                return at + inner, size
            most = None
            inner += size
        if not inner:
            raise LogDamage(at, f"are {end - at} bytes, too few for a batch")
        at += inner
    return None


_BLOCK_BYTES = 1 << 20


def has_right_checksum(info: BatchInfo) -> bool:
    """Whether a whole batch is as it was written, except for its offset and epoch, which no checksum covers."""
    stored = int.from_bytes(info.records[batch.CRC_AT : batch.CRC_FROM], "big")
    return crc32c(info.records[batch.CRC_FROM :]) == stored


def next_whole(file: SliceableFile, position: int, size: int, offset: int) -> int | None:
    """Where behind `position` the next batch begins that is whole and not below `offset`; None when there is none."""
    for start in _possible_starts(file, position, size):
        info = whole_at(file, start, size)
        if info is not None and info.base_offset >= offset:
            return start
    return None


def whole_at(file: SliceableFile, position: int, size: int) -> BatchInfo | None:
    """The batch at `position`, if it is whole."""
    try:
        _, info = next(walk(file, position, size))
    except (LogDamage, StopIteration):
        return None
    info = info._replace(records=memoryview(file.read_at(position, info.size)))
    return info if has_right_checksum(info) else None


def _possible_starts(file: SliceableFile, position: int, size: int) -> Iterator[int]:
    """Where a batch behind a damaged one may begin: at its end, as far as it tells, else where a header may be."""
    prefix = file.read_at(position, batch.PREFIX_BYTES)
    if len(prefix) == batch.PREFIX_BYTES:
        behind = position + batch.PREFIX_BYTES + batch.PREFIX.unpack(prefix)[1]
        if position < behind < size:
            yield behind
    start = position + 1
    while start + batch.MAGIC_AT < size:
        block = file.read_at(start, min(_BLOCK_BYTES, size - start))
        at = block.find(b"\2", batch.MAGIC_AT)
        while at >= 0:
            # Format 2, and an offset below 2^48: so begins every batch that a broker has written.
            if block[at - batch.MAGIC_AT : at - batch.MAGIC_AT + 2] == b"\0\0":
                yield start + at - batch.MAGIC_AT
            at = block.find(b"\2", at + 1)
        start += max(len(block) - batch.MAGIC_AT, 1)

"""Past damage: where in a log file, behind a place that is no batch, the next whole batch begins."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.batches import LogDamage, walk
from kcli.network.file_slice import SliceableFile
from kcli.protocol.records import batch
from kcli.protocol.records.checksum import crc32c

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

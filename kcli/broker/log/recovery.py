"""Recovery of a segment after a crash: check every batch, rebuild the indexes, truncate at the first damaged batch."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from kcli.broker.files import LogFile
from kcli.broker.log.file_records import LogDamage, has_valid_checksum, iter_batches, next_valid_batch, valid_batch_at
from kcli.broker.log.segment import LogSegment, Report
from kcli.broker.log.segment_index import MAX_RELATIVE_OFFSET, SegmentIndex
from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.batch import BatchInfo

_BLOCK_BYTES = 1 << 20


class Truncation(NamedTuple):
    """A truncation of a segment: the first removed offset, the number of removed bytes, and the reason.

    `lost_end_offset` is the end offset of the last whole batch after the damage; None when there was no whole batch, as
    after a torn write.
    """

    offset: int
    lost_bytes: int
    reason: str
    lost_end_offset: int | None

    def sentence(self, *, is_replica: bool) -> str:
        """Return what was truncated and why; `is_replica` as for `loss`."""
        text = f"its last {self.lost_bytes} bytes were truncated ({self.reason}); it continues at offset {self.offset}"
        if self.lost_end_offset is None:
            return text
        lost = loss(is_replica=is_replica)
        return f"{lost}: whole batches up to offset {self.lost_end_offset} followed the damage; {text}"


def loss(*, is_replica: bool) -> str:
    """Return the words for records that had to be removed. A replica may read them back from its leader."""
    return "RECORDS WERE REMOVED, and are lost unless another replica has them" if is_replica else "DATA WAS LOST"


def recover(
    segment: LogSegment, on_batch: Callable[[BatchInfo], None], *, recovery_point: int, report: Report
) -> Truncation | None:
    """Check a segment and truncate it at the first damage of a crash; return the truncation, None without damage.

    Damage below the recovery point was not caused by the crash, because everything there was flushed: it is reported,
    and the batches after it are kept. `CorruptRecords` for the record formats before Kafka 0.11; nothing is changed.
    """
    index = SegmentIndex(segment.base_offset, segment.interval_bytes)
    file, size = segment.file, segment.size
    truncation, start = None, 0
    while start < size:
        try:
            for position, info in iter_batches(file, start, size, bodies=True):
                _check(info, position, index)
                index.add(info, position)
                on_batch(info)
                index.end_position = start = position + info.size
        except LogDamage as damage:
            refuse_old_format(segment, damage.position)
            is_old = index.next_offset < recovery_point
            resumed = next_valid_batch(file, damage.position, size, index.next_offset) if is_old else None
            if resumed is None:
                truncation = _explain(file, damage, index.next_offset, size)
                break
            report(f"{segment.path()} is damaged: {damage}; records there cannot be read")
            index.resume(damage)
            start = resumed
    index.complete()
    segment.replace_index(index, index.end_position)
    segment.seal()
    return truncation


def _check(info: BatchInfo, position: int, index: SegmentIndex) -> None:
    if not has_valid_checksum(info):
        raise LogDamage(position, f"the checksum of the batch at offset {info.base_offset} is wrong")
    if info.base_offset < index.next_offset or info.last_offset - index.base_offset > MAX_RELATIVE_OFFSET:
        raise LogDamage(position, f"the offset {info.base_offset} cannot follow the offset {index.next_offset - 1}")


def truncate_tail(segment: LogSegment) -> Truncation | None:
    """After a clean shutdown: truncate a segment after its last whole batch, which removes at most a torn write.

    Damage before that is reported to readers there; acknowledged records are not removed. `CorruptRecords` as for
    `recover`.
    """
    index, size = segment.index, segment.size
    for damage in index.damages:
        refuse_old_format(segment, damage.position)
    if index.ends_with_whole_batch:
        return None
    tail = LogDamage(index.end_position, index.damages.pop().reason)
    truncation = _explain(segment.file, tail, index.next_offset, size)
    segment.replace_index(index, index.end_position)
    segment.seal()
    return truncation


def refuse_old_format(segment: LogSegment, position: int) -> None:
    """Raise for messages of format 0 and 1 with a valid checksum: they are not damage and must not be truncated."""
    prefix = segment.file.read_at(position, batch.MAGIC_AT + 1)
    if len(prefix) <= batch.MAGIC_AT or prefix[batch.MAGIC_AT] > 1:
        return
    _, message_bytes = batch.PREFIX.unpack_from(prefix)
    if not 0 < message_bytes <= segment.size - position - batch.PREFIX_BYTES:
        return
    message = segment.file.read_at(position + batch.PREFIX_BYTES, message_bytes)
    if zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big"):
        raise CorruptRecords(
            f"{segment.path()} contains records of format {prefix[batch.MAGIC_AT]}, which this broker cannot read "
            "(Kafka wrote it before 0.11); the file was not changed"
        )


def _explain(file: LogFile, damage: LogDamage, offset: int, size: int) -> Truncation:
    lost_bytes = size - damage.position
    if _is_zero(file, damage.position, size):
        return Truncation(offset, lost_bytes, "they are zeros", None)
    lost_end, start = None, next_valid_batch(file, damage.position, size, offset)
    while start is not None:
        while (info := valid_batch_at(file, start, size)) is not None:
            lost_end = max(lost_end or 0, info.last_offset + 1)
            start += info.size
        start = next_valid_batch(file, start, size, offset)
    return Truncation(offset, lost_bytes, str(damage), lost_end)


def _is_zero(file: LogFile, position: int, size: int) -> bool:
    while position < size:
        block = file.read_at(position, min(_BLOCK_BYTES, size - position))
        if block.strip(b"\0"):
            return False
        position += len(block)
    return True

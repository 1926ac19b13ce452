"""A segment after a crash: every batch checked, its indexes made anew, and cut at the first batch that is not whole."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from kcli.broker.files import LogFile
from kcli.broker.log.file_records import LogDamage, has_right_checksum, next_whole, walk, whole_at
from kcli.broker.log.segment import LogSegment, Report
from kcli.broker.log.segment_index import MOST_RELATIVE, SegmentIndex
from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.batch import BatchInfo

_BLOCK_BYTES = 1 << 20


class Cut(NamedTuple):
    """What was cut off a segment: from which offset on, how many bytes, and why.

    `lost_end_offset` is behind the last whole batch that lay behind the damage; None when there was none, as when a
    write was torn.
    """

    offset: int
    lost_bytes: int
    reason: str
    lost_end_offset: int | None

    def __str__(self) -> str:
        what = f"{self.lost_bytes} bytes were cut off its end ({self.reason}), it goes on at offset {self.offset}"
        if self.lost_end_offset is None:
            return what
        return f"DATA WAS LOST: whole batches up to offset {self.lost_end_offset} lay behind the damage; {what}"


def recover(
    segment: LogSegment, on_batch: Callable[[BatchInfo], None], *, recovery_point: int, report: Report
) -> Cut | None:
    """Check a segment to its end or to what a crash has done to it, cut it there, and say what was cut; None: nothing.

    Damage below the recovery point was not done by the crash, since everything there was on the disk: that is reported
    and left to who reads there, and what lies behind it is kept. `CorruptRecords` for records of the formats before
    Kafka 0.11, which are left as they are.
    """
    index = SegmentIndex(segment.base_offset, segment.interval_bytes)
    file, size = segment.file, segment.size
    cut, start = None, 0
    while start < size:
        try:
            for position, info in walk(file, start, size, bodies=True):
                _check(info, position, index)
                index.note(info, position)
                on_batch(info)
                index.end_position = start = position + info.size
        except LogDamage as damage:
            refuse_old_format(segment, damage.position)
            is_old = index.next_offset < recovery_point
            resumed = next_whole(file, damage.position, size, index.next_offset) if is_old else None
            if resumed is None:
                cut = _explain(file, damage, index.next_offset, size)
                break
            report(f"{segment.path()} is damaged: {damage}; records there cannot be read")
            index.resume(damage)
            start = resumed
    index.complete()
    segment.replace_index(index, index.end_position)
    segment.seal()
    return cut


def _check(info: BatchInfo, position: int, index: SegmentIndex) -> None:
    if not has_right_checksum(info):
        raise LogDamage(position, f"the checksum of the batch at offset {info.base_offset} is wrong")
    if info.base_offset < index.next_offset or info.last_offset - index.base_offset > MOST_RELATIVE:
        raise LogDamage(position, f"the offset {info.base_offset} cannot follow on {index.next_offset - 1}")


def cut_tail(segment: LogSegment) -> Cut | None:
    """After a clean stop: cut what follows on the last whole batch of a segment, which is never more than a torn write.

    Damage before that is left to who reads there: what was acknowledged is not thrown away for it. `CorruptRecords`
    as for `recover`.
    """
    index, size = segment.index, segment.size
    for damage in index.damages:
        refuse_old_format(segment, damage.position)
    if index.ends_whole:
        return None
    tail = LogDamage(index.end_position, index.damages.pop().reason)
    cut = _explain(segment.file, tail, index.next_offset, size)
    segment.replace_index(index, index.end_position)
    segment.seal()
    return cut


def refuse_old_format(segment: LogSegment, position: int) -> None:
    """Messages of format 0 and 1 with the right checksum are no damage that anything should be cut for."""
    prefix = segment.file.read_at(position, batch.MAGIC_AT + 1)
    if len(prefix) <= batch.MAGIC_AT or prefix[batch.MAGIC_AT] > 1:
        return
    _, message_bytes = batch.PREFIX.unpack_from(prefix)
    if not 0 < message_bytes <= segment.size - position - batch.PREFIX_BYTES:
        return
    message = segment.file.read_at(position + batch.PREFIX_BYTES, message_bytes)
    if zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big"):
        raise CorruptRecords(
            f"{segment.path()} holds records of format {prefix[batch.MAGIC_AT]}, which Kafka wrote before 0.11 and "
            "this broker does not read; it is left as it is"
        )


def _explain(file: LogFile, damage: LogDamage, offset: int, size: int) -> Cut:
    lost_bytes = size - damage.position
    if _is_zero(file, damage.position, size):
        return Cut(offset, lost_bytes, "they were zeros", None)
    lost_end, start = None, next_whole(file, damage.position, size, offset)
    while start is not None:
        while (info := whole_at(file, start, size)) is not None:
            lost_end = max(lost_end or 0, info.last_offset + 1)
            start += info.size
        start = next_whole(file, start, size, offset)
    return Cut(offset, lost_bytes, str(damage), lost_end)


def _is_zero(file: LogFile, position: int, size: int) -> bool:
    while position < size:
        block = file.read_at(position, min(_BLOCK_BYTES, size - position))
        if block.strip(b"\0"):
            return False
        position += len(block)
    return True

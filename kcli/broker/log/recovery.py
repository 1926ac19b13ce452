"""A segment after a crash: every batch checked, its indexes made anew, and cut at the first batch that is not whole."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kcli.broker.files import LogFile
from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.batches import LogDamage, walk
from kcli.broker.log.segment import LogSegment
from kcli.broker.log.segment_index import SegmentIndex
from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.checksum import crc32c

_MOST_RELATIVE = (1 << 31) - 1
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


def recover(segment: LogSegment, on_batch: Callable[[BatchInfo], None]) -> Cut | None:
    """Check a segment to its end or to its first damage, cut it there, and say what was cut; None: it is whole.

    `CorruptRecords` for records of the formats before Kafka 0.11, which are left as they are.
    """
    index = SegmentIndex(segment.base_offset, segment.interval_bytes)
    file, size, end = segment.file, segment.size, 0
    cut = None
    try:
        for position, info in walk(file, 0, size, bodies=True):
            _check(info, position, index)
            index.note(info, position)
            on_batch(info)
            end = position + info.size
    except LogDamage as damage:
        _refuse_old_format(file, damage.position, size, segment)
        cut = _explain(file, damage, index.next_offset, size)
    index.complete()
    segment.replace_index(index, end)
    segment.seal()
    return cut


def _check(info: BatchInfo, position: int, index: SegmentIndex) -> None:
    if crc32c(info.records[batch.CRC_FROM :]) != int.from_bytes(info.records[batch.CRC_AT : batch.CRC_FROM], "big"):
        raise LogDamage(position, f"the checksum of the batch at offset {info.base_offset} is wrong")
    if info.base_offset < index.next_offset or info.last_offset - index.base_offset > _MOST_RELATIVE:
        raise LogDamage(position, f"the offset {info.base_offset} cannot follow on {index.next_offset - 1}")


def _refuse_old_format(file: LogFile, position: int, size: int, segment: LogSegment) -> None:
    """Messages of format 0 and 1 with the right checksum are no damage that anything should be cut for."""
    prefix = file.read_at(position, batch.MAGIC_AT + 1)
    if len(prefix) <= batch.MAGIC_AT or prefix[batch.MAGIC_AT] > 1:
        return
    _, message_bytes = batch.PREFIX.unpack_from(prefix)
    if not 0 < message_bytes <= size - position - batch.PREFIX_BYTES:
        return
    message = file.read_at(position + batch.PREFIX_BYTES, message_bytes)
    if zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big"):
        raise CorruptRecords(
            f"{segment.path()} holds records of format {prefix[batch.MAGIC_AT]}, which Kafka wrote before 0.11 and "
            "this broker does not read; it is left as it is"
        )


def _explain(file: LogFile, damage: LogDamage, offset: int, size: int) -> Cut:
    lost_bytes = size - damage.position
    if _is_zero(file, damage.position, size):
        return Cut(offset, lost_bytes, "they were zeros", None)
    lost_end = None
    for start in _possible_starts(file, damage.position, size):
        lost_end = _end_of_whole(file, start, size, offset)
        if lost_end is not None:
            break
    return Cut(offset, lost_bytes, str(damage), lost_end)


def _is_zero(file: LogFile, position: int, size: int) -> bool:
    while position < size:
        block = file.read_at(position, min(_BLOCK_BYTES, size - position))
        if block.strip(b"\0"):
            return False
        position += len(block)
    return True


def _possible_starts(file: LogFile, position: int, size: int) -> Iterator[int]:
    """Where batches may begin behind a damaged one: at its end as it claims, else wherever a magic byte might be."""
    prefix = file.read_at(position, batch.PREFIX_BYTES)
    if len(prefix) == batch.PREFIX_BYTES:
        behind = position + batch.PREFIX_BYTES + batch.PREFIX.unpack(prefix)[1]
        if position < behind < size:
            yield behind
    # A batch of the broker begins with an offset of which the two high bytes are zero, and the format is 2.
    block = file.read_at(position + 1, min(_BLOCK_BYTES, size))
    at = block.find(b"\x02", batch.MAGIC_AT)
    while at >= 0:
        if block[at - batch.MAGIC_AT : at - batch.MAGIC_AT + 2] == b"\0\0":
            yield position + 1 + at - batch.MAGIC_AT
        at = block.find(b"\x02", at + 1)


def _end_of_whole(file: LogFile, start: int, size: int, offset: int) -> int | None:
    """The offset behind the last whole batch from `start` on; None when there is none."""
    end = None
    try:
        for position, info in walk(file, start, size, bodies=True):
            if info.base_offset < offset:
                break
            crc = int.from_bytes(info.records[batch.CRC_AT : batch.CRC_FROM], "big")
            if crc32c(info.records[batch.CRC_FROM :]) == crc:
                end = info.last_offset + 1
            elif position == start:
                break
    except LogDamage:
        pass
    return end

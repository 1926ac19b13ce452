"""Record batch headers: the layout of format v2 (KIP-98), and the walk from one to the next. No numpy."""

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


class Walk(NamedTuple):
    """Where the whole batches of a section begin and end, and whether a partial one or a `problem` follows.

    `behind` is where the walk ended: before the section's end, too, when it was to find no more.
    """

    starts: array[int]
    ends: array[int]
    behind: int
    truncated: bool = False
    problem: str | None = None


def walk_batches(data: Buffer, start: int, end: int, most: int | None = None) -> Walk:
    """Step over the batches (or messages of format 0 and 1) of `data[start:end]` by their declared sizes.

    It stops after `most` of them.
    """
    starts: list[int] = []
    found, size_and_magic = starts.append, _SIZE_AND_MAGIC.unpack_from
    at, last = start, end - MAGIC_AT
    problem, interrupted = None, False
    left = -1 if most is None else most
    while at < last and left:
        left -= 1
        size, magic = size_and_magic(data, at)
        if size < (_SMALLEST_OLD_SIZE if magic < 2 else _SMALLEST_SIZE):
            problem = f"it claims a size of {size} bytes"
            break
        behind = at + PREFIX_BYTES + size
        if behind > end:
            break
        found(at)
        at = behind
    else:
        interrupted = at < last
    ends = array("q", starts[1:])
    if starts:
        ends.append(at)
    return Walk(array("q", starts), ends, at, problem is None and not interrupted and at < end, problem)

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
SMALLEST_MESSAGE_BYTES = 26

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
CRC_AT, CRC_FROM = 17, 21
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
    starts, ends = array("q"), array("q")
    at = start
    prefix = PREFIX.unpack_from
    while end - at > MAGIC_AT:
        if len(starts) == most:
            return Walk(starts, ends, at)
        size = prefix(data, at)[1]
        behind = at + PREFIX_BYTES + size
        smallest = SMALLEST_MESSAGE_BYTES if data[at + MAGIC_AT] < 2 else HEADER_BYTES
        if behind - at < smallest:
            return Walk(starts, ends, at, False, f"it claims a size of {size} bytes")
        if behind > end:
            break
        starts.append(at)
        ends.append(behind)
        at = behind
    return Walk(starts, ends, at, at < end)

"""Record batch headers: the layout of format v2 (KIP-98), and the walk from one to the next. No numpy."""

from __future__ import annotations

import struct
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
    """Where the whole batches of a section begin and end, and whether a partial one or a `problem` follows."""

    starts: list[int]
    ends: list[int]
    truncated: bool
    problem: str | None


def walk_batches(data: Buffer, start: int, end: int) -> Walk:
    """Step over the batches (or messages of format 0 and 1) of `data[start:end]` by their declared sizes."""
    starts: list[int] = []
    ends: list[int] = []
    at = start
    prefix = PREFIX.unpack_from
    while end - at > MAGIC_AT:
        size = prefix(data, at)[1]
        behind = at + PREFIX_BYTES + size
        smallest = SMALLEST_MESSAGE_BYTES if data[at + MAGIC_AT] < 2 else HEADER_BYTES
        if behind - at < smallest:
            return Walk(starts, ends, False, f"the batch claims a size of {size} bytes")
        if behind > end:
            break
        starts.append(at)
        ends.append(behind)
        at = behind
    return Walk(starts, ends, at < end, None)

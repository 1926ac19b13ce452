"""Record batch headers of format v2 (KIP-98): their layout, and the walk from one to the next. No numpy."""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# Offset and size are the same for message format 0, 1 and 2, and so is the place of the magic byte.
PREFIX = struct.Struct(">qi")
PREFIX_BYTES = 12
MAGIC_AT = 16
CRC_AT = 17
CRC_FROM = 21
HEADER_BYTES = 61
SMALLEST_RECORD_BYTES = 7

HEADER = struct.Struct(">qiibIhiqqqhii")

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
    """Step over the batches (or v0/v1 messages) of `data[start:end]` by their declared sizes; nothing else is read."""
    starts: list[int] = []
    ends: list[int] = []
    at = start
    prefix = PREFIX.unpack_from
    while end - at > MAGIC_AT:
        size = prefix(data, at)[1]
        smallest = HEADER_BYTES - PREFIX_BYTES if data[at + MAGIC_AT] >= 2 else 14
        if size < smallest:
            return Walk(starts, ends, False, f"the batch claims a size of {size} bytes")
        behind = at + PREFIX_BYTES + size
        if behind > end:
            break
        starts.append(at)
        ends.append(behind)
        at = behind
    return Walk(starts, ends, at < end, None)

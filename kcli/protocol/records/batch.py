"""Record batch headers of format v2 (KIP-98): their layout, and the walk from one to the next."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.records.varints import Buffer

# Offset and size are the same for message format 0, 1 and 2, and so is the place of the magic byte.
PREFIX = struct.Struct(">qi")
PREFIX_BYTES = 12
MAGIC_AT = 16
CRC_AT = 17
CRC_FROM = 21
HEADER_BYTES = 61
SMALLEST_RECORD_BYTES = 7

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_DTYPE = np.dtype(
    [
        ("base_offset", ">i8"),
        ("size", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)

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


def gather_headers(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.void]:
    """The v2 headers at `starts` as one structured array (big-endian fields, see `HEADER_DTYPE`)."""
    rows = data[starts[:, None] + np.arange(HEADER_BYTES)]
    headers: NDArray[np.void] = rows.view(HEADER_DTYPE).reshape(len(starts))
    return headers

"""Decompression of batch payloads into one bounded buffer, whatever size they declare or really have.

Snappy, lz4 and zstd are decompressed by `cramjam` and `lz4`, or by pyarrow where those are not installed: Spark's
executors have pyarrow. Each library is imported when it is first needed.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_unsigned_varint
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, XERIAL_HEADER_BYTES, XERIAL_MAGIC, ZSTD

# A snappy copy element of three bytes yields 64 at most.
_SNAPPY_MAX_RATIO = 22
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
# Gzip members are fed in small blocks because zlib copies the unused input at the end of each member.
_GZIP_INPUT_BYTES = 16 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_STEP_BYTES = 1 << 20
_LZ4_STEP_BYTES = 8 << 20

# The lz4 frame format: the flags follow the magic number; optional fields follow the fixed part of the header.
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_CHECKSUMS, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 0x10, 0x08, 0x04, 0x01
_LZ4_FLAGS_AT, _LZ4_SMALLEST_HEADER = 4, 7
_UINT32 = 0xFFFFFFFF
# The five primes of xxHash32.
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


class OutOfBudget(Exception):
    """The decompressed data would exceed the remaining part of the limit."""


class Output:
    """Decompressed data of many batches: one growing buffer of at most `limit` bytes.

    `data` is valid up to `used`. It moves when it grows or is trimmed, so views of it must not outlive that.
    """

    def __init__(self, limit: int, expected: int = 0) -> None:
        self.limit = limit
        self.used = 0
        self.data = np.empty(min(limit, max(expected, 4096)), np.uint8)
        self._view = memoryview(self.data)  # type: ignore[arg-type]

    def room(self, count: int) -> memoryview:
        """Return the unused part of the buffer, grown to at least `count` bytes; `OutOfBudget` beyond the limit."""
        needed = self.used + count
        if needed > self.limit:
            raise OutOfBudget
        if needed > len(self.data):
            self._resize(min(self.limit, max(needed, 2 * len(self.data))))
        return self._view[self.used :]

    def write(self, data: Buffer) -> None:
        """Append a copy of `data`."""
        start, end = self.used, self.used + len(data)
        if end > len(self.data):
            self.room(len(data))
        self._view[start:end] = data
        self.used = end

    def view(self) -> memoryview:
        """Return the decompressed bytes so far."""
        return self._view[: self.used]

    def trim(self) -> None:
        """Release the unused part, if it is large: a failed batch may have grown the buffer to its limit."""
        if self.used < len(self.data) // 4:
            self._resize(self.used)

    def _resize(self, size: int) -> None:
        self._view.release()
        self.data.resize(size, refcheck=False)
        self._view = memoryview(self.data)  # type: ignore[arg-type]


def decompress(codec: int, payload: memoryview, output: Output, *, magic: int = 2) -> None:
    """Append the decompressed `payload` to `output` (codec 0: a copy).

    `CorruptRecords` for damaged data, `OutOfBudget` beyond the limit; `output.used` is unchanged then. `magic` is the
    message format: lz4 frames in format 0 have a wrong header checksum (KIP-57).
    """
    used_before = output.used
    try:
        if codec == NONE:
            output.write(payload)
        elif codec == GZIP:
            _gunzip(payload, output)
        elif codec == SNAPPY:
            _unsnappy(payload, output)
        elif codec == LZ4:
            _unlz4(with_lz4_header_checksum(payload) if magic == 0 else payload, output)
        elif codec == ZSTD:
            _unzstd(payload, output)
        else:
            raise CorruptRecords(f"the compression codec {codec} is unknown")
    except BaseException:
        output.used = used_before
        raise


@cache
def _library(name: str) -> Any:
    """Import the module `name`; None if only pyarrow can replace it, ImportError if neither is installed."""
    try:
        return import_module(name)
    except ImportError as missing:
        try:
            import_module("pyarrow")
        except ImportError:
            raise missing from None
        return None


def _gunzip(payload: memoryview, output: Output) -> None:
    """Decompress all members in order. Other bytes after the first member are ignored, as Java's reader does."""
    at = _gunzip_member(payload, 0, output)
    while payload[at : at + 2].tobytes() == _GZIP_MAGIC:
        at = _gunzip_member(payload, at, output)


def _gunzip_member(payload: memoryview, at: int, output: Output) -> int:
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    while not unpacker.eof:
        block: bytes | memoryview = payload[at : at + _GZIP_INPUT_BYTES]
        if not block:
            raise CorruptRecords("the gzip data ends too early")
        at += len(block)
        out = b"-"
        while (block or out) and not unpacker.eof:
            try:
                out = unpacker.decompress(block, _GZIP_STEP_BYTES)
            except zlib.error as problem:
                raise CorruptRecords(f"the gzip data is damaged: {problem}") from None
            output.write(out)
            block = unpacker.unconsumed_tail
    return at - len(unpacker.unused_data)


def _unsnappy(payload: memoryview, output: Output) -> None:
    """Decompress xerial-framed blocks, which Java and most others send, or one raw block, which librdkafka sends.

    Several streams of blocks may follow each other, as Java's reader accepts.
    """
    if payload[:8].tobytes() != XERIAL_MAGIC:
        _unsnappy_block(payload, output)
        return
    at = XERIAL_HEADER_BYTES
    while at < len(payload):
        if payload[at : at + 4] == XERIAL_MAGIC[:4]:  # another stream; no block has such a length
            if payload[at : at + 8] != XERIAL_MAGIC or len(payload) - at < XERIAL_HEADER_BYTES:
                raise CorruptRecords("the header of a further snappy stream is damaged")
            at += XERIAL_HEADER_BYTES
            continue
        length = int.from_bytes(payload[at : at + 4], "big")
        at += 4
        if length > len(payload) - at:
            raise CorruptRecords(f"the length of a snappy block is {length}, but only {len(payload) - at} bytes follow")
        _unsnappy_block(payload[at : at + length], output)
        at += length


def _unsnappy_block(block: memoryview, output: Output) -> None:
    cramjam = _library("cramjam")
    if cramjam is None:
        arrow_unsnappy_block(block, output)
        return
    try:
        length = int(cramjam.snappy.decompress_raw_len(block))
        _check_snappy_length(block, length)
        output.used += int(cramjam.snappy.decompress_raw_into(block, output.room(length)))
    except cramjam.DecompressionError as problem:
        raise CorruptRecords(f"the snappy data is damaged: {problem}") from None


def _check_snappy_length(block: memoryview, length: int) -> None:
    if length > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptRecords(f"a snappy block of {len(block)} bytes declares an impossible length of {length}")


def _unlz4(payload: memoryview, output: Output) -> None:
    """Decompress one frame in bounded steps, because its declared content size cannot be trusted."""
    frame = _library("lz4.frame")
    if frame is None:
        arrow_unlz4(payload, output)
        return
    context = frame.create_decompression_context()
    at, step, complete = 0, 64 * 1024 + 4 * len(payload), False
    while not complete:
        try:
            chunk, consumed, complete = frame.decompress_chunk(context, payload[at:], max_length=step)
        except (RuntimeError, ValueError) as problem:
            raise CorruptRecords(f"the lz4 data is damaged: {problem}") from None
        output.write(chunk)
        at += consumed
        if not complete and not chunk and not consumed:
            raise CorruptRecords("the lz4 data ends too early")
        step = min(2 * step, _LZ4_STEP_BYTES)


def _unzstd(payload: memoryview, output: Output) -> None:
    """Decompress all frames.

    cramjam reports a full output buffer only in the text of its error, so any error is retried with a larger buffer
    until the limit is reached.
    """
    cramjam = _library("cramjam")
    if cramjam is None:
        arrow_unzstd(payload, output)
        return
    size = 8 * len(payload) + 4096
    while True:
        available = output.limit - output.used
        room = output.room(min(size, available))
        try:
            output.used += int(cramjam.zstd.decompress_into(payload, room))
            return
        except cramjam.DecompressionError as problem:
            if len(room) >= available:
                if "whole buffer" in str(problem):
                    raise OutOfBudget from None
                raise CorruptRecords(f"the zstd data is damaged: {problem}") from None
        size = 4 * len(room)


def with_lz4_header_checksum(frame: memoryview) -> memoryview:
    """Return a copy of `frame` with the header checksum that the lz4 format defines.

    Message format 0 has another one: early producers computed it wrongly, and the format kept it (KIP-57).
    """
    if frame[:4].tobytes() != _LZ4_MAGIC or len(frame) < _LZ4_SMALLEST_HEADER:
        raise CorruptRecords("the lz4 data has no frame header")
    flags = frame[_LZ4_FLAGS_AT]
    end = 6 + 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY)
    if len(frame) <= end:
        raise CorruptRecords("the lz4 data ends within its frame header")
    corrected = bytearray(frame)
    corrected[end] = xxh32_short(bytes(frame[4:end])) >> 8 & 0xFF
    return memoryview(corrected)


def xxh32_short(data: bytes) -> int:
    """Compute xxHash32 with seed 0 of fewer than 16 bytes."""
    value = _P5 + len(data)
    aligned = len(data) & ~3
    for at in range(0, aligned, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * _P3 & _UINT32
        value = (value << 17 | value >> 15) * _P4 & _UINT32
    for byte in data[aligned:]:
        value = value + byte * _P5 & _UINT32
        value = (value << 11 | value >> 21) * _P1 & _UINT32
    value = (value ^ value >> 15) * _P2 & _UINT32
    value = (value ^ value >> 13) * _P3 & _UINT32
    return value ^ value >> 16


def arrow_unsnappy_block(block: memoryview, output: Output) -> None:
    """Decompress one raw snappy block by pyarrow. Raises as `decompress`."""
    import pyarrow

    try:
        length, _ = read_unsigned_varint(block, 0)
    except ProtocolError:
        raise CorruptRecords("the snappy data is damaged: it does not begin with a length") from None
    _check_snappy_length(block, length)
    output.room(length)
    try:
        out = pyarrow.Codec("snappy").decompress(block, length)
    except (OSError, pyarrow.ArrowException) as problem:
        raise CorruptRecords(f"the snappy data is damaged: {problem}") from None
    output.write(memoryview(out).cast("B"))


def arrow_unlz4(payload: memoryview, output: Output) -> None:
    """Decompress one lz4 frame by pyarrow, whatever size it declares. Raises as `decompress`."""
    _arrow_stream("lz4", payload[: _end_of_first_lz4_frame(payload)], output)


def arrow_unzstd(payload: memoryview, output: Output) -> None:
    """Decompress all zstd frames by pyarrow, whatever size they declare. Raises as `decompress`."""
    _arrow_stream("zstd", payload, output)


def _end_of_first_lz4_frame(payload: memoryview) -> int:
    """Return the end of the first frame, because pyarrow would read on. For invalid frames any position will do."""
    if len(payload) < _LZ4_SMALLEST_HEADER:
        return len(payload)
    flags = payload[_LZ4_FLAGS_AT]
    checksum_bytes = 4 * bool(flags & _LZ4_BLOCK_CHECKSUMS)
    at = _LZ4_SMALLEST_HEADER + 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY)
    while size := int.from_bytes(payload[at : at + 4], "little"):
        at += 4 + (size & 0x7FFFFFFF) + checksum_bytes
    return at + 4 + 4 * bool(flags & _LZ4_CONTENT_CHECKSUM)


def _arrow_stream(codec: str, payload: memoryview, output: Output) -> None:
    import pyarrow

    if not payload:
        raise CorruptRecords(f"the {codec} data ends too early")
    size = 8 * len(payload) + 4096
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(payload), codec) as stream:
            while True:
                available = output.limit - output.used
                if not available and not stream.read(1):
                    return
                count = stream.readinto(output.room(max(1, min(size, available))))
                if not count:
                    return
                output.used += count
                size *= 2
    except (OSError, pyarrow.ArrowException) as problem:
        early = "Truncated" in str(problem)
        raise CorruptRecords(f"the {codec} data {'ends too early' if early else f'is damaged: {problem}'}") from None

"""Compressed payloads taken apart into one bounded buffer, whatever they claim or really hold."""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from typing import Any

from kcli.errors import CorruptRecords
from kcli.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, XERIAL_HEADER_BYTES, XERIAL_MAGIC, ZSTD
from kcli.protocol.records.lz4_header import with_right_checksum
from kcli.protocol.records.output import OutOfBudget, Output

# A snappy copy element of three bytes yields 64 at most.
_SNAPPY_BEST_RATIO = 22
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
# Gzip members are fed in pieces: at the end of each member what it was given and did not use is copied.
_GZIP_PIECE_BYTES = 16 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_STEP_BYTES = 1 << 20
_LZ4_STEP_BYTES = 8 << 20


def decompress(codec: int, payload: memoryview, output: Output, *, magic: int = 2) -> None:
    """Append the decompressed `payload` to `output` (codec 0: a copy).

    `CorruptRecords` or `OutOfBudget` if that cannot be; `output.used` is unchanged then. `magic` is the message format:
    in format 0, lz4 frames have a wrong header checksum.
    """
    before = output.used
    try:
        if codec == NONE:
            output.write(payload)
        elif codec == GZIP:
            _gunzip(payload, output)
        elif codec == SNAPPY:
            _unsnappy(payload, output)
        elif codec == LZ4:
            _unlz4(with_right_checksum(payload) if magic == 0 else payload, output)
        elif codec == ZSTD:
            _unzstd(payload, output)
        else:
            raise CorruptRecords(f"the compression codec {codec} is unknown")
    except BaseException:
        output.used = before
        raise


@cache
def _library(name: str) -> Any:
    """The module `name`, None: pyarrow has to do without it. Without that either, the module's own ImportError."""
    try:
        return import_module(name)
    except ImportError as missing:
        try:
            import_module("pyarrow")
        except ImportError:
            raise missing from None
        return None


def _gunzip(payload: memoryview, output: Output) -> None:
    """All members, one behind the other; anything else behind the first is ignored, as Java's reader does."""
    at = _gunzip_member(payload, 0, output)
    while payload[at : at + 2].tobytes() == _GZIP_MAGIC:
        at = _gunzip_member(payload, at, output)


def _gunzip_member(payload: memoryview, at: int, output: Output) -> int:
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    while not unpacker.eof:
        piece: bytes | memoryview = payload[at : at + _GZIP_PIECE_BYTES]
        if not piece:
            raise CorruptRecords("the gzip data ends too early")
        at += len(piece)
        out = b"-"
        while (piece or out) and not unpacker.eof:
            try:
                out = unpacker.decompress(piece, _GZIP_STEP_BYTES)
            except zlib.error as problem:
                raise CorruptRecords(f"the gzip data is damaged: {problem}") from None
            output.write(out)
            piece = unpacker.unconsumed_tail
    return at - len(unpacker.unused_data)


def _unsnappy(payload: memoryview, output: Output) -> None:
    """Java and most others frame blocks as xerial does; librdkafka sends one raw block."""
    if payload[:8].tobytes() != XERIAL_MAGIC:
        _unsnappy_block(payload, output)
        return
    at = XERIAL_HEADER_BYTES
    while at < len(payload):
        length = int.from_bytes(payload[at : at + 4], "big")
        at += 4
        if length > len(payload) - at:
            raise CorruptRecords(f"a snappy block claims {length} bytes of {len(payload) - at}")
        _unsnappy_block(payload[at : at + length], output)
        at += length


def _unsnappy_block(block: memoryview, output: Output) -> None:
    cramjam = _library("cramjam")
    if cramjam is None:
        from kcli.protocol.records.arrow_codecs import unsnappy_block

        unsnappy_block(block, output, _SNAPPY_BEST_RATIO)
        return
    try:
        length = int(cramjam.snappy.decompress_raw_len(block))
        if length > len(block) * _SNAPPY_BEST_RATIO:
            raise CorruptRecords(f"{len(block)} bytes of snappy data claim to hold {length}")
        output.used += int(cramjam.snappy.decompress_raw_into(block, output.room(length)))
    except cramjam.DecompressionError as problem:
        raise CorruptRecords(f"the snappy data is damaged: {problem}") from None


def _unlz4(payload: memoryview, output: Output) -> None:
    """One frame. Its claimed content size is not believed: the library is asked for a bounded piece at a time."""
    frame = _library("lz4.frame")
    if frame is None:
        from kcli.protocol.records.arrow_codecs import unlz4

        unlz4(payload, output)
        return
    context = frame.create_decompression_context()
    at, step, whole = 0, 64 * 1024 + 4 * len(payload), False
    while not whole:
        try:
            out, used, whole = frame.decompress_chunk(context, payload[at:], max_length=step)
        except (RuntimeError, ValueError) as problem:
            raise CorruptRecords(f"the lz4 data is damaged: {problem}") from None
        output.write(out)
        at += used
        if not whole and not out and not used:
            raise CorruptRecords("the lz4 data ends too early")
        step = min(2 * step, _LZ4_STEP_BYTES)


def _unzstd(payload: memoryview, output: Output) -> None:
    """All frames. The library says too little room in words only, so room is added before anything is believed."""
    cramjam = _library("cramjam")
    if cramjam is None:
        from kcli.protocol.records.arrow_codecs import unzstd

        unzstd(payload, output)
        return
    wanted = 8 * len(payload) + 4096
    while True:
        everything = output.limit - output.used
        room = output.room(min(wanted, everything))
        try:
            output.used += int(cramjam.zstd.decompress_into(payload, room))
            return
        except cramjam.DecompressionError as problem:
            if len(room) >= everything:
                if "whole buffer" in str(problem):
                    raise OutOfBudget from None
                raise CorruptRecords(f"the zstd data is damaged: {problem}") from None
        wanted = 4 * len(room)

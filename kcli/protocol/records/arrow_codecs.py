"""Snappy, lz4 and zstd by pyarrow, where kcli's own libraries are not installed: Spark's executors have pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import CorruptRecords

if TYPE_CHECKING:
    from kcli.protocol.records.output import Output

_LONGEST_VARINT = 5
# The lz4 frame format: the bits of the byte behind the magic number, and where the header ends without what they add.
_BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM, _DICTIONARY = 0x10, 0x08, 0x04, 0x01
_FLAGS_AT, _SMALLEST_HEADER = 4, 7


def unsnappy_block(block: memoryview, output: Output, best_ratio: int) -> None:
    """One raw block, which may claim `best_ratio` bytes for each of its own. Raises as `decompression.decompress`."""
    import pyarrow

    length = _claimed_length(block)
    if length > len(block) * best_ratio:
        raise CorruptRecords(f"{len(block)} bytes of snappy data claim to hold {length}")
    output.room(length)
    try:
        out = pyarrow.Codec("snappy").decompress(block, length)
    except (OSError, pyarrow.ArrowException) as problem:
        raise CorruptRecords(f"the snappy data is damaged: {problem}") from None
    output.write(memoryview(out).cast("B"))


def _claimed_length(block: memoryview) -> int:
    """The varint that a block begins with."""
    length = 0
    for at, byte in enumerate(block[:_LONGEST_VARINT]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return length
    raise CorruptRecords("the snappy data is damaged: it does not begin with a length")


def unlz4(payload: memoryview, output: Output) -> None:
    """One frame, however much it claims to hold. Raises as `decompression.decompress`."""
    _unpack("lz4", payload[: _end_of_first_frame(payload)], output)


def unzstd(payload: memoryview, output: Output) -> None:
    """All frames, however much they claim to hold. Raises as `decompression.decompress`."""
    _unpack("zstd", payload, output)


def _end_of_first_frame(payload: memoryview) -> int:
    """pyarrow would go on with what is behind an lz4 frame. Of what is no frame, any place will do."""
    if len(payload) < _SMALLEST_HEADER:
        return len(payload)
    flags = payload[_FLAGS_AT]
    behind_block = 4 * bool(flags & _BLOCK_CHECKSUMS)
    at = _SMALLEST_HEADER + 8 * bool(flags & _CONTENT_SIZE) + 4 * bool(flags & _DICTIONARY)
    while size := int.from_bytes(payload[at : at + 4], "little"):
        at += 4 + (size & 0x7FFFFFFF) + behind_block
    return at + 4 + 4 * bool(flags & _CONTENT_CHECKSUM)


def _unpack(codec: str, payload: memoryview, output: Output) -> None:
    import pyarrow

    if not payload:
        raise CorruptRecords(f"the {codec} data ends too early")
    wanted = 8 * len(payload) + 4096
    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(payload), codec) as stream:
            while True:
                left = output.limit - output.used
                if not left and not stream.read(1):
                    return
                used = stream.readinto(output.room(max(1, min(wanted, left))))
                if not used:
                    return
                output.used += used
                wanted *= 2
    except (OSError, pyarrow.ArrowException) as problem:
        early = "Truncated" in str(problem)
        raise CorruptRecords(f"the {codec} data {'ends too early' if early else f'is damaged: {problem}'}") from None

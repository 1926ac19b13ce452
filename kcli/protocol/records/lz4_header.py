"""The lz4 frame header of message format 0: its checksum was computed wrongly once, and so it has stayed (KIP-57)."""

from __future__ import annotations

from kcli.errors import CorruptRecords

_FRAME_MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE_BIT, _DICTIONARY_BIT = 0x08, 0x01
_MASK = 0xFFFFFFFF
# xxHash32's five primes.
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def with_right_checksum(frame: memoryview) -> memoryview:
    """A copy of `frame` whose header checksum is as the lz4 frame format wants it, whatever it was."""
    if frame[:4].tobytes() != _FRAME_MAGIC or len(frame) < 7:
        raise CorruptRecords("the lz4 data has no frame header")
    end = 6 + 8 * bool(frame[4] & _CONTENT_SIZE_BIT) + 4 * bool(frame[4] & _DICTIONARY_BIT)
    if len(frame) <= end:
        raise CorruptRecords("the lz4 data ends within its frame header")
    mended = bytearray(frame)
    mended[end] = xxh32_short(bytes(frame[4:end])) >> 8 & 0xFF
    return memoryview(mended)


def xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes."""
    value = _P5 + len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * _P3 & _MASK
        value = (value << 17 | value >> 15) * _P4 & _MASK
    for byte in data[whole:]:
        value = value + byte * _P5 & _MASK
        value = (value << 11 | value >> 21) * _P1 & _MASK
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16

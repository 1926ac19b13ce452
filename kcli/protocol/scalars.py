"""Codecs of single values: numbers, uuids, strings, bytes and records, in classic and compact form."""

import functools
import struct
from collections.abc import Callable
from typing import Any

from kcli.errors import ProtocolError
from kcli.protocol.primitives import (
    Buffer,
    cut_short,
    end_of,
    read_unsigned_varint,
    text,
    text_bytes,
    unsigned_varint,
)
from kcli.protocol.wire import Wire

Read = Callable[[memoryview, int], tuple[Any, int]]
Write = Callable[[Any, list[Buffer]], None]


# Reader and writer of one type in one version, and the smallest size of a value in bytes.
Codec = tuple[Read, Write, int]

# The same for a length prefix. -1 is null; readers reject anything below it.
Length = tuple[Callable[[memoryview, int], tuple[int, int]], Callable[[int], bytes], int]


def scalar(wire: Wire, flexible: bool, nullable: bool) -> Codec:
    """Return the codec of a type that is neither a struct nor an array."""
    if wire.code:
        return _number(wire)
    if wire.name == "uuid":
        return _uuid()
    if wire.name == "string":
        return _string(COMPACT_LENGTH if flexible else INT16_LENGTH, nullable)
    return _bytes(wire.name, COMPACT_LENGTH if flexible else INT32_LENGTH, nullable)


def _number(wire: Wire) -> Codec:
    layout = struct.Struct(">" + wire.code)
    unpack, pack, size = layout.unpack_from, layout.pack, layout.size
    type_name = f"an {wire.name}" if wire.name.startswith("int") else f"a {wire.name}"

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        try:
            return unpack(view, position)[0], position + size
        except struct.error:
            raise cut_short(type_name, position) from None

    def write(value: Any, out: list[Buffer]) -> None:
        try:
            out.append(pack(value))
        except struct.error:
            raise ProtocolError(f"{value!r} is not {type_name}") from None

    return read, write, size


def _uuid() -> Codec:
    from uuid import UUID

    @functools.lru_cache(1024)  # the records of a log, and the rows of a message, repeat the ids of topics
    def from_bytes(data: bytes) -> UUID:
        return UUID(bytes=data)

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        end = end_of("a uuid", view, position, 16)
        return from_bytes(bytes(view[position:end])), end

    def write(value: Any, out: list[Buffer]) -> None:
        out.append(value.bytes)

    return read, write, 16


def _string(length: Length, nullable: bool) -> Codec:
    read_length, write_length, min_size = length

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        size, start = read_length(view, position)
        if size < 0:
            check_null("a string", nullable, position)
            return None, start
        end = end_of("a string", view, start, size)
        return text(view, start, end), end

    def write(value: Any, out: list[Buffer]) -> None:
        if value is None:
            out.append(write_length(null_length("a string", nullable)))
            return
        data = text_bytes(value)
        out.append(write_length(len(data)))
        out.append(data)

    return read, write, min_size


def _bytes(name: str, length: Length, nullable: bool) -> Codec:
    """Return the codec of bytes. `records` stay a view over the frame to avoid a copy; `bytes` are small and copied."""
    read_length, write_length, min_size = length
    keep: Callable[[memoryview], Buffer] = memoryview if name == "records" else bytes
    type_name = "a record set" if name == "records" else "a byte string"

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        size, start = read_length(view, position)
        if size < 0:
            check_null(type_name, nullable, position)
            return None, start
        end = end_of(type_name, view, start, size)
        return keep(view[start:end]), end

    def write(value: Any, out: list[Buffer]) -> None:
        if value is None:
            out.append(write_length(null_length(type_name, nullable)))
            return
        out.append(write_length(len(value)))
        out.append(value)

    return read, write, min_size


def check_null(type_name: str, nullable: bool, position: int) -> None:
    """Raise ProtocolError if a null was read and the version does not allow it."""
    if not nullable:
        raise ProtocolError(f"{type_name} is null, which this version does not allow", position=position)


def null_length(type_name: str, nullable: bool) -> int:
    """Return the length that encodes null; ProtocolError if the version does not allow it."""
    if not nullable:
        raise ProtocolError(f"{type_name} cannot be null in this version")
    return -1


def _fixed_length(code: str, *, least: int = -1) -> Length:
    layout = struct.Struct(">" + code)
    unpack, pack, width = layout.unpack_from, layout.pack, layout.size

    def read(view: memoryview, position: int) -> tuple[int, int]:
        try:
            length: int = unpack(view, position)[0]
        except struct.error:
            raise cut_short("a length", position) from None
        if length < least:
            raise ProtocolError(f"{length} is not a valid length", position=position)
        return length, position + width

    def write(length: int) -> bytes:
        try:
            return pack(length)
        except struct.error:
            raise ProtocolError(f"a length of {length} does not fit in {width} bytes") from None

    return read, write, width


def _compact_length() -> Length:
    """Return the codec of lengths in flexible versions (KIP-482): the length plus one as a varint, zero for null."""

    def read(view: memoryview, position: int) -> tuple[int, int]:
        length, position = read_unsigned_varint(view, position)
        return length - 1, position

    def write(length: int) -> bytes:
        return unsigned_varint(length + 1)

    return read, write, 1


INT16_LENGTH = _fixed_length("h")
INT32_LENGTH = _fixed_length("i")
INT32_COUNT = _fixed_length("i", least=-(2**31))  # of an array: Kafka reads any negative count as null
COMPACT_LENGTH = _compact_length()

"""Varints and bounded spans: the smallest parts of the wire format. Pure; every read is bounded by the view.

Varints as the Kafka protocol guide defines them: seven bits per byte, least significant group first; signed numbers
are zigzag encoded. All readers take (view, position) and return (value, next position). They raise ProtocolError with
the position as evidence. These are the only readers of single varints in kcli; `records.varints` reads whole columns.
"""

from kcli.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

MAX_STRING_BYTES = 0x7FFF  # Kafka rejects longer strings in compact form too, although a varint could express them

_ONE_BYTE = [bytes((n,)) for n in range(0x80)]


def read_unsigned_varint(view: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned number of at most 32 bits in one to five bytes."""
    try:
        byte = view[position]
    except IndexError:
        raise cut_short("a varint", position) from None
    if byte < 0x80:
        return byte, position + 1
    return _read_raw(view, position, 32)


def read_unsigned_varlong(view: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned number of at most 64 bits in one to ten bytes."""
    return _read_raw(view, position, 64)


def read_varint(view: Buffer, position: int) -> tuple[int, int]:
    """Read a signed (zigzag) number of at most 32 bits."""
    raw, position = _read_raw(view, position, 32)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(view: Buffer, position: int) -> tuple[int, int]:
    """Read a signed (zigzag) number of at most 64 bits."""
    raw, position = _read_raw(view, position, 64)
    return (raw >> 1) ^ -(raw & 1), position


def _read_raw(view: Buffer, position: int, bits: int) -> tuple[int, int]:
    start = position
    value = 0
    for shift in range(0, bits, 7):
        try:
            byte = view[position]
        except IndexError:
            raise cut_short("a varint", start) from None
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, position
    raise ProtocolError(f"a varint does not fit in {bits} bits", position=start)


def unsigned_varint(value: int) -> bytes:
    """Encode a number from 0 to 2**32 - 1."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value < 1 << 32:
        raise ProtocolError(f"{value} does not fit in an unsigned number of 32 bits")
    return _varint_bytes(value)


def varlong(value: int) -> bytes:
    """Encode a signed number of 64 bits as a zigzag varint."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ProtocolError(f"{value} does not fit in a signed number of 64 bits")
    return _varint_bytes((value << 1) ^ (value >> 63))


def int64(value: int) -> int:
    """Return the signed number of 64 bits that the arithmetic of Java's long and of numpy's int64 makes of `value`."""
    return value if -(1 << 63) <= value < 1 << 63 else (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def end_of(type_name: str, view: Buffer, position: int, length: int) -> int:
    """Return the end of a span of `length` bytes from `position`; ProtocolError if it does not lie inside the view."""
    end = position + length
    if length < 0 or end > len(view):
        left = len(view) - position
        raise ProtocolError(f"the length of {type_name} is {length} bytes, but only {left} are left", position=position)
    return end


def text(view: Buffer, start: int, end: int) -> str:
    """Return the UTF-8 text of a span that lies inside the view."""
    try:
        return str(view[start:end], "utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("a string is not valid UTF-8", position=start) from None


def text_bytes(value: str) -> bytes:
    """Encode a string as UTF-8; ProtocolError for no string, one longer than Kafka allows or with a lone surrogate."""
    try:
        data = value.encode()
    except AttributeError:
        raise ProtocolError(f"{value!r} is not a string") from None
    except UnicodeEncodeError:
        raise ProtocolError(f"{value!r} cannot be encoded as UTF-8") from None
    if len(data) > MAX_STRING_BYTES:
        raise ProtocolError(f"a string of {len(data)} bytes is longer than the {MAX_STRING_BYTES} that Kafka allows")
    return data


def cut_short(type_name: str, position: int) -> ProtocolError:
    """Make the error for a buffer that ends inside `type_name`."""
    return ProtocolError(f"the bytes end inside {type_name}", position=position)

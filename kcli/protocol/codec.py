"""Message bodies and structs: encode and decode any declared class in any of its versions."""

from typing import Any, TypeVar

from kcli.errors import ProtocolError
from kcli.protocol.compiler import codec_for
from kcli.protocol.primitives import Buffer
from kcli.protocol.scalars import Codec
from kcli.protocol.wire import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def encode(message: Message, version: int) -> bytes:
    """Encode the body of a message. ProtocolError if the version cannot carry a value that is set."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[Buffer]:
    """Encode as `encode`, but do not join the parts: record batches stay the given objects, not copied."""
    parts: list[Buffer] = []
    try:
        _, write, _ = _codec(type(message), version)
        write(message, parts)
    except ProtocolError as error:
        raise _named(error, type(message), version) from None
    return parts


def decode(cls: type[M], data: Buffer, version: int, offset: int = 0) -> M:
    """Decode the message whose body starts at `offset`. Bytes after it are ignored, as Kafka does.

    `Records` fields are views over `data`. ProtocolError with message, field and position for anything malformed.
    """
    try:
        read, _, _ = _codec(cls, version)
        message: M = read(memoryview(data), offset)[0]
    except ProtocolError as error:
        raise _named(error, cls, version) from None
    return message


def is_flexible(cls: type[Message], version: int) -> bool:
    """True if this version has compact lengths and tagged fields (KIP-482)."""
    return cls.FLEXIBLE is not None and version >= cls.FLEXIBLE


def encode_struct(value: object, version: int, *, flexible: bool = False, prefix: bytes = b"") -> bytes:
    """Encode a value of a class declared with `struct`, after `prefix`."""
    parts: list[Buffer] = [prefix]
    _, write, _ = codec_for(type(value), version, flexible)
    write(value, parts)
    return b"".join(parts)


def decode_struct(cls: type[T], data: Buffer, version: int, *, flexible: bool = False, offset: int = 0) -> T:
    """Decode a class declared with `struct` at `offset`. ProtocolError for anything malformed."""
    read, _, _ = codec_for(cls, version, flexible)
    value: T = read(memoryview(data), offset)[0]
    return value


def _codec(cls: type[Message], version: int) -> Codec:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise ProtocolError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return codec_for(cls, version, is_flexible(cls, version))


def _named(error: ProtocolError, cls: type[Any], version: int) -> ProtocolError:
    error.evidence["message"] = f"{cls.__name__} v{version}"
    return error

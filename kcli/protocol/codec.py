"""Message bodies: `encode` and `decode` of any declared message in any of its versions."""

from typing import Any, TypeVar

from kcli.errors import ProtocolError
from kcli.protocol.plan import plan
from kcli.protocol.primitives import Buffer
from kcli.protocol.scalars import Codec
from kcli.protocol.wire import Message

M = TypeVar("M", bound=Message)


def encode(message: Message, version: int) -> bytes:
    """The body of a message. ProtocolError if the version cannot carry what was set."""
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[Buffer]:
    """The same, unjoined; record batches are in it as they were given, not copied."""
    parts: list[Buffer] = []
    try:
        _, write, _ = _codec(type(message), version)
        write(message, parts)
    except ProtocolError as error:
        raise _named(error, type(message), version) from None
    return parts


def decode(cls: type[M], data: Buffer, version: int, offset: int = 0) -> M:
    """The message whose body starts at `offset`. Bytes behind it are ignored, as Kafka does.

    `Records` fields are views over `data`. Anything malformed is a ProtocolError with message, field and position.
    """
    try:
        read, _, _ = _codec(cls, version)
        message, _ = read(memoryview(data), offset)
    except ProtocolError as error:
        raise _named(error, cls, version) from None
    found: M = message
    return found


def is_flexible(cls: type[Message], version: int) -> bool:
    """Whether this version has compact lengths and tagged fields (KIP-482)."""
    return cls.FLEXIBLE is not None and version >= cls.FLEXIBLE


def _codec(cls: type[Message], version: int) -> Codec:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise ProtocolError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return plan(cls, version, is_flexible(cls, version))


def _named(error: ProtocolError, cls: type[Any], version: int) -> ProtocolError:
    error.evidence["message"] = f"{cls.__name__} v{version}"
    return error

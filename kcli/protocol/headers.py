"""Request and response headers, and with them whole frames (without the four bytes of length before them).

Request header v1 is for classic versions, v2 (with tagged fields) for flexible ones; the client id stays a classic
string in both. Response header v1 adds tagged fields for flexible versions, except for ApiVersions: a client that does
not know yet what the broker speaks must be able to read that answer (KIP-511), so it always has header v0.
"""

import struct
from typing import NamedTuple, TypeVar

from kcli.protocol.codec import decode, encode_parts, is_flexible
from kcli.protocol.plan import skip_tags
from kcli.protocol.primitives import Buffer, cut_short
from kcli.protocol.registry import ApiKey, request_type
from kcli.protocol.scalars import scalar
from kcli.protocol.wire import Message, Wire

M = TypeVar("M", bound=Message)

_START = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")
_NO_TAGS = b"\0"
_UNSUPPORTED_VERSION = b"\0\x23"  # error code 35, at the start of an ApiVersions response in every version
_read_client_id, _write_client_id, _ = scalar(Wire("string", nullable=True), flexible=False, nullable=True)


class RequestHeader(NamedTuple):
    """What every request begins with."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request frame."""
    parts: list[Buffer] = [_START.pack(message.API_KEY, version, correlation_id)]
    _write_client_id(client_id, parts)
    if is_flexible(type(message), version):
        parts.append(_NO_TAGS)
    return b"".join(parts + encode_parts(message, version))


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request frame and where the body starts. ProtocolError for an API that we do not have.

    The version is not checked: a broker answers one that it does not speak with UNSUPPORTED_VERSION.
    """
    view = memoryview(frame)
    try:
        key, version, correlation_id = _START.unpack_from(view)
    except struct.error:
        raise cut_short("a request header", 0) from None
    client_id, position = _read_client_id(view, _START.size)
    if is_flexible(request_type(key), version):
        position = skip_tags(view, position)
    return RequestHeader(key, version, correlation_id, client_id), position


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """A response frame."""
    return b"".join(encode_response_parts(message, version, correlation_id))


def encode_response_parts(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """The same, unjoined; record sets are in it as they were given, even if they are slices of a file."""
    parts: list[Buffer] = [_CORRELATION.pack(correlation_id)]
    if is_flexible(type(message), version) and message.API_KEY != ApiKey.API_VERSIONS:
        parts.append(_NO_TAGS)
    return parts + encode_parts(message, version)


def decode_response(response_cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Correlation id and message of a response frame.

    A broker that does not know our version of ApiVersions answers in v0 with error 35 (KIP-511), so that is decoded as
    v0 whatever was asked; the caller sees the error code and the versions to ask with.
    """
    view = memoryview(frame)
    correlation_id, position = peek_correlation_id(view), _CORRELATION.size
    if response_cls.API_KEY == ApiKey.API_VERSIONS:
        if bytes(view[position : position + 2]) == _UNSUPPORTED_VERSION:
            version = 0
    elif is_flexible(response_cls, version):
        position = skip_tags(view, position)
    return correlation_id, decode(response_cls, view, version, position)


def peek_correlation_id(frame: Buffer) -> int:
    """The number that says which request a response frame answers."""
    try:
        found: int = _CORRELATION.unpack_from(frame)[0]
    except struct.error:
        raise cut_short("a response header", 0) from None
    return found

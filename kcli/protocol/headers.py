"""Request and response headers, and whole frames (without the four bytes of length before them).

Request header v1 is for classic versions, v2 (with tagged fields) for flexible ones; the client id is a classic string
in both. Response header v1 adds tagged fields for flexible versions. ApiVersions responses always have header v0,
because a client must be able to read them before it knows the broker's versions (KIP-511).
"""

import struct
from typing import NamedTuple, TypeVar

from kcli.protocol.codec import decode, encode_parts, is_flexible
from kcli.protocol.compiler import skip_tags
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
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request frame."""
    parts: list[Buffer] = [_START.pack(message.API_KEY, version, correlation_id)]
    _write_client_id(client_id, parts)
    if is_flexible(type(message), version):
        parts.append(_NO_TAGS)
    return b"".join(parts + encode_parts(message, version))


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request frame and the start of the body. ProtocolError for an unknown API.

    The version is not checked, because a broker answers an unknown version with UNSUPPORTED_VERSION.
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
    """Encode a response frame."""
    return b"".join(encode_response_parts(message, version, correlation_id))


def encode_response_parts(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Encode as `encode_response`, but do not join the parts: record sets stay the given objects, even file slices."""
    parts: list[Buffer] = [_CORRELATION.pack(correlation_id)]
    if is_flexible(type(message), version) and message.API_KEY != ApiKey.API_VERSIONS:
        parts.append(_NO_TAGS)
    return parts + encode_parts(message, version)


def decode_response(response_cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Return correlation id and message of a response frame.

    A broker that does not know our version of ApiVersions answers in v0 with error 35 (KIP-511), so such a response is
    decoded as v0. The caller sees the error code and the versions to retry with.
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
    """Return the correlation id of a response frame."""
    try:
        correlation_id: int = _CORRELATION.unpack_from(frame)[0]
    except struct.error:
        raise cut_short("a response header", 0) from None
    return correlation_id

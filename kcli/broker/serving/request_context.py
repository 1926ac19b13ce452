"""Requests as the broker handles them: their context, decoding from a frame, and encoding of the response.

Pure: no sockets, no clock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from kcli.broker.handlers.api_table import HANDLERS, ApiTable
from kcli.errors import ProtocolError
from kcli.network.file_slice import FileSlice
from kcli.network.framing import Part
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response_parts
from kcli.protocol.registry import ApiKey, api_name, request_type, response_type
from kcli.protocol.wire import Message, Request, fields_of

#: The principal of a connection without authentication.
ANONYMOUS = "User:ANONYMOUS"
_CORRELATION = struct.Struct(">i")
_API = struct.Struct(">hh")  # key and version, the start of every request


class RequestContext(NamedTuple):
    """The facts of a request besides its body.

    `now_ms` (steady clock) and `now_wall_ms` (wall clock) are the time at which its handling starts. `principal` is
    `User:NAME`; `is_token` is True if it was authenticated by a delegation token. `listener` is the listener's name.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection_id: str
    client_host: str
    now_ms: float
    now_wall_ms: int
    principal: str = ANONYMOUS
    listener: str = "PLAINTEXT"
    is_token: bool = False


class EncodedResponse(NamedTuple):
    """A response that is encoded already, from the end of its correlation id."""

    data: bytes


class CloseConnection(Exception):
    """Raised to close the connection without an answer. The message is the reason."""


def read_request(
    frame: bytearray,
    connection_id: str,
    client_host: str,
    now_ms: float,
    now_wall_ms: int,
    principal: str = ANONYMOUS,
    listener: str = "PLAINTEXT",
    is_token: bool = False,
    served: ApiTable = HANDLERS,
) -> tuple[Request[Any], RequestContext]:
    """Decode a frame. CloseConnection for every frame on which Apache Kafka closes the connection.

    An ApiVersions request of an unknown version is returned empty: its handler sees the version in the context and
    returns the supported versions (KIP-511). Records in a request are views over `frame`. `served` are the APIs and
    their versions.
    """
    try:
        header, body_at = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        context = RequestContext(
            key, version, header.correlation_id, header.client_id, connection_id, client_host, now_ms, now_wall_ms,
            principal, listener, is_token,
        )  # fmt: skip
        if not is_served(key, version, served):
            if key == ApiKey.API_VERSIONS:
                return request_type(key)(), context
            raise CloseConnection(_not_served(key, version, served))
        return decode(request_type(key), frame, version, body_at), context
    except ProtocolError as error:
        key, version = _API.unpack_from(frame) if len(frame) >= _API.size else (ApiKey.API_VERSIONS, 0)
        is_known = is_served(key, version, served)
        raise CloseConnection(str(error) if is_known else _not_served(key, version, served)) from None


def is_served(key: int, version: int, served: ApiTable = HANDLERS) -> bool:
    """Return True if this version of the API is served."""
    api = served.get(key)
    return api is not None and api.first_version <= version <= api.last_version


def _not_served(key: int, version: int, served: ApiTable) -> str:
    api = served.get(key)
    versions = "" if api is None else f"; this broker serves v{api.first_version} to v{api.last_version}"
    return f"{api_name(key)} v{version} is not served{versions}"


def response_parts(
    response: Message | EncodedResponse, context: RequestContext, served: ApiTable = HANDLERS
) -> list[Part]:
    """Encode a response as parts of a frame: file slices as they are, all bytes between them joined."""
    if isinstance(response, EncodedResponse):
        return [_CORRELATION.pack(context.correlation_id) + response.data]
    version = context.api_version
    if context.api_key == ApiKey.API_VERSIONS and not is_served(context.api_key, version, served):
        version = 0
    return _joined(encode_response_parts(response, version, context.correlation_id))


def error_response(context: RequestContext, code: int) -> Message | None:
    """Return a response with only this error; None if responses of the API have no top-level error code."""
    response = response_type(context.api_key)
    if not any(field.name == "error_code" and field.is_in(context.api_version) for field in fields_of(response)):
        return None
    return response(error_code=int(code))  # type: ignore[call-arg]


def _joined(parts: Iterable[Part]) -> list[Part]:
    joined: list[Part] = []
    run: list[Any] = []
    for part in parts:
        if not isinstance(part, FileSlice):
            run.append(part)
        elif len(part):
            joined += [b"".join(run), part]
            run = []
    if run:
        joined.append(b"".join(run))
    return joined

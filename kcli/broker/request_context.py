"""What a handler knows about a request besides its body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kcli.broker.handlers.api_table import HANDLERS
from kcli.errors import ProtocolError
from kcli.network.file_slice import FileSlice
from kcli.network.framing import Part
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response_parts
from kcli.protocol.registry import ApiKey, api_name, request_type, response_type
from kcli.protocol.wire import Message, Request, fields_of


class RequestContext(NamedTuple):
    """`now_ms` is the steady clock's and `now_wall_ms` the wall clock's time at which the request was taken up."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection_id: str
    client_host: str
    now_ms: float
    now_wall_ms: int


class CloseConnection(Exception):
    """Raised by a handler that has no answer: the connection is closed. The text says why."""


def read_request(
    frame: bytearray, connection_id: str, client_host: str, now_ms: float, now_wall_ms: int
) -> tuple[Request[Any], RequestContext]:
    """What a frame asks. CloseConnection for anything that real Kafka answers by closing the connection.

    An ApiVersions request of a version that we don't have comes back as an empty one: its handler sees the version in
    the context and says which versions there are (KIP-511). Records in a request are views over `frame`.
    """
    try:
        header, body_at = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        context = RequestContext(
            key, version, header.correlation_id, header.client_id, connection_id, client_host, now_ms, now_wall_ms
        )
        if not is_served(key, version):
            if key == ApiKey.API_VERSIONS:
                return request_type(key)(), context
            raise CloseConnection(f"{api_name(key)} v{version} is not served")
        return decode(request_type(key), frame, version, body_at), context
    except ProtocolError as error:
        raise CloseConnection(str(error)) from None


def is_served(key: int, version: int) -> bool:
    """Whether the broker answers requests of this version."""
    served = HANDLERS.get(key)
    return served is not None and served.first_version <= version <= served.last_version


def answer_parts(response: Message, context: RequestContext) -> list[Part]:
    """The frame that answers a request, with slices of files left as they are and everything between them joined."""
    version = context.api_version
    if context.api_key == ApiKey.API_VERSIONS and not is_served(context.api_key, version):
        version = 0
    return _joined(encode_response_parts(response, version, context.correlation_id))


def error_answer(context: RequestContext, code: int) -> Message | None:
    """A response that says only this error, for APIs whose responses have one for the whole; None for others."""
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

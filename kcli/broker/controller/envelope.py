"""Requests of clients that a broker forwards in an Envelope (KIP-590): unpacked to be handled, and answered."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.broker.handlers.api_table import ApiTable
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import (
    CloseConnection,
    EncodedResponse,
    RequestContext,
    error_response,
    read_request,
    response_parts,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ProtocolError
from kcli.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse, decode_principal
from kcli.protocol.wire import Message, Request

if TYPE_CHECKING:
    from kcli.broker.serving.server import Answer


def handle_envelope(
    envelope: EnvelopeRequest,
    context: RequestContext,
    handle: Callable[[Request[Any], RequestContext], Answer],
    *,
    forwarded: ApiTable,
    served: ApiTable,
) -> EnvelopeResponse | Pending[EnvelopeResponse]:
    """Handle the request in an envelope, and return its answer in one.

    `forwarded` are the APIs that may be in an envelope, `served` all APIs of this process. BrokerError with the error
    of the envelope if it cannot be opened.
    """
    inner, inner_context = _open(envelope, context, forwarded)
    try:
        answer = handle(inner, inner_context)
    except BrokerError as error:
        answer = error_response(inner_context, error.code)
    except CloseConnection:  # the connection of the client, not that of its broker
        raise BrokerError(ErrorCode.INVALID_REQUEST) from None
    if not isinstance(answer, Pending):
        return _seal(answer, inner_context, served)
    sealed: Pending[EnvelopeResponse] = Pending()
    answer.on_done(lambda value: sealed.complete(_seal(value, inner_context, served)))
    return sealed


def _open(envelope: EnvelopeRequest, context: RequestContext, served: ApiTable) -> tuple[Request[Any], RequestContext]:
    """Return the forwarded request, and its context with principal and address of the client."""
    if envelope.request_principal is None:
        raise BrokerError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        principal = decode_principal(envelope.request_principal)
    except ProtocolError:
        raise BrokerError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    try:
        return read_request(
            bytearray(envelope.request_data),
            context.connection_id,
            _client_host(envelope.client_host_address),
            context.now_ms,
            context.now_wall_ms,
            f"{principal.type}:{principal.name}",
            context.listener,
            principal.token_authenticated,
            served,
        )
    except CloseConnection:
        raise BrokerError(ErrorCode.INVALID_REQUEST) from None


def _seal(response: Message | EncodedResponse | None, context: RequestContext, served: ApiTable) -> EnvelopeResponse:
    """Return the answer to an envelope; `context` is that of the forwarded request."""
    if response is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return EnvelopeResponse(response_data=b"".join(map(bytes, response_parts(response, context, served))))


def _client_host(address: bytes | memoryview) -> str:
    """Return the text of an IPv4 or IPv6 address. BrokerError INVALID_REQUEST for another number of bytes."""
    family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(address))
    if family is None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the client's address in an envelope is not valid")
    return socket.inet_ntop(family, bytes(address))

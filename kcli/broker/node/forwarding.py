"""Requests that only the controller can serve, forwarded in an Envelope for the node's clients (KIP-590).

The request is encoded again as the client sent it; the controller authorizes it for the client's principal and returns
the whole response.
"""

from __future__ import annotations

import socket
from typing import Any

from kcli.broker.handlers.api_table import HANDLERS, ApiTable, ServedApi
from kcli.broker.node.peers import PeerError, Peers
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import CloseConnection, EncodedResponse, RequestContext, error_response
from kcli.broker.serving.timer import Timer
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.protocol.headers import encode_request
from kcli.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message, Request

#: The APIs that a node forwards, as Apache Kafka 4.3.1 does.
FORWARDED = frozenset(
    {*(key for key, api in HANDLERS.items() if not api.module), ApiKey.UNREGISTER_BROKER, ApiKey.DESCRIBE_QUORUM}
)

#: The APIs that a node serves or forwards. A single broker does not serve UnregisterBroker.
NODE_APIS: ApiTable = {**HANDLERS, int(ApiKey.UNREGISTER_BROKER): ServedApi("", 0, 0)}

_CORRELATION_BYTES = 4
_RETRY_MS = 100.0

Answer = Pending[Message | EncodedResponse | CloseConnection]


class Forwarder:
    """Forwards requests to the controller until `request.timeout.ms` is over."""

    def __init__(self, peers: Peers, timer: Timer, clock: Clock, timeout_ms: float) -> None:
        self._peer = peers.controller("forwarding")
        self._timer = timer
        self._clock = clock
        self._timeout_ms = timeout_ms

    def __repr__(self) -> str:
        return f"<Forwarder {self._peer!r}>"

    def forward(self, request: Request[Any], context: RequestContext) -> Answer:
        """Return the answer, which comes later. Without the controller it is REQUEST_TIMED_OUT.

        If the API has no error of the whole request, the connection is closed, and the client tries again.
        """
        data = encode_request(request, context.api_version, context.correlation_id, context.client_id)
        envelope = EnvelopeRequest(
            request_data=data,
            request_principal=encode_principal(context.principal, is_token=context.is_token),
            client_host_address=_address_bytes(context.client_host),
        )
        pending: Answer = Pending()
        deadline_ms = self._clock.now_ms() + self._timeout_ms

        def send() -> None:
            self._peer.send(envelope, on_done, timeout_ms=max(1.0, deadline_ms - self._clock.now_ms()))

        def on_done(answer: EnvelopeResponse | PeerError) -> None:
            is_moving = isinstance(answer, PeerError) or answer.error_code == ErrorCode.NOT_CONTROLLER
            if is_moving and self._clock.now_ms() + _RETRY_MS < deadline_ms:
                self._timer.call_at(self._clock.now_ms() + _RETRY_MS, send)
            elif isinstance(answer, PeerError):
                pending.complete(_refusal(context, ErrorCode.REQUEST_TIMED_OUT))
            elif answer.error_code or answer.response_data is None:
                pending.complete(_refusal(context, answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
            else:
                pending.complete(EncodedResponse(answer.response_data[_CORRELATION_BYTES:]))

        send()
        return pending


def _refusal(context: RequestContext, code: int) -> Message | CloseConnection:
    return error_response(context, code) or CloseConnection(ErrorCode.of(code).name)


def encode_principal(principal: str, *, is_token: bool = False) -> bytes:
    """Encode a principal `TYPE:NAME` as Kafka's DefaultPrincipalData v0."""
    kind, _, name = principal.partition(":")
    return b"\0\0" + _compact(kind) + _compact(name) + (b"\1" if is_token else b"\0") + b"\0"


def _compact(text: str) -> bytes:
    data, size = text.encode(), bytearray()
    length = len(data) + 1
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(size) + bytes([length]) + data


def _address_bytes(host: str) -> bytes:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
    return bytes(4)

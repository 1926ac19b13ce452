"""The SASL state machine of one connection, as in Kafka's SaslServerAuthenticator. Pure: requests in, answers out.

A client may send one ApiVersions request, then SaslHandshake names the mechanism, then the exchange runs until it is
complete: in SaslAuthenticate requests (KIP-152) after SaslHandshake v1, in bare frames after v0. Any other request
closes the connection. A session with an expiry (KIP-368) is renewed by another SaslHandshake on the same connection,
with the same mechanism and principal.

    FIRST -- ApiVersions --> HANDSHAKE
    FIRST, HANDSHAKE, RENEWAL -- SaslHandshake --> EXCHANGE or BARE_EXCHANGE, or WRONG_MECHANISM in a renewal
    EXCHANGE -- SaslAuthenticate --> EXCHANGE ... COMPLETE
    BARE_EXCHANGE -- frame --> BARE_EXCHANGE ... COMPLETE
    COMPLETE -- SaslHandshake, if the session has an expiry --> RENEWAL
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from kcli.broker.serving.request_context import ANONYMOUS, CloseConnection, RequestContext, error_response
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.registry import ApiKey, api_name
from kcli.protocol.wire import Message, Request
from kcli.security.sasl.exchange import Identity, ServerExchange

# A client that renews its session more often gets an error, as in Kafka.
_MIN_RENEWAL_INTERVAL_MS = 1000.0


class State(Enum):
    FIRST = "first request"
    HANDSHAKE = "ApiVersions answered"
    EXCHANGE = "exchange in SaslAuthenticate"
    BARE_EXCHANGE = "exchange in bare frames"
    COMPLETE = "authenticated"
    RENEWAL = "authenticating again"
    WRONG_MECHANISM = "authenticating again with another mechanism"


class ServerMechanism(NamedTuple):
    """A mechanism of a listener. `max_reauth_ms` is its `connections.max.reauth.ms`; 0: no limit."""

    start: Callable[[], ServerExchange]
    max_reauth_ms: int = 0


class Refusal(NamedTuple):
    """The last answer to a client that is not authenticated, and its reason; the connection is closed after it."""

    response: Message
    reason: str


AnswerVersions = Callable[[Any, RequestContext], Any]


class Authenticator:
    """The authentication of one connection. `principal` is set once the state is COMPLETE."""

    def __init__(self, mechanisms: Mapping[str, ServerMechanism], answer_versions: AnswerVersions) -> None:
        """`answer_versions` is the handler of ApiVersions."""
        self.state = State.FIRST
        self.principal = ANONYMOUS
        self.is_token = False
        self.mechanism = ""
        self.expires_at_ms: float | None = None
        self._mechanisms = mechanisms
        self._answer_versions = answer_versions
        self._exchange: ServerExchange | None = None
        self._is_renewal = False
        self._last_renewal_ms: float | None = None

    def __repr__(self) -> str:
        return f"<Authenticator {self.mechanism or 'SASL'} {self.principal} {self.state.value}>"

    @property
    def is_complete(self) -> bool:
        """True if requests go to their handlers."""
        return self.state is State.COMPLETE

    @property
    def expects_bare_frame(self) -> bool:
        """True if the next frame has no request header."""
        return self.state is State.BARE_EXCHANGE

    @property
    def answers_unexpected(self) -> bool:
        """True if `handle` answers a request that is not expected; otherwise it closes the connection."""
        return self.state is State.EXCHANGE

    def expects(self, api_key: int) -> bool:
        """Return True for a request that belongs to the authentication in its present state."""
        return (self.state, api_key) in _STEPS

    def is_expired(self, now_ms: float) -> bool:
        """Return True if the session has ended; the next request, except a renewal, closes the connection."""
        return self.expires_at_ms is not None and now_ms > self.expires_at_ms

    def begin_renewal(self, now_ms: float) -> bool:
        """Let the SaslHandshake that arrived renew the session. False if it goes to its handler, which refuses it."""
        last_ms = self._last_renewal_ms
        if self.expires_at_ms is None or (last_ms is not None and now_ms - last_ms < _MIN_RENEWAL_INTERVAL_MS):
            return False
        self._last_renewal_ms = now_ms
        self._is_renewal = True
        self.state = State.RENEWAL
        return True

    def handle(self, request: Request[Any], context: RequestContext) -> Message | Refusal:
        """Return the answer to a request before the authentication is complete.

        CloseConnection for a request that is not expected in this state.
        """
        step = _STEPS.get((self.state, context.api_key))
        if step is not None:
            return step(self, request, context)
        reason = f"unexpected {api_name(context.api_key)} during authentication: {self.state.value}"
        if self.answers_unexpected:
            response = error_response(context, ErrorCode.ILLEGAL_SASL_STATE)
            if response is not None:
                return Refusal(response, reason)
        raise CloseConnection(reason)

    def handle_bare_frame(self, frame: bytes | bytearray, now_ms: float, now_wall_ms: int) -> bytes:
        """Return the frame to answer. CloseConnection if the client is refused: bare frames have no error."""
        try:
            answer, identity = self._advance(bytes(frame))
            if identity is not None:
                self._complete(identity, now_ms, now_wall_ms)
        except AuthenticationError as error:
            raise CloseConnection(error.message) from None
        return answer

    # ---- the steps ----

    def _versions(self, request: Request[Any], context: RequestContext) -> Message:
        response: Message = self._answer_versions(request, context)
        if not response.error_code:  # type: ignore[attr-defined]
            self.state = State.HANDSHAKE
        return response

    def _handshake(self, request: SaslHandshakeRequest, context: RequestContext) -> Message | Refusal:
        offered = list(self._mechanisms)
        mechanism = self._mechanisms.get(request.mechanism)
        if mechanism is None:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            reason = f"SASL mechanism {request.mechanism} is not enabled on this listener; use {', '.join(offered)}"
            return Refusal(SaslHandshakeResponse(error_code=error, mechanisms=offered), reason)
        if self._is_renewal and request.mechanism != self.mechanism:
            self.state = State.WRONG_MECHANISM  # the next request closes the connection, as in Kafka
        else:
            self.mechanism = request.mechanism
            self._exchange = mechanism.start()
            next(self._exchange)
            self.state = State.EXCHANGE if context.api_version else State.BARE_EXCHANGE
        return SaslHandshakeResponse(mechanisms=offered)

    def _authenticate(self, request: SaslAuthenticateRequest, context: RequestContext) -> Message | Refusal:
        try:
            answer, identity = self._advance(bytes(request.auth_bytes))
            lifetime_ms = 0
            if identity is not None:
                lifetime_ms = self._complete(identity, context.now_ms, context.now_wall_ms)
        except AuthenticationError as error:
            text = self._worded(error.message)
            response = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
            return Refusal(response, f"{self.mechanism}: {text}")
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    # ---- the exchange ----

    def _advance(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Give the client's bytes to the exchange; return the answer, and the identity if that ends the exchange."""
        assert self._exchange is not None
        try:
            return self._exchange.send(message), None
        except StopIteration as end:
            identity: Identity = end.value
            return identity.final, identity

    def _complete(self, identity: Identity, now_ms: float, now_wall_ms: int) -> int:
        """Accept the identity; return the lifetime of the session in ms, 0 without a limit."""
        principal = f"User:{identity.name}"
        if self._is_renewal and principal != self.principal:
            change = f"{_dotted(self.principal)}: {_dotted(principal)}"
            raise AuthenticationError(f"Cannot change principals during re-authentication from {change}")
        limits_ms = [] if identity.expires_at_wall_ms is None else [identity.expires_at_wall_ms - now_wall_ms]
        if (max_reauth_ms := self._mechanisms[self.mechanism].max_reauth_ms) > 0:
            limits_ms.append(max_reauth_ms)
        lifetime_ms = max(0, min(limits_ms, default=0))
        self.expires_at_ms = now_ms + lifetime_ms if limits_ms else None
        self.principal, self.is_token = principal, identity.by_token
        self._exchange = None
        self._is_renewal = False
        self.state = State.COMPLETE
        return lifetime_ms

    def _worded(self, message: str) -> str:
        return message.replace("during authentication", "during re-authentication") if self._is_renewal else message


def _dotted(principal: str) -> str:
    return principal.replace(":", ".", 1)


_STEPS: dict[tuple[State, int], Callable[[Authenticator, Any, RequestContext], Message | Refusal]] = {
    (State.FIRST, ApiKey.API_VERSIONS): Authenticator._versions,
    (State.FIRST, ApiKey.SASL_HANDSHAKE): Authenticator._handshake,
    (State.HANDSHAKE, ApiKey.SASL_HANDSHAKE): Authenticator._handshake,
    (State.RENEWAL, ApiKey.SASL_HANDSHAKE): Authenticator._handshake,
    (State.EXCHANGE, ApiKey.SASL_AUTHENTICATE): Authenticator._authenticate,
}

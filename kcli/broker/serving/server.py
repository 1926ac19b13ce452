"""The broker's connections: accepted within quotas, one request at a time per connection, answers in order.

`SocketServer` does the I/O; `ConnectionQuotas`, `Control` (test hooks) and the handlers decide.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.counters import RequestMetrics
from kcli.broker.handlers.api_table import HANDLERS, ApiTable
from kcli.broker.serving.client_address import canonical_address
from kcli.broker.serving.connection_quotas import ConnectionQuotas
from kcli.broker.serving.pending import Pending, Repeatable
from kcli.broker.serving.request_context import (
    ANONYMOUS,
    CloseConnection,
    EncodedResponse,
    RequestContext,
    error_response,
    read_request,
    response_parts,
)
from kcli.broker.serving.throttling import Throttling
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.control import DROP, SILENCE, Control, Delay, Verdict
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ProtocolError
from kcli.network.selector import Selector
from kcli.protocol.registry import ApiKey, api_name
from kcli.protocol.wire import Message, Request

if TYPE_CHECKING:
    from kcli.broker.quotas import ClientQuotas
    from kcli.broker.security.authenticator import Authenticator
    from kcli.broker.security.secured_connections import ListenerSecurity

Answer = Message | EncodedResponse | Pending[Any] | None
Handle = Callable[[Request[Any], RequestContext], Answer]

_SASL_HANDSHAKE = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_OF_SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_SET_SASL = "set security.protocol to SASL_PLAINTEXT or SASL_SSL"
_SASL_UNEXPECTED = "SASL on a listener without SASL; set security.protocol to PLAINTEXT or SSL"
_TLS_UNEXPECTED = "TLS on a listener without TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
# Pause before accepting again after an error, such as no free file descriptors.
_ACCEPT_AGAIN_MS = 500.0
# A connection may be closed in favour of a new one after it was quiet for this time.
_MIN_IDLE_MS = 1000.0


class OutgoingConnections(Protocol):
    """The owner of connections to other processes in the selector of a `SocketServer`."""

    def dispatch(self, selector: Selector) -> None:
        """Take the events of its connections out of the results of a poll, and process them."""


class _Connection:
    """A client's connection: its address, the listener on which it came, its principal, and its SASL state."""

    __slots__ = ("authenticator", "host", "is_closing", "is_token", "listener", "peer", "principal")

    def __init__(self, host: str, listener: str, authenticator: Authenticator | None) -> None:
        self.host = self.peer = host
        self.listener = listener
        self.authenticator = authenticator
        self.is_closing = False
        self.principal = ANONYMOUS
        self.is_token = False


class SocketServer:
    """Drives a `Selector` made with `half_duplex`. `poll` does all the work, in the broker's loop thread.

    While a request waits for its answer, nothing more is read from its connection, as in Kafka: the next request stays
    in the socket buffer, and a connection that waits longer than `connections.max.idle.ms` is closed.
    """

    def __init__(
        self,
        selector: Selector,
        quotas: ConnectionQuotas,
        handle: Handle,
        control: Control,
        timer: Timer,
        clock: Clock,
        log: Callable[[str, BaseException | None], None],
        *,
        release_descriptors: Callable[[], None] = lambda: None,
        evicts: bool = False,
        refusal_delay_ms: float = 0,
        served: ApiTable = HANDLERS,
    ) -> None:
        """`log` receives messages about the broker's own faults, with the exception if it is a bug.

        `release_descriptors` is called when a connection cannot be accepted; the next try comes after a pause.

        When the connections reach the quota, new ones wait until one ends, as in Kafka. With `evicts` they replace the
        connection that has been quiet for longest.

        A client that cannot be authenticated is told so after `refusal_delay_ms`, and then disconnected. A request that
        is not in `served` closes its connection.
        """
        self.quotas = quotas
        self.requests = RequestMetrics()
        #: The connections that this process has opened itself in the same selector.
        self.outgoing: OutgoingConnections | None = None
        self._selector = selector
        self._handle = handle
        self._control = control
        self._timer = timer
        self._clock = clock
        self._release_descriptors = release_descriptors
        self._evicts = evicts
        self._refusal_delay_ms = refusal_delay_ms
        self._served = served
        self._log = log
        self._securities: dict[str, ListenerSecurity] = {}
        self._accepted_count = 0
        self._connections: dict[str, _Connection] = {}
        self._is_paused = False
        self._repeatable: dict[str, Repeatable] = {}
        #: Returns the quotas of clients, None without any.
        self.client_quotas: Callable[[], ClientQuotas | None] = lambda: None
        self._throttling = Throttling(selector, timer, clock, lambda: self.client_quotas())
        #: Read nothing from a connection for a time, because its client is over a quota.
        self.throttle = self._throttling.throttle

    def __repr__(self) -> str:
        return f"<SocketServer {self.quotas!r}{' not accepting' if self._is_paused else ''}>"

    def poll(self, timeout_ms: float) -> None:
        """Wait up to `timeout_ms` for events, and process them."""
        selector = self._selector
        selector.poll(timeout_ms)
        if self.outgoing is not None:
            self.outgoing.dispatch(selector)
        for id in selector.disconnected:
            if id in selector.violations:
                is_tls = id in selector.refused and not self._has_tls(id)
                self._note_refusal(id, _TLS_UNEXPECTED if is_tls else selector.violations[id])
            self._release_quota(id)
        if self._securities:
            self._update_connections(selector.connected, selector.completed_sends)
        if selector.accepted or selector.accept_error:
            self._accept(selector.accepted, selector.accept_error)
        received, selector.completed_receives = selector.completed_receives, []
        received.reverse()
        while received:  # pop, so that each frame is freed as soon as its request is done
            self._receive(*received.pop())

    def listen_on(
        self, sock: socket.socket, backlog: int, listener: str = "PLAINTEXT", security: ListenerSecurity | None = None
    ) -> None:
        """Accept connections from this bound socket of a listener. `security`: None for PLAINTEXT."""
        if security is not None:
            self._securities[listener] = security
        self._selector.listen_on(sock, backlog, listener)

    def finish_sending(self, timeout_ms: float) -> None:
        """Process no more requests, and wait up to `timeout_ms` until pending answers are sent."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        while self._selector.is_sending and (left_ms := deadline_ms - self._clock.now_ms()) > 0:
            self._selector.poll(left_ms)

    def close(self) -> None:
        """Close all connections without further answers."""
        self._selector.close_all()

    def wakeup(self) -> None:
        """End the wait of `poll`. May be called from any thread."""
        self._selector.wakeup()

    # ---- connections ----

    def _accept(self, accepted: list[tuple[socket.socket, str]], error: OSError | None) -> None:
        for sock, listener in accepted:
            host = _host(sock)
            if self.quotas.is_full and not self._close_idle_connection():
                sock.close()
            elif not self.quotas.allows(host):
                _reset(sock)
            else:
                self._accepted_count += 1
                id = str(self._accepted_count)
                self.quotas.add(id, host)
                now_ms, rates = self._clock.now_ms(), self.client_quotas()
                if rates is not None and (wait_ms := rates.connection_wait_ms(host, now_ms)):
                    self._timer.call_at(now_ms + wait_ms, partial(self._close_unserved, id, sock))
                else:
                    self._register(id, sock, host, listener)
        if error is not None:
            self._release_descriptors()
            self._log(f"cannot accept connections: {error.strerror}; trying again in {_ACCEPT_AGAIN_MS:.0f} ms", None)
            self._timer.call_at(self._clock.now_ms() + _ACCEPT_AGAIN_MS, lambda: self._pause_accepting(False))
        if error is not None or (self.quotas.is_full and not self._evicts):
            self._pause_accepting(True)

    def _close_unserved(self, id: str, sock: socket.socket) -> None:
        """Close a connection that exceeds connection_creation_rate, after its wait (KIP-612)."""
        sock.close()
        self._release_quota(id)

    def _register(self, id: str, sock: socket.socket, host: str, listener: str) -> None:
        security = self._securities.get(listener)
        if security is None:
            self._connections[id] = _Connection(host, listener, None)
            self._selector.register(id, sock)
        else:
            self._connections[id] = _Connection(host, listener, security.authenticator())
            self._selector.register(id, sock, transport=security.transport)
            if security.max_receive_bytes is not None:
                self._selector.limit_frames(id, security.max_receive_bytes)
        channel = self._selector.channel(id)
        self._connections[id].peer = host if channel is None else channel.peer

    def _update_connections(self, connected: list[str], completed_sends: list[str]) -> None:
        """Set the principals of new connections, and close those that are refused after their last answer."""
        for id in connected:
            connection, channel = self._connections[id], self._selector.channel(id)
            security = self._securities.get(connection.listener)
            if security is not None and connection.authenticator is None and channel is not None:
                principal = security.principal(channel.transport)
                if principal is None:
                    self._close_refused(id, "ssl.principal.mapping.rules has no rule for its certificate")
                else:
                    connection.principal = principal
        for id in completed_sends:
            if id in self._connections and self._connections[id].is_closing:
                self._close(id)

    def _close_idle_connection(self) -> bool:
        """Close the connection idle for the longest time, if that is a second and no response is pending."""
        longest_idle = self._selector.longest_idle(self._connections) if self._evicts else None
        if longest_idle is None or self._clock.now_ms() - longest_idle[1] < _MIN_IDLE_MS:
            return False
        self._close(longest_idle[0])
        return True

    def _pause_accepting(self, paused: bool) -> None:
        self._is_paused = paused
        self._selector.pause_accepting(paused)

    def _close(self, id: str) -> None:
        self._selector.close(id)
        self._release_quota(id)

    def _close_refused(self, id: str, reason: str) -> None:
        self._note_refusal(id, reason)
        self._close(id)

    def _note_refusal(self, id: str, reason: str) -> None:
        """Record a refusal for the tests; connections that this process has opened are not refused here."""
        connection = self._connections.get(id)
        if connection is not None:
            self._control.refuse(connection.peer, connection.listener, reason)

    def _has_tls(self, id: str) -> bool:
        connection = self._connections.get(id)
        security = None if connection is None else self._securities.get(connection.listener)
        return security is not None and security.endpoint.has_tls

    def _release_quota(self, id: str) -> None:
        self.quotas.remove(id)
        self._connections.pop(id, None)
        self._repeatable.pop(id, None)
        self._throttling.forget(id)
        if self._is_paused:
            self._pause_accepting(False)

    # ---- requests ----

    def _receive(self, id: str, frame: bytearray) -> None:
        if not self._selector.is_connected(id):  # closed since the frame arrived
            return
        now_ms, now_wall_ms = self._clock.now_ms(), self._clock.wall_ms()
        connection = self._connections[id]
        if connection.authenticator is not None and self._authenticate(
            id, connection, connection.authenticator, frame, now_ms, now_wall_ms
        ):
            return
        if id in self._repeatable and self._resume_idle(id, frame, now_ms, now_wall_ms):
            return
        try:
            request, context = read_request(
                frame,
                id,
                connection.host,
                now_ms,
                now_wall_ms,
                connection.principal,
                connection.listener,
                connection.is_token,
                self._served,
            )
        except CloseConnection as refusal:
            self._close_refused(id, str(refusal))
            return
        self._apply(self._control.decide(request, context), request, context)

    def _authenticate(
        self,
        id: str,
        connection: _Connection,
        authenticator: Authenticator,
        frame: bytearray,
        now_ms: float,
        now_wall_ms: int,
    ) -> bool:
        """Handle a frame that is not for hooks and handlers; return False for a request that is.

        These are bare SASL frames, requests after the end of a session, and unexpected ones before its begin. A
        SaslHandshake may start the renewal of the session.
        """
        if authenticator.is_complete:
            is_handshake = frame[:2] == _SASL_HANDSHAKE
            if not (is_handshake and authenticator.begin_renewal(now_ms)) and authenticator.is_expired(now_ms):
                self._close_refused(id, "its SASL session has expired")
                return True
        if not authenticator.expects_bare_frame:
            if authenticator.is_complete or authenticator.expects(int.from_bytes(frame[:2], "big")):
                return False
            if authenticator.answers_unexpected:
                self._refuse_unexpected(id, connection, frame, now_ms, now_wall_ms)
            else:
                api = api_name(int.from_bytes(frame[:2], "big"))
                self._close_refused(id, f"{api} without authentication on a listener with SASL; {_SET_SASL}")
            return True
        try:
            answer = authenticator.handle_bare_frame(frame, now_ms, now_wall_ms)
        except CloseConnection as refusal:
            self._close_refused(id, str(refusal))
            return True
        self._selector.send(id, [answer])
        self._update_principal(id, connection, authenticator)
        return True

    def _refuse_unexpected(
        self, id: str, connection: _Connection, frame: bytearray, now_ms: float, now_wall_ms: int
    ) -> None:
        try:
            self._call_handler(*read_request(frame, id, connection.host, now_ms, now_wall_ms, served=self._served))
        except CloseConnection as refusal:
            self._close_refused(id, str(refusal))

    def _update_principal(self, id: str, connection: _Connection, authenticator: Authenticator) -> None:
        if authenticator.is_complete:
            connection.principal, connection.is_token = authenticator.principal, authenticator.is_token
            self._selector.limit_frames(id)

    def _handle_authentication(
        self, request: Request[Any], context: RequestContext, authenticator: Authenticator
    ) -> Message | None:
        """Return the next answer to a client that is not authenticated; None if it is refused, and told so later."""
        answer = authenticator.handle(request, context)
        id = context.connection_id
        if isinstance(answer, Message):
            self._update_principal(id, self._connections[id], authenticator)
            return answer
        response = answer.response
        self._note_refusal(id, answer.reason)
        self._selector.mute(id)
        self._timer.call_at(context.now_ms + self._refusal_delay_ms, lambda: self._refuse(response, context))
        return None

    def _refuse(self, response: Message, context: RequestContext) -> None:
        if self._selector.is_connected(context.connection_id):
            self._connections[context.connection_id].is_closing = True
            self._send(response, context)

    def _resume_idle(self, id: str, frame: bytearray, now_ms: float, now_wall_ms: int) -> bool:
        """Let the same request as before wait again; False if the frame must be decoded."""
        idle = self._repeatable.pop(id)
        resumed = None if self._control.has_hooks else idle.resume(frame, now_ms, now_wall_ms)
        if resumed is None:
            return False
        self._control.record(resumed[1])
        self._wait(*resumed)
        return True

    def _apply(self, verdict: Verdict, request: Request[Any], context: RequestContext) -> None:
        id = context.connection_id
        if verdict is None:
            self._call_handler(request, context)
        elif verdict is DROP:
            self._close(id)
        elif verdict is SILENCE:
            self._selector.mute(id)
        elif isinstance(verdict, Delay):
            self._selector.mute(id)
            self._timer.call_at(context.now_ms + verdict.ms, lambda: self._resume(request, context))
        else:
            assert isinstance(verdict, Message)
            self._send(verdict, context)

    def _resume(self, request: Request[Any], context: RequestContext) -> None:
        if self._selector.is_connected(context.connection_id):
            self._selector.unmute(context.connection_id)
            self._call_handler(request, context)

    def _call_handler(self, request: Request[Any], context: RequestContext) -> None:
        authenticator = self._connections[context.connection_id].authenticator
        try:
            result: Answer
            if authenticator is not None and not authenticator.is_complete:
                result = self._handle_authentication(request, context, authenticator)
            else:
                if authenticator is None and context.api_key in _OF_SASL:
                    self._note_refusal(context.connection_id, _SASL_UNEXPECTED)
                begin_ms = self._clock.now_ms()
                result = self._handle(request, context)
                self._throttling.measure(request, context, begin_ms)
        except CloseConnection as refusal:
            self._close_refused(context.connection_id, str(refusal))
            return
        except BrokerError as error:
            self._send_error(context, error.code)
            return
        except Exception as bug:
            self._log(f"{api_name(context.api_key)} v{context.api_version} failed", bug)
            self._send_error(context, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if not isinstance(result, Pending):
            self._send(result, context)
        elif result.is_done:
            self._send(result.value, context)
        else:
            self._wait(result, context)

    def _wait(self, pending: Pending[Any], context: RequestContext) -> None:
        """Send the answer when it is complete, and read nothing more from the connection until then."""
        self._selector.mute(context.connection_id)
        pending.on_done(lambda response: self._send_delayed(response, pending, context))

    def _send_delayed(
        self,
        response: Message | EncodedResponse | CloseConnection | None,
        pending: Pending[Any],
        context: RequestContext,
    ) -> None:
        id = context.connection_id
        if not self._selector.is_connected(id):
            return
        if isinstance(response, CloseConnection):
            self._close(id)
            return
        if pending.repeatable is not None:
            self._repeatable[id] = pending.repeatable
        if id not in self._throttling:
            self._selector.unmute(id)
        self._send(response, context)

    def _send(self, response: Message | EncodedResponse | None, context: RequestContext) -> None:
        """Send the response; None means that the request gets none."""
        self.requests.record(context, response, self._clock.now_ms())
        self._throttling.apply(response, context)
        if response is None:
            return
        try:
            parts = response_parts(response, context, self._served)
        except (ProtocolError, ValueError) as bug:
            self._log(
                f"{api_name(context.api_key)} v{context.api_version} returned a response that cannot be encoded", bug
            )
            self._close(context.connection_id)
            return
        self._selector.send(context.connection_id, parts)

    def _send_error(self, context: RequestContext, code: int) -> None:
        response = error_response(context, code)
        if response is None:
            self._close(context.connection_id)
        else:
            self._send(response, context)


def _host(sock: socket.socket) -> str:
    try:
        return canonical_address(str(sock.getpeername()[0]))
    except OSError:  # disconnected already
        return ""


def _reset(sock: socket.socket) -> None:
    """Close with a TCP reset, as Kafka does above `max.connections.per.ip`."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    sock.close()

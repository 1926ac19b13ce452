"""The network client: one connection per node, handshakes, requests in flight, metadata. Single-threaded.

Decisions are made in pure modules (`connection_states`, `in_flight`, `metadata`, `api_versions`, `authentication`).

With SASL, a session may have an end. Before the first request after 85 to 95 % of it, the client waits for the
responses in flight and authenticates again on the same connection; other requests to the node wait until then. The
session of an idle connection is renewed before its next request, which a broker accepts even after the session's end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.client.backoff import Backoff, uniform
from kcli.client.connection import api_versions
from kcli.client.connection.api_versions import Offer, Versions, choose_version
from kcli.client.connection.connection_faults import ConnectionFaults
from kcli.client.connection.connection_states import (
    AUTHENTICATING,
    ConnectionStates,
    least_loaded,
)
from kcli.client.connection.connections import Connections, Resolve, address_of
from kcli.client.connection.in_flight import InFlight, InFlightRequests
from kcli.client.metadata import Metadata, MetadataUpdater
from kcli.client.metrics import ClientMetrics
from kcli.client.request_future import RequestFuture
from kcli.clock import Clock
from kcli.errors import AuthenticationError, ConfigError, DisconnectedError, KcliError, ProtocolError
from kcli.host_names import resolve
from kcli.logs import RepeatedWarnings
from kcli.protocol.headers import decode_response, encode_request, peek_correlation_id
from kcli.protocol.wire import Request
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.client.connection.security import ClientSecurity
    from kcli.network.selector import Selector

T = TypeVar("T")

_PRODUCE, _SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 0, 17, 18, 36
_HANDSHAKES = (_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE)
# If a node takes longer to connect, another node is preferred; the attempt continues.
_SLOW_CONNECT_MS = 1_000.0
# The part of a SASL session's lifetime after which it is renewed, as Java does: random, so that the clients of a broker
# do not all authenticate at once.
_RENEWED_AFTER = (0.85, 0.95)


class Completion:
    """The end of a request: a response or an error. The caller settles its future while it holds no lock."""

    __slots__ = ("error", "future", "response")

    def __init__(self, future: RequestFuture[Any], response: Any = None, error: KcliError | None = None) -> None:
        self.future = future
        self.response = response
        self.error = error

    def settle(self) -> None:
        if self.error is not None:
            self.future.fail(self.error)
        else:
            self.future.complete(self.response)


class NetworkClient:
    """Connect to a node with `ready`, then `send` to it, and `poll`. Only `poll` and the name service block."""

    def __init__(
        self,
        selector: Selector,
        metadata: Metadata,
        config: ClientConfig,
        clock: Clock,
        *,
        max_in_flight: int = 100,
        resolve: Resolve = resolve,
        uniform: Callable[[float, float], float] = uniform,
        security: ClientSecurity | None = None,
    ) -> None:
        self.metadata = metadata
        self.metrics = ClientMetrics()
        #: The newest finalized features of the cluster that a broker has reported: name -> level.
        self.features: dict[str, int] = {}
        self._features_epoch = -1
        #: Called with a sentence for each new secured connection: TLS version and cipher, mechanism and principal.
        self.on_secured: Callable[[str], object] | None = None
        self._warnings = RepeatedWarnings("kcli.client")
        self._selector = selector
        self._clock = clock
        self._client_id = config.client_id
        self._request_timeout_ms = config.request_timeout_ms
        self._uniform = uniform
        self._states = ConnectionStates(
            Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, uniform=uniform),
            Backoff(
                config.socket_connection_setup_timeout_ms,
                config.socket_connection_setup_timeout_max_ms,
                uniform=uniform,
            ),
        )
        self._security = security
        self._connections = Connections(selector, self._states, config, resolve, security)
        self._faults = ConnectionFaults(self._states, self._connections, metadata, security)
        self._in_flight = InFlightRequests(max_in_flight)
        self._updater = MetadataUpdater(metadata, config, self, self._send_metadata_request, clock.now_ms)
        if security is not None:
            security.on_progress(selector.wakeup)
        self._waiting: dict[int, Callable[[float], None]] = {}  # handshakes that wait beside their connection, by node
        self._only_v0: set[int] = set()  # nodes whose response to a newer ApiVersions could not be decoded
        self._completed: list[Completion] = []
        self._last_correlation_id = 0

    def __repr__(self) -> str:
        return f"<NetworkClient {self._states} {self._in_flight}>"

    # The state of nodes

    def least_loaded_node(self, now_ms: float) -> Node | None:
        """Return the node for a request that any node can serve; None while all are in backoff."""
        nodes = list(self.metadata.cluster.nodes.values())
        first = int(self._uniform(0, len(nodes))) % len(nodes) if nodes else 0
        return least_loaded(nodes[first:] + nodes[:first], self._states, self._in_flight, now_ms, _SLOW_CONNECT_MS)

    def can_send(self, node_id: int, now_ms: float) -> bool:
        """Return whether the node is ready and not throttled, and its last request is completely written."""
        return (
            self._states.is_ready(node_id)
            and not self._states.session_ends(node_id, now_ms)
            and not self._states.is_throttled(node_id, now_ms)
            and self._in_flight.can_send(node_id)
        )

    def failure(self, node_id: int) -> str | None:
        """Return the reason of a lost or failed connection; None if there is none to report."""
        return self._states.failure(node_id)

    def refusal(self, node_id: int | None = None) -> KcliError | None:
        """Return the error of a failed authentication with a node; without an id only if no node has a connection."""
        if node_id is None:
            return self._states.refusal_of_all(self._clock.now_ms())
        return self._states.refusal(node_id)

    def delay_ms(self, node_id: int, now_ms: float) -> float:
        """Return the backoff of the node; infinity while only an event changes its state."""
        return self._states.delay_ms(node_id, now_ms)

    def in_flight_count(self, node_id: int | None = None) -> int:
        """Return the number of requests in flight, to one node or to all, including the client's own."""
        return self._in_flight.count(node_id)

    def negotiated(self, node_id: int) -> Versions | None:
        """Return the versions that the node supports; None while it is not connected."""
        return self._states.of(node_id).versions if self._states.is_established(node_id) else None

    def connection_error(self, node_id: int) -> str | None:
        """Return the reason why a node is not ready; None if it is, or was never tried."""
        return self._faults.not_ready(node_id, self._clock.now_ms())

    # Requests

    def ready(self, node: Node, now_ms: float) -> bool:
        """Return whether a request can be sent to `node` now. If not, connect to it, unless it is in backoff."""
        if self._connections.has_moved(node):
            self.disconnect(node.id, f"node {node.id} has moved to {node.host}:{node.port}")
        if self._states.can_connect(node.id, now_ms):
            self._connections.open(node, now_ms)
            if (reason := self._states.failure(node.id)) is not None:  # its host name has no address
                self._warn(node.id, reason, now_ms, was_ready=False)
        elif self._states.can_renew(node.id, now_ms) and not self._in_flight.count(node.id):
            self._authenticate(node.id, now_ms)
        return self.can_send(node.id, now_ms)

    def send(
        self,
        node: Node,
        request: Request[Any],
        future: RequestFuture[Any],
        now_ms: float,
        *,
        deadline_ms: float,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Send to a node that is `ready`. A request that the node does not support fails at the next poll."""
        self._send_as(node, request, future, now_ms, deadline_ms, min_version, max_version, internal=False)

    def poll(self, timeout_ms: float) -> list[Completion]:
        """Wait for network events, at most `timeout_ms`, and return the completed requests."""
        now_ms = self._clock.now_ms()
        refresh_ms = self._updater.refresh(now_ms, _SLOW_CONNECT_MS)
        deadline_ms = min(self._in_flight.next_deadline_ms(), self._states.next_deadline_ms())
        wait_ms = 0.0 if self._completed else min(timeout_ms, refresh_ms, deadline_ms - now_ms)
        self._selector.poll(max(wait_ms, 0.0))
        now_ms = self._clock.now_ms()
        self.metrics.polled(self._selector.waited_ns, self._selector.io_ns, now_ms)
        self._take_events(now_ms)
        for resume in [self._waiting.pop(node_id) for node_id in list(self._waiting)]:
            resume(now_ms)
        self._drop_overdue(now_ms)
        completed, self._completed = self._completed, []
        return completed

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection to a node. Its requests fail with `reason`; the next attempt has no backoff."""
        if self._states.of(node_id).channel_id:
            self._drop(node_id, reason, self._clock.now_ms(), intended=True)

    def adopt(self, bootstrap: Node, node: Node) -> None:
        """Move the connection to a bootstrap address to the broker that advertises it, if that has none."""
        if self._connections.adopt(bootstrap.id, node):
            self._in_flight.adopt(bootstrap.id, node.id)

    def wakeup(self) -> None:
        """Interrupt a poll. May be called by any thread."""
        self._selector.wakeup()

    def close(self) -> None:
        """Close all connections. Requests in flight do not complete."""
        if self._security is not None:
            self._security.close()
        self._selector.close_all()
        self.metrics.connections = 0

    # Events

    def _take_events(self, now_ms: float) -> None:
        selector, node_of = self._selector, self._connections.node_id
        for channel_id in selector.connected:
            if (node_id := node_of(channel_id)) is not None:
                self._states.connected(node_id)
                self._start_handshake(node_id, now_ms)
        for channel_id in selector.completed_sends:
            if (node_id := node_of(channel_id)) is not None:
                self._written(node_id)
        for channel_id, frame in selector.completed_receives:
            if (node_id := node_of(channel_id)) is not None:
                self._received(node_id, frame, now_ms)
        for channel_id, reason in selector.disconnected.items():
            if (node_id := node_of(channel_id)) is not None:
                if channel_id in selector.refused:
                    refused = self._faults.refused_by_transport(node_id, reason)
                    self._drop(node_id, reason, now_ms, refusal=refused)
                else:
                    was_waiting = self._in_flight.count(node_id) > 0
                    text, refusal = self._faults.lost(node_id, reason, now_ms, was_waiting=was_waiting)
                    self._drop(node_id, text, now_ms, refusal=refusal)

    def _written(self, node_id: int) -> None:
        unanswered = self._in_flight.written(node_id)
        if unanswered is not None:
            self._finish(unanswered, Completion(unanswered.future))

    def _received(self, node_id: int, frame: bytearray, now_ms: float) -> None:
        entry = self._in_flight.oldest(node_id)
        if entry is None:
            return self._drop(node_id, f"{self._connections.name(node_id)} sent a response without a request", now_ms)
        try:
            response = _decode_response(entry, frame)
        except ProtocolError as error:
            return self._reject_response(entry, error, now_ms)
        if self._security is not None:
            response.principal = self._security.principal
        self._in_flight.take_oldest(node_id)
        if entry.request.API_KEY not in _HANDSHAKES:
            self._states.answered(node_id)
        self.metrics.received(node_id, entry.api, len(frame), now_ms - entry.sent_ms, now_ms)
        throttled_ms = getattr(response, "throttle_time_ms", None)
        if throttled_ms is not None:
            self.metrics.throttled(entry.api, throttled_ms, now_ms)
        if throttled_ms:
            self._states.throttle(node_id, now_ms + throttled_ms)
        return self._finish(entry, Completion(entry.future, response))

    def _reject_response(self, entry: InFlight, error: ProtocolError, now_ms: float) -> None:
        """Close the connection after a response that cannot be decoded, because later ones cannot be trusted.

        Its requests fail as those of a lost connection do: the broker may have carried them out, and a repetition over
        a new connection may succeed.
        """
        if entry.internal and entry.request.API_KEY == _API_VERSIONS and entry.version > 0:
            # Some brokers that are not Apache's encode newer versions of ApiVersions wrongly; all support v0.
            self._only_v0.add(entry.node_id)
            return self._drop(entry.node_id, str(error), now_ms, intended=True)
        name = self._connections.name(entry.node_id)
        return self._drop(entry.node_id, f"{name} sent a response that is not valid: {error}", now_ms)

    def _finish(self, entry: InFlight, completion: Completion) -> None:
        if entry.internal:
            completion.settle()
        else:
            self._completed.append(completion)

    def _drop_overdue(self, now_ms: float) -> None:
        for entry in self._in_flight.overdue(now_ms):
            name, waited_ms = self._connections.name(entry.node_id), now_ms - entry.sent_ms
            self._drop(entry.node_id, f"{name} did not answer {entry.api} in {waited_ms:.0f} ms", now_ms)
        for node_id in self._states.overdue(now_ms):
            self._drop(node_id, self.connection_error(node_id) or "no connection in time", now_ms)

    def _drop(
        self,
        node_id: int,
        reason: str,
        now_ms: float,
        *,
        intended: bool = False,
        refusal: KcliError | None = None,
    ) -> None:
        """End a connection. `intended`: the client ends it and the node works, so the next attempt has no backoff.

        `refusal`: the authentication failed, and the requests to the node fail with this error.
        """
        was_ready = self._states.is_established(node_id)
        if was_ready:
            self.metrics.closed(now_ms)
        self._connections.close(node_id)
        self._waiting.pop(node_id, None)
        entries, unwritten = self._in_flight.take_all(node_id)
        intended = intended or (was_ready and not entries)  # the connection was idle, so the node is not at fault
        if not intended:
            self._warn(node_id, reason, now_ms, was_ready=was_ready)
        is_last = intended or was_ready or refusal is not None
        if is_last or not self._connections.open_next_address(node_id, now_ms):
            self._states.disconnected(node_id, reason, now_ms, intended=intended, refusal=refusal)
        for entry in entries:
            error = DisconnectedError(reason, node=node_id, api=entry.api)
            error.was_sent = entry is not unwritten
            self._finish(entry, Completion(entry.future, error=refusal or error))
        if refusal is not None:
            self.metadata.refused()
        if node_id >= 0 and not intended:
            self.metadata.request_update()  # the node or its partitions may have moved

    def _warn(self, node_id: int, reason: str, now_ms: float, *, was_ready: bool) -> None:
        name = self._connections.name(node_id)
        text = reason if name in reason else f"{name}: {reason}"
        fault = address_of(self._connections.node(node_id)), "lost" if was_ready else "no"
        self._warnings.warn(fault, now_ms, f"{fault[1]} connection: {text}")

    # Handshakes

    def _start_handshake(self, node_id: int, now_ms: float) -> None:
        steps = api_versions.negotiate(0 if node_id in self._only_v0 else api_versions.HIGHEST)
        self._next_step(node_id, steps, self._versions_received, None, now_ms)

    def _versions_received(self, node_id: int, offer: Offer, now_ms: float) -> None:
        if offer.features_epoch >= self._features_epoch:
            self.features, self._features_epoch = offer.features, offer.features_epoch
        if self._security is not None and self._security.mechanism is not None:
            self._authenticate(node_id, now_ms, offer.versions)
        else:
            self._states.ready(node_id, offer.versions)
            self._opened(node_id, now_ms)

    def _opened(self, node_id: int, now_ms: float) -> None:
        self.metrics.opened(now_ms)
        address = address_of(self._connections.node(node_id))
        text = f"connected again: {self._connections.name(node_id)}"
        self._warnings.ended(now_ms, text, (address, "lost"), (address, "no"))
        if self.on_secured is not None and self._security is not None:
            channel = self._selector.channel(self._states.of(node_id).channel_id)
            protection = self._security.describe(channel.transport if channel is not None else None)
            self.on_secured(f"{address_of(self._connections.node(node_id))}: {protection}")

    def _authenticate(self, node_id: int, now_ms: float, versions: Versions | None = None) -> None:
        """Start SASL on a connection: a new one, whose `versions` were received, or one whose session ends."""
        assert self._security is not None
        self._states.authenticating(node_id, versions)
        known = self._states.of(node_id).versions or {}
        steps = self._security.authentication(self._connections.node(node_id).host, known)
        self._next_step(node_id, steps, self._authenticated, None, now_ms)

    def _authenticated(self, node_id: int, lifetime_ms: float, now_ms: float) -> None:
        is_new = self._states.of(node_id).state == AUTHENTICATING
        self._states.authenticated(node_id, lifetime_ms, self._uniform(*_RENEWED_AFTER), now_ms)
        if is_new:
            self._opened(node_id, now_ms)

    def _next_step(
        self,
        node_id: int,
        steps: Generator[Any, Any, T],
        finish: Callable[[int, T, float], None],
        response: Any,
        now_ms: float,
    ) -> None:
        """Pass a response to a handshake and send its next request, or `finish` with its result."""
        try:
            step = steps.send(response)
        except StopIteration as end:
            finish(node_id, end.value, now_ms)
            return
        except AuthenticationError as error:
            self._drop(node_id, error.message, now_ms, refusal=self._faults.refusal(node_id, error.message))
            return
        except ConfigError as error:
            self._drop(node_id, error.message, now_ms, refusal=error)
            return
        except KcliError as error:
            self._drop(node_id, str(error), now_ms)
            return
        if step is None:
            self._waiting[node_id] = lambda now_ms: self._next_step(node_id, steps, finish, None, now_ms)
            return
        request, version = step
        future: RequestFuture[Any] = RequestFuture()
        self._transmit(node_id, request, version, future, now_ms, now_ms + self._request_timeout_ms, internal=True)
        future.then(lambda response: self._next_step(node_id, steps, finish, response, self._clock.now_ms()))

    # Sending

    def _send_metadata_request(self, node: Node, request: Request[Any], lowest_version: int) -> RequestFuture[Any]:
        future: RequestFuture[Any] = RequestFuture()
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + self._request_timeout_ms
        self._send_as(node, request, future, now_ms, deadline_ms, lowest_version, None, internal=True)
        return future

    def _send_as(
        self,
        node: Node,
        request: Request[Any],
        future: RequestFuture[Any],
        now_ms: float,
        deadline_ms: float,
        min_version: int | None,
        max_version: int | None,
        *,
        internal: bool,
    ) -> None:
        try:
            supported = self._states.of(node.id).versions or {}
            version = choose_version(type(request), supported, lowest=min_version, highest=max_version, node=node)
            self._transmit(node.id, request, version, future, now_ms, deadline_ms, internal=internal)
        except KcliError as error:
            completion = Completion(future, error=error)
            if internal:
                completion.settle()
            else:
                self._completed.append(completion)

    def _transmit(
        self,
        node_id: int,
        request: Any,
        version: int,
        future: RequestFuture[Any],
        now_ms: float,
        deadline_ms: float,
        *,
        internal: bool,
    ) -> None:
        correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(request, version, correlation_id, self._client_id)
        self._selector.send(self._states.of(node_id).channel_id, [frame])
        self.metrics.sent(node_id, len(frame), now_ms)
        self._last_correlation_id = correlation_id
        expects_response = request.API_KEY != _PRODUCE or request.acks != 0
        self._in_flight.add(
            InFlight(node_id, correlation_id, version, request, future, now_ms, deadline_ms, expects_response, internal)
        )


def _decode_response(entry: InFlight, frame: bytearray) -> Any:
    correlation_id = peek_correlation_id(frame)
    if correlation_id != entry.correlation_id:
        raise ProtocolError(f"it answers request {correlation_id}, not {entry.correlation_id} ({entry.api})")
    return decode_response(entry.request.RESPONSE, entry.version, frame)[1]

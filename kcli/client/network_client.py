"""Requests out, answers back, over one connection to each node; keeps connections and metadata alive. Single-threaded.

What to do is decided by pure neighbours (`connection_states`, `in_flight`, `metadata`, `api_versions`).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client import api_versions
from kcli.client.api_versions import Versions, choose_version
from kcli.client.backoff import Backoff
from kcli.client.connection_states import CHECKING_API_VERSIONS, CONNECTING, ConnectionStates, SocketAddress
from kcli.client.in_flight import InFlight, InFlightRequests
from kcli.client.load import least_loaded
from kcli.client.metadata import Metadata
from kcli.client.request_future import RequestFuture
from kcli.clock import Clock
from kcli.errors import DisconnectedError, KcliError, ProtocolError
from kcli.protocol.headers import decode_response, encode_request, peek_correlation_id
from kcli.protocol.wire import Message
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.network.selector import SelectorLike

_PRODUCE, _API_VERSIONS = 0, 18
# With several nodes to choose from, one that is so slow to connect is passed over (but not given up).
_CONNECT_PATIENCE_MS = 1_000.0


class Completion(NamedTuple):
    """A request that is over; the caller settles its future when it holds no lock."""

    future: RequestFuture[Any]
    answer: Any = None
    error: KcliError | None = None

    def settle(self) -> None:
        if self.error is not None:
            self.future.fail(self.error)
        else:
            self.future.complete(self.answer)


def resolve(host: str, port: int) -> list[SocketAddress]:
    """Every address of a host name, in the order in which the system prefers them. Raises OSError; may block."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), sockaddr) for family, _, _, _, sockaddr in found))


class NetworkClient:
    """`ready` a node, `send` when it is, `poll` to make it happen. Nothing blocks but `poll` and the name service."""

    def __init__(
        self,
        selector: SelectorLike,
        metadata: Metadata,
        config: ClientConfig,
        clock: Clock,
        *,
        max_in_flight: int = 100,
        resolve: Callable[[str, int], Sequence[SocketAddress]] = resolve,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.metadata = metadata
        self._selector = selector
        self._config = config
        self._clock = clock
        self._resolve = resolve
        self._uniform = uniform
        self._states = ConnectionStates(
            Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, uniform=uniform),
            Backoff(
                config.socket_connection_setup_timeout_ms,
                config.socket_connection_setup_timeout_max_ms,
                uniform=uniform,
            ),
        )
        self._in_flight = InFlightRequests(max_in_flight)
        self._node_of: dict[str, int] = {}  # connection -> node
        self._addresses: dict[int, Node] = {}  # node -> the address that its connection was made for
        self._only_v0: set[int] = set()  # nodes whose answer to a newer ApiVersions could not be read
        self._completed: list[Completion] = []
        self._last_correlation_id = 0
        self._connections_made = 0

    def __repr__(self) -> str:
        return f"<NetworkClient {self._states} {self._in_flight}>"

    # Asking about nodes

    def least_loaded_node(self, now_ms: float) -> Node | None:
        """The known node to ask what any node can answer; None while all of them are to be left alone."""
        nodes = list(self.metadata.cluster.nodes.values())
        first = int(self._uniform(0, len(nodes))) % len(nodes) if nodes else 0
        return least_loaded(nodes[first:] + nodes[:first], self._states, self._in_flight, now_ms, _CONNECT_PATIENCE_MS)

    def can_send(self, node_id: int, now_ms: float) -> bool:
        return (
            self._states.is_ready(node_id)
            and not self._states.is_throttled(node_id, now_ms)
            and self._in_flight.can_send(node_id)
        )

    def is_unavailable(self, node_id: int, now_ms: float) -> bool:
        """Its connection was lost or refused, and it is too early for another attempt."""
        return 0 < self._states.delay_ms(node_id, now_ms) < float("inf") and not self._states.is_ready(node_id)

    def delay_ms(self, node_id: int, now_ms: float) -> float:
        """How long to leave the node alone; infinity while only an event can change things."""
        return self._states.delay_ms(node_id, now_ms)

    def in_flight_count(self, node_id: int | None = None) -> int:
        return self._in_flight.count(node_id)

    def negotiated(self, node_id: int) -> Versions | None:
        """What the node speaks; None while it is not connected."""
        row = self._states.of(node_id)
        return row.versions if self._states.is_ready(node_id) else None

    def last_error(self, node_id: int) -> str | None:
        """Why the last connection or attempt ended; None when the node is well or was never tried."""
        return self._states.of(node_id).last_error

    def trouble(self, node_id: int) -> str | None:
        """What is wrong with a node that cannot be asked; None when it can, or was never tried."""
        row = self._states.of(node_id)
        waited_ms = self._clock.now_ms() - row.last_attempt_ms
        if row.last_error is None and row.state == CONNECTING:
            return f"no connection after {waited_ms:.0f} ms"
        if row.last_error is None and row.state == CHECKING_API_VERSIONS:
            return f"connected, but silent for {waited_ms:.0f} ms: is it a Kafka broker's plaintext listener?"
        return row.last_error

    # Doing

    def ready(self, node: Node, now_ms: float) -> bool:
        """Whether requests may be sent to `node`; begins to connect when that is needed and allowed."""
        known = self._addresses.get(node.id, node)
        if (known.host, known.port) != (node.host, node.port):
            self.disconnect(node.id, f"node {node.id} has moved to {node.host}:{node.port}", at_once=True)
        if self._states.can_connect(node.id, now_ms):
            self._connect(node, now_ms)
        return self.can_send(node.id, now_ms)

    def send(
        self,
        node: Node,
        request: Message,
        future: RequestFuture[Any],
        now_ms: float,
        *,
        deadline_ms: float,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Send to a node that `can_send`. What cannot be encoded for it fails `future` at the next poll."""
        try:
            versions = self._states.of(node.id).versions or {}
            version = choose_version(type(request), versions, lowest=min_version, highest=max_version, node=node)
            self._transmit(node.id, request, version, future, now_ms, deadline_ms)
        except KcliError as error:
            self._completed.append(Completion(future, error=error))

    def poll(self, timeout_ms: float) -> list[Completion]:
        """Wait for the network, at most so long, and return the requests that are over."""
        now_ms = self._clock.now_ms()
        wait_ms = min(timeout_ms, self._refresh_metadata(now_ms), self._next_deadline_ms() - now_ms)
        self._selector.poll(0.0 if self._completed else max(wait_ms, 0.0))
        now_ms = self._clock.now_ms()
        self._take_events(now_ms)
        self._drop_overdue(now_ms)
        completed, self._completed = self._completed, []
        return completed

    def disconnect(self, node_id: int, reason: str, *, at_once: bool = False) -> None:
        """Close the connection to a node; its requests fail with `reason`."""
        channel_id = self._states.of(node_id).channel_id
        if channel_id:
            self._selector.close(channel_id)
            self._lost(channel_id, reason, self._clock.now_ms(), at_once=at_once, try_next_address=False)

    def wakeup(self) -> None:
        """End a poll from another thread."""
        self._selector.wakeup()

    def close(self) -> None:
        """Close everything; requests in flight are not failed, nobody will poll for them."""
        self._selector.close_all()

    # Events

    def _take_events(self, now_ms: float) -> None:
        selector = self._selector
        for channel_id in selector.connected:
            if channel_id in self._node_of:
                self._states.stands(self._node_of[channel_id])
                self._begin_handshake(self._node_of[channel_id], now_ms)
        for channel_id in selector.completed_sends:
            if channel_id in self._node_of:
                self._written(self._node_of[channel_id])
        for channel_id, frame in selector.completed_receives:
            if channel_id in self._node_of:
                self._received(self._node_of[channel_id], frame, now_ms)
        for channel_id, reason in selector.disconnected.items():
            if channel_id in self._node_of:
                self._lost(channel_id, reason, now_ms)

    def _written(self, node_id: int) -> None:
        silent = self._in_flight.written(node_id)
        if silent is not None:
            self._completed.append(Completion(silent.future))

    def _received(self, node_id: int, frame: bytearray, now_ms: float) -> None:
        entry = self._in_flight.oldest(node_id)
        if entry is None:
            return self._drop(node_id, "the broker answered what nobody had asked", now_ms)
        try:
            found = peek_correlation_id(frame)
            if found != entry.correlation_id:
                text = (
                    f"the broker answered request {found} where {entry.correlation_id}, {entry.api}, was to be answered"
                )
                raise ProtocolError(text, node=node_id)
            answer = _decode(entry, frame)
        except ProtocolError as error:
            return self._unreadable(entry, error, now_ms)
        self._in_flight.take_oldest(node_id)
        throttled_ms = getattr(answer, "throttle_time_ms", 0)
        if throttled_ms > 0:
            self._states.throttle(node_id, now_ms + throttled_ms)
        self._finish(entry, Completion(entry.future, answer))
        return None

    def _unreadable(self, entry: InFlight, error: ProtocolError, now_ms: float) -> None:
        """An answer that makes no sense: after it, nothing on this connection can be believed."""
        if entry.internal and entry.request.API_KEY == _API_VERSIONS and entry.version > 0:
            # Some brokers that are not Kafka write newer ApiVersions wrongly; v0 they all know.
            self._only_v0.add(entry.node_id)
            return self._drop(entry.node_id, str(error), now_ms, at_once=True)
        self._in_flight.take_oldest(entry.node_id)
        self._finish(entry, Completion(entry.future, error=error))
        return self._drop(entry.node_id, str(error), now_ms)

    def _finish(self, entry: InFlight, completion: Completion) -> None:
        if entry.internal:
            completion.settle()
        else:
            self._completed.append(completion)

    def _drop_overdue(self, now_ms: float) -> None:
        for entry in self._in_flight.overdue(now_ms):
            waited_ms = now_ms - entry.sent_ms
            self._drop(
                entry.node_id, f"{self._name(entry.node_id)} did not answer {entry.api} in {waited_ms:.0f} ms", now_ms
            )
        for node_id in self._states.take_overdue(now_ms):
            row = self._states.of(node_id)
            waited_ms = now_ms - row.last_attempt_ms
            self._drop(node_id, f"no connection with {self._name(node_id)} after {waited_ms:.0f} ms", now_ms)

    def _next_deadline_ms(self) -> float:
        return min(self._in_flight.next_deadline_ms(), self._states.next_deadline_ms())

    # Connections

    def _connect(self, node: Node, now_ms: float) -> None:
        self._addresses[node.id] = node
        try:
            addresses = self._resolve(node.host, node.port)
        except OSError as error:
            reason = f"the host name {node.host} cannot be resolved: {error.strerror or error}"
            self._states.cannot_connect(node.id, reason, now_ms)
            return
        channel_id = self._new_channel(node.id)
        self._states.connecting(node.id, channel_id, addresses, now_ms)
        self._open(channel_id, addresses[0])

    def _new_channel(self, node_id: int) -> str:
        self._connections_made += 1
        channel_id = f"node{node_id}#{self._connections_made}"
        self._node_of[channel_id] = node_id
        return channel_id

    def _open(self, channel_id: str, address: SocketAddress) -> None:
        config = self._config
        self._selector.connect(
            channel_id,
            address,
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
        )

    def _drop(self, node_id: int, reason: str, now_ms: float, *, at_once: bool = False) -> None:
        channel_id = self._states.of(node_id).channel_id
        self._selector.close(channel_id)
        self._lost(channel_id, reason, now_ms, at_once=at_once)

    def _lost(
        self, channel_id: str, reason: str, now_ms: float, *, at_once: bool = False, try_next_address: bool = True
    ) -> None:
        node_id = self._node_of.pop(channel_id)
        if try_next_address:
            next_channel = self._new_channel(node_id)
            address = self._states.connecting_next_address(node_id, next_channel, now_ms)
            if address is not None:
                return self._open(next_channel, address)
            del self._node_of[next_channel]
        was_ready = self._states.is_ready(node_id)
        if self._states.of(node_id).state == CHECKING_API_VERSIONS:
            reason += ", before it told its versions: is it a Kafka broker's plaintext listener?"
        self._states.disconnected(node_id, reason, now_ms, at_once=at_once)
        entries = self._in_flight.take_all(node_id)
        for entry in entries:
            self._finish(entry, Completion(entry.future, error=DisconnectedError(reason, node=node_id, api=entry.api)))
        if node_id >= 0 and (entries or not was_ready):
            self.metadata.request_update()  # the node may have moved, or its partitions with it
        return None

    def _begin_handshake(self, node_id: int, now_ms: float) -> None:
        steps = api_versions.negotiate(0 if node_id in self._only_v0 else api_versions.HIGHEST)
        self._go_on(node_id, steps, None, now_ms)

    def _go_on(self, node_id: int, steps: Generator[Any, Any, Versions], answer: Any, now_ms: float) -> None:
        """Hand the handshake its answer and send what it asks next, or declare the node ready."""
        try:
            request, version = steps.send(answer)
        except StopIteration as end:
            self._states.ready(node_id, end.value)
            return
        except KcliError as error:
            self._drop(node_id, str(error), now_ms)
            return
        future: RequestFuture[Any] = RequestFuture()
        future.then(lambda answer: self._go_on(node_id, steps, answer, self._clock.now_ms()))
        self._ask_internally(node_id, request, version, future, now_ms)

    # Metadata

    def _refresh_metadata(self, now_ms: float) -> float:
        """Ask for metadata if it is time to; how long until that may be worth another look."""
        wait_ms = self.metadata.time_to_refresh(now_ms)
        if wait_ms > 0:
            return wait_ms
        node = self._node_for_metadata(now_ms)
        if node is None:
            return self._shortest_delay_ms(now_ms)
        if not self.ready(node, now_ms):
            # Connecting: an event will tell, unless another node becomes the better choice first.
            return min(self._states.delay_ms(node.id, now_ms), _CONNECT_PATIENCE_MS)
        future: RequestFuture[Any] = RequestFuture()
        future.on_done(lambda done: self._metadata_answered(node, done))
        request = self.metadata.next_request(now_ms)
        try:
            version = choose_version(type(request), self._states.of(node.id).versions or {}, node=node)
            self._ask_internally(node.id, request, version, future, now_ms)
        except KcliError as error:
            self.metadata.failed(error, now_ms)
            return self.metadata.time_to_refresh(now_ms)
        return float("inf")

    def _node_for_metadata(self, now_ms: float) -> Node | None:
        metadata = self.metadata
        node = self.least_loaded_node(now_ms)
        if self._config.metadata_recovery_strategy != "rebootstrap" or metadata.is_bootstrap:
            return node
        since_ms = metadata.attempts_since_ms
        given_up = since_ms is not None and now_ms - since_ms > self._config.metadata_recovery_rebootstrap_trigger_ms
        if node is None or given_up or metadata.needs_rebootstrap:
            metadata.rebootstrap(now_ms)
            node = self.least_loaded_node(now_ms)
        return node

    def _shortest_delay_ms(self, now_ms: float) -> float:
        return min((self._states.delay_ms(node_id, now_ms) for node_id in self.metadata.cluster.nodes), default=0.0)

    def _metadata_answered(self, node: Node, done: RequestFuture[Any]) -> None:
        now_ms = self._clock.now_ms()
        if done.error is not None:
            self.metadata.failed(done.error, now_ms)
            return
        self.metadata.update(done.value(), now_ms)
        self._adopt_bootstrap_connection(node)

    def _adopt_bootstrap_connection(self, asked: Node) -> None:
        """A bootstrap address that is also the advertised address of a broker need not be connected to twice."""
        if asked.id >= 0:
            return
        for node in self.metadata.cluster.nodes.values():
            if (node.host, node.port) == (asked.host, asked.port) and self._states.adopt(asked.id, node.id):
                self._in_flight.adopt(asked.id, node.id)
                self._addresses[node.id] = node
                self._node_of[self._states.of(node.id).channel_id] = node.id
                return

    # Sending

    def _ask_internally(
        self, node_id: int, request: Message, version: int, future: RequestFuture[Any], now_ms: float
    ) -> None:
        deadline_ms = now_ms + self._config.request_timeout_ms
        self._transmit(node_id, request, version, future, now_ms, deadline_ms, internal=True)

    def _transmit(
        self,
        node_id: int,
        request: Any,
        version: int,
        future: RequestFuture[Any],
        now_ms: float,
        deadline_ms: float,
        *,
        internal: bool = False,
    ) -> None:
        correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(request, version, correlation_id, self._config.client_id)
        self._selector.send(self._states.of(node_id).channel_id, [frame])
        self._last_correlation_id = correlation_id
        answered = request.API_KEY != _PRODUCE or request.acks != 0
        self._in_flight.add(
            InFlight(node_id, correlation_id, version, request, future, now_ms, deadline_ms, answered, internal)
        )

    def _name(self, node_id: int) -> str:
        return str(self._addresses.get(node_id, f"node {node_id}"))


def _decode(entry: InFlight, frame: bytearray) -> Any:
    return decode_response(entry.request.RESPONSE, entry.version, frame)[1]

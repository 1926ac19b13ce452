"""Requests out, answers back, over one connection to each node, versions negotiated. Single-threaded.

What to do is decided by pure neighbours (`connection_states`, `in_flight`, `metadata`, `api_versions`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from kcli.client import api_versions
from kcli.client.api_versions import Versions, choose_version
from kcli.client.backoff import Backoff, uniform
from kcli.client.connection_states import (
    CHECKING_API_VERSIONS,
    CONNECTING,
    ConnectionStates,
    SocketAddress,
    least_loaded,
)
from kcli.client.in_flight import InFlight, InFlightRequests
from kcli.client.metadata import Metadata, MetadataUpdater
from kcli.client.request_future import RequestFuture
from kcli.clock import Clock
from kcli.errors import DisconnectedError, KcliError, ProtocolError
from kcli.protocol.headers import decode_response, encode_request, peek_correlation_id
from kcli.protocol.wire import Request
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.network.selector import SelectorLike

_PRODUCE, _API_VERSIONS = 0, 18
# With several nodes to choose from, one that is so slow to connect is passed over (but not given up).
_PATIENCE_MS = 1_000.0


Resolve = Callable[[str, int], Sequence[SocketAddress]]


def resolve(host: str, port: int) -> list[SocketAddress]:
    """Every address of a host name, in the order in which the system prefers them. Raises OSError; may block."""
    # As bytes, since for a string Python would import its tables of international names, some ten milliseconds.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), sockaddr) for family, _, _, _, sockaddr in found))


class Connections:
    """One connection to each node at most. Its name at the selector is never used again, so a late event of an old one
    is not taken for the new one's."""

    def __init__(
        self, selector: SelectorLike, states: ConnectionStates, config: ClientConfig, resolve: Resolve = resolve
    ) -> None:
        self._selector = selector
        self._states = states
        self._config = config
        self._resolve = resolve
        self._nodes: dict[str, Node] = {}  # by connection
        self._last: dict[int, Node] = {}  # by id, with the address last connected to
        self._made = 0

    def __repr__(self) -> str:
        return f"<Connections {self._nodes}>"

    def node_id(self, channel_id: str) -> int | None:
        """Whose connection this is; None when it is over for us."""
        node = self._nodes.get(channel_id)
        return None if node is None else node.id

    def name(self, node_id: int) -> str:
        return str(self._last.get(node_id, f"node {node_id}"))

    def has_moved(self, node: Node) -> bool:
        """We are connected to this node, or were, at another address."""
        last = self._last.get(node.id, node)
        return (last.host, last.port) != (node.host, node.port)

    def open(self, node: Node, now_ms: float) -> None:
        """Begin to connect; the selector will tell how it went."""
        self._last[node.id] = node
        try:
            addresses = self._resolve(node.host, node.port)
        except OSError as error:
            reason = f"the host name {node.host} cannot be resolved: {error.strerror or error}"
            self._states.cannot_connect(node.id, reason, now_ms)
            return
        channel_id = self._new_channel(node)
        self._states.connecting(node.id, channel_id, addresses, now_ms)
        self._connect(channel_id, addresses[0])

    def open_next_address(self, node_id: int, now_ms: float) -> bool:
        """Go on with the next address of a node that did not become ready at this one; False when it was the last."""
        if not self._states.has_next_address(node_id):
            return False
        channel_id = self._new_channel(self._last[node_id])
        self._connect(channel_id, self._states.connecting_next_address(node_id, channel_id, now_ms))
        return True

    def close(self, node_id: int) -> None:
        """End the connection; the selector will not mention it any more. Fine when there is none."""
        channel_id = self._states.of(node_id).channel_id
        self._selector.close(channel_id)
        self._nodes.pop(channel_id, None)

    def adopt(self, old_id: int, node: Node) -> bool:
        """Let `node` have the ready connection of `old_id`; False when it has one or there is none."""
        if not self._states.adopt(old_id, node.id):
            return False
        self._nodes[self._states.of(node.id).channel_id] = node
        self._last[node.id] = node
        return True

    def _new_channel(self, node: Node) -> str:
        self._made += 1
        channel_id = f"node{node.id}#{self._made}"
        self._nodes[channel_id] = node
        return channel_id

    def _connect(self, channel_id: str, address: SocketAddress) -> None:
        self._selector.connect(
            channel_id,
            address,
            send_buffer_bytes=self._config.send_buffer_bytes,
            receive_buffer_bytes=self._config.receive_buffer_bytes,
        )


class Completion:
    """A request that is over; the caller settles its future when it holds no lock."""

    __slots__ = ("answer", "error", "future")

    def __init__(self, future: RequestFuture[Any], answer: Any = None, error: KcliError | None = None) -> None:
        self.future = future
        self.answer = answer
        self.error = error

    def settle(self) -> None:
        if self.error is not None:
            self.future.fail(self.error)
        else:
            self.future.complete(self.answer)


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
        resolve: Resolve = resolve,
        uniform: Callable[[float, float], float] = uniform,
    ) -> None:
        self.metadata = metadata
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
        self._connections = Connections(selector, self._states, config, resolve)
        self._in_flight = InFlightRequests(max_in_flight)
        self._updater = MetadataUpdater(metadata, config, self, self._ask_metadata, clock.now_ms)
        self._only_v0: set[int] = set()  # nodes whose answer to a newer ApiVersions could not be read
        self._completed: list[Completion] = []
        self._last_correlation_id = 0

    def __repr__(self) -> str:
        return f"<NetworkClient {self._states} {self._in_flight}>"

    # Asking about nodes

    def least_loaded_node(self, now_ms: float) -> Node | None:
        """The known node to ask what any node can answer; None while all of them are to be left alone."""
        nodes = list(self.metadata.cluster.nodes.values())
        first = int(self._uniform(0, len(nodes))) % len(nodes) if nodes else 0
        return least_loaded(nodes[first:] + nodes[:first], self._states, self._in_flight, now_ms, _PATIENCE_MS)

    def can_send(self, node_id: int, now_ms: float) -> bool:
        """Ready, not throttled, and its last request is wholly written."""
        return (
            self._states.is_ready(node_id)
            and not self._states.is_throttled(node_id, now_ms)
            and self._in_flight.can_send(node_id)
        )

    def failure(self, node_id: int) -> str | None:
        """Why there is no connection with a node; None while there is one, or one is being made, or none was wanted."""
        return self._states.failure(node_id)

    def delay_ms(self, node_id: int, now_ms: float) -> float:
        """How long to leave the node alone; infinity while only an event can change things."""
        return self._states.delay_ms(node_id, now_ms)

    def in_flight_count(self, node_id: int | None = None) -> int:
        """Requests sent and unanswered, to one node or to all, our own questions included."""
        return self._in_flight.count(node_id)

    def negotiated(self, node_id: int) -> Versions | None:
        """What the node speaks; None while it is not connected."""
        return self._states.of(node_id).versions if self._states.is_ready(node_id) else None

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
        """Whether a request may be sent to `node` now; begins to connect when that is needed and allowed."""
        if self._connections.has_moved(node):
            self.disconnect(node.id, f"node {node.id} has moved to {node.host}:{node.port}")
        if self._states.can_connect(node.id, now_ms):
            self._connections.open(node, now_ms)
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
        """Send to a node that `can_send`. What the node does not speak fails `future` at the next poll."""
        self._send_as(node, request, future, now_ms, deadline_ms, min_version, max_version, internal=False)

    def poll(self, timeout_ms: float) -> list[Completion]:
        """Wait for the network, at most so long, and return the requests that are over."""
        now_ms = self._clock.now_ms()
        refresh_ms = self._updater.refresh(now_ms, _PATIENCE_MS)
        deadline_ms = min(self._in_flight.next_deadline_ms(), self._states.next_deadline_ms())
        wait_ms = 0.0 if self._completed else min(timeout_ms, refresh_ms, deadline_ms - now_ms)
        self._selector.poll(max(wait_ms, 0.0))
        now_ms = self._clock.now_ms()
        self._take_events(now_ms)
        self._drop_overdue(now_ms)
        completed, self._completed = self._completed, []
        return completed

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection to a node, of our own wish; its requests fail with `reason`."""
        if self._states.of(node_id).channel_id:
            self._drop(node_id, reason, self._clock.now_ms(), wanted=True)

    def adopt(self, bootstrap: Node, node: Node) -> None:
        """`node` is who answered at this bootstrap address: let it have the connection, if it has none."""
        if self._connections.adopt(bootstrap.id, node):
            self._in_flight.adopt(bootstrap.id, node.id)

    def wakeup(self) -> None:
        """End a poll from another thread."""
        self._selector.wakeup()

    def close(self) -> None:
        """Close everything; requests in flight are not failed, nobody will poll for them."""
        self._selector.close_all()

    # Events

    def _take_events(self, now_ms: float) -> None:
        selector, node_of = self._selector, self._connections.node_id
        for channel_id in selector.connected:
            if (node_id := node_of(channel_id)) is not None:
                self._states.stands(node_id)
                self._shake_hands(node_id, now_ms)
        for channel_id in selector.completed_sends:
            if (node_id := node_of(channel_id)) is not None:
                self._written(node_id)
        for channel_id, frame in selector.completed_receives:
            if (node_id := node_of(channel_id)) is not None:
                self._received(node_id, frame, now_ms)
        for channel_id, reason in selector.disconnected.items():
            if (node_id := node_of(channel_id)) is not None:
                self._drop(node_id, reason, now_ms)

    def _written(self, node_id: int) -> None:
        silent = self._in_flight.written(node_id)
        if silent is not None:
            self._finish(silent, Completion(silent.future))

    def _received(self, node_id: int, frame: bytearray, now_ms: float) -> None:
        entry = self._in_flight.oldest(node_id)
        if entry is None:
            return self._drop(node_id, f"{self._connections.name(node_id)} answered what nobody had asked", now_ms)
        try:
            answer = _read_answer(entry, frame)
        except ProtocolError as error:
            return self._unreadable(entry, error, now_ms)
        self._in_flight.take_oldest(node_id)
        throttled_ms = getattr(answer, "throttle_time_ms", 0)
        if throttled_ms > 0:
            self._states.throttle(node_id, now_ms + throttled_ms)
        return self._finish(entry, Completion(entry.future, answer))

    def _unreadable(self, entry: InFlight, error: ProtocolError, now_ms: float) -> None:
        """An answer that makes no sense: after it, nothing on this connection can be believed."""
        if entry.internal and entry.request.API_KEY == _API_VERSIONS and entry.version > 0:
            # Some brokers that are not Kafka write newer ApiVersions wrongly; v0 they all know.
            self._only_v0.add(entry.node_id)
            return self._drop(entry.node_id, str(error), now_ms, wanted=True)
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
            name, waited_ms = self._connections.name(entry.node_id), now_ms - entry.sent_ms
            self._drop(entry.node_id, f"{name} did not answer {entry.api} in {waited_ms:.0f} ms", now_ms)
        for node_id in self._states.take_overdue(now_ms):
            trouble = self.trouble(node_id) or "no connection in time"
            self._drop(node_id, trouble, now_ms)

    def _drop(self, node_id: int, reason: str, now_ms: float, *, wanted: bool = False) -> None:
        """The connection is over, by itself or by us. `wanted`: the node is well, so it may be tried again at once."""
        row = self._states.of(node_id)
        if row.state == CHECKING_API_VERSIONS and reason.startswith(("closed by", "connection reset")):
            reason += " before it told its versions: is it a Kafka broker's plaintext listener?"
        was_ready = self._states.is_ready(node_id)
        self._connections.close(node_id)
        entries = self._in_flight.take_all(node_id)
        wanted = wanted or (was_ready and not entries)  # ended while idle, which says nothing about the node
        if wanted or was_ready or not self._connections.open_next_address(node_id, now_ms):
            self._states.disconnected(node_id, reason, now_ms, wanted=wanted)
        for entry in entries:
            error = DisconnectedError(reason, node=node_id, api=entry.api)
            self._finish(entry, Completion(entry.future, error=error))
        if node_id >= 0 and not wanted:
            self.metadata.request_update()  # the node may have moved, or its partitions with it

    # The handshake

    def _shake_hands(self, node_id: int, now_ms: float) -> None:
        steps = api_versions.negotiate(0 if node_id in self._only_v0 else api_versions.HIGHEST)
        self._next_step(node_id, steps, None, now_ms)

    def _next_step(self, node_id: int, steps: Generator[Any, Any, Versions], answer: Any, now_ms: float) -> None:
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
        self._transmit(node_id, request, version, future, now_ms, now_ms + self._request_timeout_ms, internal=True)
        future.then(lambda answer: self._next_step(node_id, steps, answer, self._clock.now_ms()))

    # Sending

    def _ask_metadata(self, node: Node, request: Request[Any], lowest_version: int) -> RequestFuture[Any]:
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
            spoken = self._states.of(node.id).versions or {}
            version = choose_version(type(request), spoken, lowest=min_version, highest=max_version, node=node)
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
        self._last_correlation_id = correlation_id
        answered = request.API_KEY != _PRODUCE or request.acks != 0
        self._in_flight.add(
            InFlight(node_id, correlation_id, version, request, future, now_ms, deadline_ms, answered, internal)
        )


def _read_answer(entry: InFlight, frame: bytearray) -> Any:
    found = peek_correlation_id(frame)
    if found != entry.correlation_id:
        text = f"node {entry.node_id} answered request {found} where {entry.correlation_id}, {entry.api}, was due"
        raise ProtocolError(text)
    return decode_response(entry.request.RESPONSE, entry.version, frame)[1]

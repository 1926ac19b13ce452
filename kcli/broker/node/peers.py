"""Connections of a node to its controller and to other brokers, in the selector of the broker's loop.

`Peers` is the interface, `NetworkPeers` the implementation with sockets. A `Peer` sends requests one at a time; those
that must not wait for each other, such as a fetch that waits for records and a request of an administrator, go to peers
of different purposes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from kcli.broker.cluster.image import MetadataImage
from kcli.broker.serving.timer import Timer, TimerTask
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError, ProtocolError
from kcli.host_names import resolve
from kcli.network.selector import Selector
from kcli.network.transport import SocketAddress
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.registry import ApiKey, api_name
from kcli.protocol.wire import Message, Request

R = TypeVar("R", bound=Message)

Address = tuple[str, int]
OnDone = Callable[[Any], None]

DEFAULT_TIMEOUT_MS = 30_000.0
# Pause after a failed connection; it doubles up to the maximum while connections fail.
_FIRST_BACKOFF_MS = 50.0
_MAX_BACKOFF_MS = 1000.0
_ID_PREFIX = "peer-"  # ids of client connections are numbers


class PeerError(KcliError):
    """A request to a peer has no answer: the connection was refused, lost or timed out, or the API is not served."""

    retriable = True


class Peer(Protocol):
    """One connection, opened by the first request and opened again after a loss."""

    def send(
        self, request: Request[R], on_done: Callable[[R | PeerError], None], *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Send a request in the newest version that both sides know; `on_done` gets its answer or the error.

        It is called once, in the loop thread and never from within `send`. Requests are sent one after the other.
        """


class Peers(Protocol):
    """The peers of a node by purpose."""

    def to(self, node_id: int, purpose: str) -> Peer:
        """Return the connection to a broker for this purpose.

        It is closed when that broker registers again, because its process is a new one.
        """

    def controller(self, purpose: str) -> Peer:
        """Return the connection to the active controller for this purpose."""


def common_version(request: type[Request[Any]], versions: dict[int, tuple[int, int]]) -> int:
    """Return the newest version of a request that both sides know. PeerError if there is none."""
    first, last = request.VERSIONS
    served = versions.get(request.API_KEY)
    name = api_name(request.API_KEY)
    if served is None:
        raise PeerError(f"the peer does not serve {name}")
    version = min(last, served[1])
    if version < max(first, served[0]):
        raise PeerError(f"the peer serves {name} v{served[0]} to v{served[1]}; kcli has v{first} to v{last}")
    return version


def served_versions(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Return the range of versions by API key."""
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


class _Exchange:
    """A request that waits for its answer."""

    __slots__ = ("on_done", "request", "timeout")

    def __init__(self, request: Request[Any], on_done: OnDone) -> None:
        self.request = request
        self.on_done = on_done
        self.timeout: TimerTask | None = None

    def finish(self, outcome: Message) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
        self.on_done(outcome)


class NetworkPeer:
    """One connection of `NetworkPeers`.

    `find_address` returns the address to connect to, None while it is unknown. `on_failure` is told about a connection
    that could not be made or was lost.
    """

    def __init__(
        self,
        network: NetworkPeers,
        name: str,
        find_address: Callable[[], Address | None],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._network = network
        self._name = name
        self._find_address = find_address
        self._on_failure = on_failure
        self._queue: deque[_Exchange] = deque()
        self._in_flight: _Exchange | None = None
        self._connection_id: str | None = None
        self._versions: dict[int, tuple[int, int]] | None = None
        self._version = 0
        self._correlation_id = 0
        self._address_index = 0
        self._backoff_ms = 0.0
        self._is_backing_off = False

    def __repr__(self) -> str:
        state = "ready" if self._versions else "connecting" if self._connection_id else "not connected"
        return f"<NetworkPeer {self._name} {state} {len(self._queue) + (self._in_flight is not None)} requests>"

    def send(
        self, request: Request[R], on_done: Callable[[R | PeerError], None], *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> None:
        """See `Peer.send`."""
        network = self._network
        exchange = _Exchange(request, on_done)
        deadline_ms = network.clock.now_ms() + timeout_ms
        exchange.timeout = network.timer.call_at(deadline_ms, lambda: self._time_out(exchange))
        self._queue.append(exchange)
        if self._connection_id is None and not self._is_backing_off:
            self._is_backing_off = True  # connect from the loop, because `on_done` must not be called from here
            network.timer.call_at(network.clock.now_ms(), self._connect)
        else:
            self._send_next()

    def close(self, reason: str) -> None:
        """Close the connection; the waiting requests fail. The next request opens it again."""
        if self._connection_id is not None or self._queue:
            self._fail(reason, backoff=False)

    def close_if(self, is_cut_off: Callable[[Address], bool]) -> None:
        """Close the connection if its address is cut off."""
        address = self._find_address()
        if address is not None and is_cut_off(address):
            self.close("a test has cut the connection")

    def reconnect(self) -> None:
        """Close the connection because its address has changed; requests that are not sent yet are kept."""
        if self._connection_id is None:
            return
        lost, self._in_flight = self._in_flight, None
        self._drop()
        if lost is not None:
            self._finish_later([lost], PeerError(f"the connection to {self._name} was closed: its address has changed"))
        if self._queue and self._connection_id is None and not self._is_backing_off:
            self._connect_later(0.0)

    # ---- the connection ----

    def _connect(self) -> None:
        self._is_backing_off = False
        if self._connection_id is not None or not self._queue:
            return
        address = self._find_address()
        if address is None:
            self._fail("its address is not known yet")
            return
        if self._network.is_cut_off(address):
            self._fail("a test has cut the connection")
            return
        try:
            addresses = self._network.resolve(*address)
        except OSError as error:
            self._fail(f"cannot resolve {address[0]}: {error.strerror or error}")
            return
        self._connection_id = self._network.open(self, addresses[self._address_index % len(addresses)])

    def on_connected(self) -> None:
        """Ask for the versions of the other side."""
        self._transmit(ApiVersionsRequest(client_software_name="kcli-broker", client_software_version="1"), 3)

    def on_disconnected(self, reason: str) -> None:
        """Fail the waiting requests: the connection was refused or lost."""
        self._address_index += 1
        self._fail(reason)

    def on_frame(self, frame: bytearray) -> None:
        """Decode an answer and send the next request."""
        response_cls = ApiVersionsResponse if self._versions is None else self._response_type()
        try:
            correlation_id, response = decode_response(response_cls, self._version, frame)
            if correlation_id != self._correlation_id:
                raise ProtocolError(f"an answer has correlation id {correlation_id}, not {self._correlation_id}")
        except ProtocolError as error:
            self._fail(str(error))
            return
        if self._versions is None:
            assert isinstance(response, ApiVersionsResponse)
            self._set_versions(response)
            return
        done, self._in_flight = self._in_flight, None
        self._backoff_ms = 0.0
        self._send_next()
        if done is not None:
            done.finish(response)

    def _response_type(self) -> type[Message]:
        assert self._in_flight is not None
        return self._in_flight.request.RESPONSE

    def _set_versions(self, response: ApiVersionsResponse) -> None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self._version > 0:
            newest = served_versions(response).get(int(ApiKey.API_VERSIONS), (0, 0))[1]
            self._transmit(ApiVersionsRequest(), min(newest, self._version - 1))
        elif response.error_code:
            self._fail(f"ApiVersions: {ErrorCode.of(response.error_code).name}")
        else:
            self._versions = served_versions(response)
            self._send_next()

    def _send_next(self) -> None:
        while self._versions is not None and self._in_flight is None and self._queue:
            exchange = self._queue.popleft()
            try:
                version = common_version(type(exchange.request), self._versions)
                self._transmit(exchange.request, version)
            except (PeerError, ProtocolError) as error:
                failure = error if isinstance(error, PeerError) else PeerError(str(error))
                self._finish_later([exchange], failure)
                continue
            self._in_flight = exchange

    def _transmit(self, request: Request[Any], version: int) -> None:
        assert self._connection_id is not None
        frame = encode_request(request, version, self._correlation_id + 1, self._network.client_id)
        self._correlation_id, self._version = self._correlation_id + 1, version
        self._network.send(self._connection_id, frame)

    # ---- failures ----

    def _time_out(self, exchange: _Exchange) -> None:
        error = PeerError(f"{self._name} did not answer {api_name(exchange.request.API_KEY)} in time")
        if exchange is self._in_flight:
            self._in_flight = None
            self._drop()
            if self._queue:
                self._connect_later(0.0)
        elif exchange in self._queue:
            self._queue.remove(exchange)
        exchange.on_done(error)

    def _fail(self, reason: str, *, backoff: bool = True) -> None:
        failed = [] if self._in_flight is None else [self._in_flight]
        failed += self._queue
        self._in_flight = None
        self._queue.clear()
        self._drop()
        if backoff:
            self._on_failure()
            self._backoff_ms = min(max(2 * self._backoff_ms, _FIRST_BACKOFF_MS), _MAX_BACKOFF_MS)
            self._connect_later(self._backoff_ms * random.uniform(0.8, 1.2))
        self._finish_later(failed, PeerError(f"no answer from {self._name}: {reason}"))

    def _finish_later(self, exchanges: list[_Exchange], error: PeerError) -> None:
        now_ms = self._network.clock.now_ms()
        for exchange in exchanges:
            if exchange.timeout is not None:
                exchange.timeout.cancel()
            self._network.timer.call_at(now_ms, partial(exchange.on_done, error))

    def _connect_later(self, delay_ms: float) -> None:
        if not self._is_backing_off:
            self._is_backing_off = True
            self._network.timer.call_at(self._network.clock.now_ms() + delay_ms, self._connect)

    def _drop(self) -> None:
        id, self._connection_id = self._connection_id, None
        self._versions = None
        if id is not None:
            self._network.forget(id)


class NetworkPeers:
    """The peers of a node, with sockets.

    The broker's `SocketServer` calls `dispatch` after each poll of the selector that it shares with these connections.
    """

    def __init__(
        self,
        selector: Selector,
        timer: Timer,
        clock: Clock,
        *,
        node_id: int,
        listener: str,
        bootstrap: Sequence[Address],
        resolve: Callable[[str, int], Sequence[SocketAddress]] = resolve,
    ) -> None:
        """`listener` is the name of the brokers' listener to use, `bootstrap` are the addresses of controllers."""
        self.timer = timer
        self.clock = clock
        self.resolve = resolve
        self.client_id = f"kcli-node-{node_id}"
        self._selector = selector
        self._listener = listener
        self._bootstrap = tuple(bootstrap)
        self._bootstrap_index = 0
        self._controller: Address | None = None
        self._peers: dict[tuple[int, str], NetworkPeer] = {}
        self._controllers: dict[str, NetworkPeer] = {}
        self._addresses: dict[int, tuple[int, Address | None]] = {}  # broker epoch and address by node
        self._by_connection: dict[str, NetworkPeer] = {}
        self._count = 0
        self._cut_off: Collection[Address] | None = ()

    def __repr__(self) -> str:
        return f"<NetworkPeers {len(self._by_connection)} connections, controller {self.controller_address}>"

    def to(self, node_id: int, purpose: str) -> NetworkPeer:
        """See `Peers.to`."""
        peer = self._peers.get((node_id, purpose))
        if peer is None:

            def address() -> Address | None:
                return self._addresses.get(node_id, (-1, None))[1]

            peer = self._peers[node_id, purpose] = NetworkPeer(self, f"node {node_id}", address)
        return peer

    def controller(self, purpose: str) -> NetworkPeer:
        """See `Peers.controller`."""
        peer = self._controllers.get(purpose)
        if peer is None:
            peer = self._controllers[purpose] = NetworkPeer(
                self, "the controller", lambda: self.controller_address, self.forget_controller
            )
        return peer

    @property
    def controller_address(self) -> Address:
        """The address of the active controller; while that is unknown, of one that may know it."""
        return self._controller or self._bootstrap[self._bootstrap_index % len(self._bootstrap)]

    def set_controller(self, address: Address) -> None:
        """Use this controller from now on."""
        if address != self.controller_address:
            self._controller = address
            for peer in self._controllers.values():
                peer.reconnect()
        self._controller = address

    def forget_controller(self) -> None:
        """Ask the next of the bootstrap servers, because the controller is gone or no longer active."""
        before = self.controller_address
        self._controller = None
        self._bootstrap_index += 1
        if self.controller_address != before:
            for peer in self._controllers.values():
                peer.reconnect()

    def cut_off(self, addresses: Collection[Address] | None) -> None:
        """Close connections to these addresses and make none, for tests; None: to all. The next call replaces them."""
        self._cut_off = addresses
        for peer in [*self._peers.values(), *self._controllers.values()]:
            peer.close_if(self.is_cut_off)

    def is_cut_off(self, address: Address) -> bool:
        """Return whether no connection to this address is made. May be called from any thread."""
        return self._cut_off is None or address in self._cut_off

    def update(self, image: MetadataImage) -> None:
        """Take the addresses of the brokers from the image; close connections to those that have registered again."""
        for node_id, broker in image.brokers.items():
            listener = broker.listener(self._listener)
            address = None if listener is None else (listener.host, listener.port)
            before = self._addresses.get(node_id)
            self._addresses[node_id] = broker.epoch, address
            if before is not None and before != (broker.epoch, address):
                self._close(node_id, "it has registered again")
        for node_id in [id for id in self._addresses if id not in image.brokers]:
            del self._addresses[node_id]
            self._close(node_id, "it is not registered any more")

    def close(self) -> None:
        """Close all connections; the waiting requests are dropped without an answer."""
        for id in self._by_connection:
            self._selector.close(id)
        self._by_connection.clear()

    def _close(self, node_id: int, reason: str) -> None:
        for (peer_id, _), peer in self._peers.items():
            if peer_id == node_id:
                peer.close(reason)

    # ---- connections ----

    def open(self, peer: NetworkPeer, address: SocketAddress) -> str:
        """Start to connect; return the id of the connection."""
        self._count += 1
        id = f"{_ID_PREFIX}{self._count}"
        self._by_connection[id] = peer
        self._selector.connect(id, address)
        return id

    def send(self, id: str, frame: bytes) -> None:
        """Send a frame."""
        self._selector.send(id, [frame])

    def forget(self, id: str) -> None:
        """Close a connection."""
        self._by_connection.pop(id, None)
        self._selector.close(id)

    def dispatch(self, selector: Selector) -> None:
        """Take the events of these connections out of the results of a poll, and process them."""
        peers = self._by_connection
        if not peers:
            return
        connected = [id for id in selector.connected if id in peers]
        received = [row for row in selector.completed_receives if row[0] in peers]
        gone = [id for id in selector.disconnected if id in peers]
        if connected:
            selector.connected = [id for id in selector.connected if id not in peers]
        if received:
            selector.completed_receives = [row for row in selector.completed_receives if row[0] not in peers]
        if selector.completed_sends:
            selector.completed_sends = [id for id in selector.completed_sends if id not in peers]
        for id in connected:
            if id in peers and id not in gone:
                peers[id].on_connected()
        for id, frame in received:
            if id in peers:  # not closed by a callback
                peers[id].on_frame(frame)
        for id in gone:
            reason = selector.disconnected.pop(id)
            if id in peers:
                peers.pop(id).on_disconnected(reason)

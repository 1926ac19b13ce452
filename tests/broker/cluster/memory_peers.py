"""Peers in memory: nodes that exchange encoded requests under a manual clock, with cuts and pauses.

    network = MemoryNetwork(clock)
    network.serve(1, leader.handle)  # handle(request, sender) returns a response, a Pending of it, or a PeerError
    network.peers(2).to(1, "fetch").send(FetchRequest(), answers.append)
    network.run()

Nothing is delivered before `run` or `advance`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from kcli.broker.node.peers import DEFAULT_TIMEOUT_MS, PeerError
from kcli.broker.serving.pending import Pending
from kcli.clock import ManualClock
from kcli.protocol.codec import decode, encode, encode_parts
from kcli.protocol.wire import Message, Request

R = TypeVar("R", bound=Message)
Handle = Callable[[Any, int], Any]


class _Call:
    """A request on its way; it is finished once."""

    def __init__(self, request: Request[Any], on_done: Callable[[Any], None], deadline_ms: float) -> None:
        self.request = request
        self.on_done = on_done
        self.deadline_ms = deadline_ms
        self.is_sent = False
        self.is_done = False

    def finish(self, outcome: Any) -> None:
        if not self.is_done:
            self.is_done = True
            self.on_done(outcome)


class MemoryPeer:
    """A connection from `source` to `target`: one request at a time, in order."""

    def __init__(self, network: MemoryNetwork, source: int, find_target: Callable[[], int | None]) -> None:
        self.source = source
        self._network = network
        self._find_target = find_target
        self._calls: deque[_Call] = deque()

    @property
    def target(self) -> int | None:
        return self._find_target()

    def send(
        self, request: Request[R], on_done: Callable[[R | PeerError], None], *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> None:
        self._calls.append(_Call(request, on_done, self._network.clock.now_ms() + timeout_ms))

    def step(self) -> bool:
        """Do what can be done now: fail, time out, or deliver the first request. True if anything was done."""
        network, now_ms = self._network, self._network.clock.now_ms()
        while self._calls and self._calls[0].is_done:
            self._calls.popleft()
        if not self._calls or self.source in network.paused:
            return False
        call, target = self._calls[0], self.target
        if target is None or target not in network.handlers or network.is_cut(self.source, target):
            self._fail(PeerError(f"node {self.source} cannot reach node {target}"))
            return True
        if call.deadline_ms <= now_ms:
            self._calls.popleft()
            call.finish(PeerError(f"node {target} did not answer in time"))
            return True
        if call.is_sent or target in network.paused:
            return False
        call.is_sent = True
        version = type(call.request).VERSIONS[1]
        arrived = decode(type(call.request), bytearray(encode(call.request, version)), version)
        network.delivered.append((self.source, target, arrived))
        answer = network.handlers[target](arrived, self.source)
        if isinstance(answer, Pending):
            answer.on_done(lambda value: self._answer(call, value, version))
        else:
            self._answer(call, answer, version)
        return True

    def _answer(self, call: _Call, answer: Any, version: int) -> None:
        if isinstance(answer, Message):
            parts = encode_parts(answer, version)
            answer = decode(type(answer), bytearray(b"".join(map(bytes, parts))), version)
        self._network.answers.append((self, call, answer))

    def _fail(self, error: PeerError) -> None:
        calls, self._calls = self._calls, deque()
        for call in calls:
            call.finish(error)


class MemoryPeers:
    """`Peers` of one node."""

    def __init__(self, network: MemoryNetwork, node_id: int) -> None:
        self._network = network
        self._node_id = node_id
        self._peers: dict[tuple[int | None, str], MemoryPeer] = {}

    def to(self, node_id: int, purpose: str) -> MemoryPeer:
        return self._peer(node_id, purpose, lambda: node_id)

    def controller(self, purpose: str) -> MemoryPeer:
        return self._peer(None, purpose, lambda: self._network.controller)

    def _peer(self, key: int | None, purpose: str, find_target: Callable[[], int | None]) -> MemoryPeer:
        peer = self._peers.get((key, purpose))
        if peer is None:
            peer = self._peers[key, purpose] = MemoryPeer(self._network, self._node_id, find_target)
            self._network.connections.append(peer)
        return peer


class MemoryNetwork:
    """All nodes. `controller` is the id of the node that `Peers.controller` reaches; `delivered` are all requests."""

    def __init__(self, clock: ManualClock, controller: int | None = None) -> None:
        self.clock = clock
        self.controller = controller
        self.handlers: dict[int, Handle] = {}
        self.connections: list[MemoryPeer] = []
        self.answers: deque[tuple[MemoryPeer, _Call, Any]] = deque()
        self.delivered: list[tuple[int, int, Any]] = []
        self.paused: set[int] = set()
        self._cuts: set[frozenset[int]] = set()
        self._peers: dict[int, MemoryPeers] = {}

    def serve(self, node_id: int, handle: Handle | None) -> None:
        """Give the requests to a node to `handle(request, sender)`; None: the node is not running."""
        self.handlers.pop(node_id, None)
        if handle is not None:
            self.handlers[node_id] = handle

    def peers(self, node_id: int) -> MemoryPeers:
        return self._peers.setdefault(node_id, MemoryPeers(self, node_id))

    def cut(self, a: int, b: int) -> None:
        """Break the network between two nodes: their requests to each other fail."""
        self._cuts.add(frozenset((a, b)))

    def heal(self, a: int | None = None, b: int | None = None) -> None:
        """Undo one cut, or all cuts and pauses."""
        if a is None or b is None:
            self._cuts.clear()
            self.paused.clear()
        else:
            self._cuts.discard(frozenset((a, b)))

    def pause(self, node_id: int) -> None:
        """Stop a node as SIGSTOP does: requests to it wait until they time out."""
        self.paused.add(node_id)

    def resume(self, node_id: int) -> None:
        self.paused.discard(node_id)

    def drop(self, node_id: int) -> None:
        """Forget the requests of a node whose process has died, and the answers to them."""
        for peer in self.connections:
            if peer.source == node_id:
                for call in peer._calls:
                    call.is_done = True
                peer._calls.clear()
        self.answers = deque(row for row in self.answers if row[0].source != node_id)

    def is_cut(self, a: int, b: int) -> bool:
        return frozenset((a, b)) in self._cuts

    def run(self, most: int = 10_000) -> None:
        """Deliver requests and answers until nothing moves. AssertionError after `most` steps: an endless exchange."""
        for _ in range(most):
            if not self._step():
                return
        raise AssertionError(f"the nodes still exchange requests after {most} steps")

    def advance(self, ms: float) -> None:
        """Advance the clock, then deliver."""
        self.clock.advance(ms)
        self.run()

    def _step(self) -> bool:
        for _ in range(len(self.answers)):
            peer, call, answer = self.answers.popleft()
            if peer.source in self.paused or peer.target in self.paused:
                self.answers.append((peer, call, answer))
                continue
            call.finish(answer)
            return True
        return any(peer.step() for peer in self.connections)

"""What we know of the connection to each node: its state, its addresses, when it may be tried. Pure: no I/O, no clock.

A node is DISCONNECTED until `connecting`. It is CONNECTING until the transport stands, then CHECKING_API_VERSIONS until
the broker has told which versions it speaks, then READY, the only state in which requests of others are sent. Any of
them falls back to DISCONNECTED.

A host name may have several addresses. They are tried one after another at once, since a refused address says nothing
about the next one (`localhost` is often ::1 first, with nobody there). Only when the last one has failed does the node
have to wait, twice as long with each failure, varied by jitter; then the name is resolved anew. A node that was READY
starts counting from zero again. A broker that closes after it accepted is no better than one that refuses, so failures
are counted until READY.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcli.client.backoff import Backoff
from kcli.client.in_flight import InFlightRequests
from kcli.structs import Node

DISCONNECTED = "disconnected"
CONNECTING = "connecting"
CHECKING_API_VERSIONS = "checking_api_versions"
READY = "ready"

CONNECT, STAND, READY_UP, DROP = "connect", "stand", "ready", "drop"

#: (state, event) -> state. A pair that is not here is a bug of the caller.
TRANSITIONS = {
    (DISCONNECTED, CONNECT): CONNECTING,
    (CONNECTING, CONNECT): CONNECTING,  # the next address of the same node
    (CONNECTING, STAND): CHECKING_API_VERSIONS,
    (CONNECTING, DROP): DISCONNECTED,
    (CHECKING_API_VERSIONS, CONNECT): CONNECTING,  # the same: who accepts and hangs up is no broker
    (CHECKING_API_VERSIONS, READY_UP): READY,
    (CHECKING_API_VERSIONS, DROP): DISCONNECTED,
    (READY, DROP): DISCONNECTED,
}

SocketAddress = tuple[int, Any]


class NodeState:
    """One row of the table."""

    __slots__ = (
        "address_index",
        "addresses",
        "channel_id",
        "failures",
        "last_attempt_ms",
        "last_error",
        "retry_at_ms",
        "setup_deadline_ms",
        "state",
        "throttled_until_ms",
        "versions",
    )

    def __init__(self) -> None:
        self.state = DISCONNECTED
        self.channel_id = ""
        self.addresses: Sequence[SocketAddress] = ()
        self.address_index = 0
        self.failures = 0
        self.last_attempt_ms = float("-inf")
        self.last_error: str | None = None  # why the last attempt or connection ended; None once READY
        self.retry_at_ms = float("-inf")
        self.setup_deadline_ms = float("inf")
        self.throttled_until_ms = float("-inf")
        self.versions: dict[int, tuple[int, int]] | None = None

    def __repr__(self) -> str:
        notes = [self.state, self.channel_id] + ([f"failures={self.failures}"] if self.failures else [])
        return f"<NodeState {' '.join(notes)}{f': {self.last_error}' if self.last_error else ''}>"

    def move(self, event: str) -> None:
        """Follow the table; ValueError for a pair that is not in it."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise ValueError(f"a node that is {self.state} cannot {event}") from None


class ConnectionStates:
    """The table of all nodes. Times are milliseconds of a steady clock."""

    def __init__(self, reconnect: Backoff, setup_timeout: Backoff) -> None:
        self._reconnect = reconnect
        self._setup_timeout = setup_timeout
        self._nodes: dict[int, NodeState] = {}

    def __repr__(self) -> str:
        return f"<ConnectionStates {self._nodes}>"

    def of(self, node_id: int) -> NodeState:
        """The row of `node_id`, made when it is new."""
        row = self._nodes.get(node_id)
        if row is None:
            row = self._nodes[node_id] = NodeState()
        return row

    def known(self) -> list[tuple[int, NodeState]]:
        return list(self._nodes.items())

    def is_ready(self, node_id: int) -> bool:
        return self.of(node_id).state == READY

    def is_preparing(self, node_id: int) -> bool:
        return self.of(node_id).state in (CONNECTING, CHECKING_API_VERSIONS)

    def can_connect(self, node_id: int, now_ms: float) -> bool:
        row = self.of(node_id)
        return row.state == DISCONNECTED and now_ms >= row.retry_at_ms

    def failure(self, node_id: int) -> str | None:
        """Why a node is disconnected; None when it is not, or was not tried, or by our own wish."""
        row = self.of(node_id)
        return row.last_error if row.state == DISCONNECTED else None

    def delay_ms(self, node_id: int, now_ms: float) -> float:
        """How long until something may be tried with this node: 0 now, infinity while it is connecting or ready."""
        row = self.of(node_id)
        if row.state == DISCONNECTED:
            return max(0.0, row.retry_at_ms - now_ms)
        if row.state == READY and row.throttled_until_ms > now_ms:
            return row.throttled_until_ms - now_ms
        return float("inf")

    def connecting(self, node_id: int, channel_id: str, addresses: Sequence[SocketAddress], now_ms: float) -> None:
        """A first attempt begins, at the first of `addresses`."""
        row = self.of(node_id)
        row.move(CONNECT)
        row.addresses, row.address_index = addresses, 0
        self._start_attempt(row, channel_id, now_ms)

    def has_next_address(self, node_id: int) -> bool:
        """An address of the node has not been tried yet in this attempt."""
        row = self.of(node_id)
        return row.address_index + 1 < len(row.addresses)

    def connecting_next_address(self, node_id: int, channel_id: str, now_ms: float) -> SocketAddress:
        """The address to try now that the one before has failed."""
        row = self.of(node_id)
        row.move(CONNECT)
        row.address_index += 1
        self._start_attempt(row, channel_id, now_ms)
        return row.addresses[row.address_index]

    def stands(self, node_id: int) -> None:
        """The transport is up; the setup timeout goes on until READY."""
        self.of(node_id).move(STAND)

    def ready(self, node_id: int, versions: dict[int, tuple[int, int]]) -> None:
        """The broker told its versions (API key -> lowest, highest)."""
        row = self.of(node_id)
        row.move(READY_UP)
        row.versions = versions
        row.failures = 0
        row.last_error = None
        row.setup_deadline_ms = float("inf")

    def disconnected(self, node_id: int, reason: str, now_ms: float, *, wanted: bool = False) -> None:
        """The connection or the attempt is over. `wanted`: by our own wish, so the next attempt need not wait."""
        row = self.of(node_id)
        row.move(DROP)
        row.channel_id = ""
        row.setup_deadline_ms = float("inf")
        row.throttled_until_ms = float("-inf")
        if wanted:
            row.last_error, row.retry_at_ms = None, now_ms
        else:
            row.last_error = reason
            row.failures += 1
            row.retry_at_ms = now_ms + self._reconnect.after(row.failures)

    def cannot_connect(self, node_id: int, reason: str, now_ms: float) -> None:
        """There is nothing to connect to: the name has no address."""
        row = self.of(node_id)
        row.move(CONNECT)
        row.addresses, row.last_attempt_ms = (), now_ms
        self.disconnected(node_id, reason, now_ms)

    def throttle(self, node_id: int, until_ms: float) -> None:
        """The broker asked us to hold back (KIP-219)."""
        self.of(node_id).throttled_until_ms = until_ms

    def is_throttled(self, node_id: int, now_ms: float) -> bool:
        return self.of(node_id).throttled_until_ms > now_ms

    def take_overdue(self, now_ms: float) -> list[int]:
        """Nodes that are not ready in time; the caller drops them."""
        return [node_id for node_id, row in self._nodes.items() if row.setup_deadline_ms <= now_ms]

    def next_deadline_ms(self) -> float:
        """When the next setup timeout falls; infinity when nothing is being set up."""
        return min((row.setup_deadline_ms for row in self._nodes.values()), default=float("inf"))

    def adopt(self, old_id: int, new_id: int) -> bool:
        """Let `new_id` take over the ready connection of `old_id`, when it has none itself."""
        row, taker = self._nodes.get(old_id), self._nodes.get(new_id)
        if row is None or row.state != READY or (taker is not None and taker.state != DISCONNECTED):
            return False
        self._nodes[new_id] = self._nodes.pop(old_id)
        return True

    def _start_attempt(self, row: NodeState, channel_id: str, now_ms: float) -> None:
        row.channel_id = channel_id
        row.last_attempt_ms = now_ms
        row.setup_deadline_ms = now_ms + self._setup_timeout.after(row.failures + 1)


# Best first. A connection under way is waited for, unless it has kept us waiting and there is another node to try.
_IDLE, _BUSY, _FULL, _CONNECTING, _UNTRIED, _SLOW = range(6)


def least_loaded(
    nodes: Sequence[Node], states: ConnectionStates, in_flight: InFlightRequests, now_ms: float, patience_ms: float
) -> Node | None:
    """The best of `nodes`, the first among equals; None when all were lost and are not to be tried again yet."""
    best, best_rank = None, None
    for node in nodes:
        rank = _rank(node.id, states, in_flight, now_ms, patience_ms)
        if rank is not None and (best_rank is None or rank < best_rank):
            best, best_rank = node, rank
    return best


def _rank(
    node_id: int, states: ConnectionStates, in_flight: InFlightRequests, now_ms: float, patience_ms: float
) -> tuple[int, float] | None:
    attempted_ms = states.of(node_id).last_attempt_ms
    if states.is_ready(node_id):
        count = in_flight.count(node_id)
        if states.is_throttled(node_id, now_ms) or not in_flight.can_send(node_id):
            return _FULL, count
        return (_BUSY if count else _IDLE), count
    if states.is_preparing(node_id):
        return (_CONNECTING if now_ms - attempted_ms < patience_ms else _SLOW), attempted_ms
    return (_UNTRIED, attempted_ms) if states.can_connect(node_id, now_ms) else None

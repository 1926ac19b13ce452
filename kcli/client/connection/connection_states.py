"""The state of the connection to each node: addresses, failures, time of the next attempt. Pure: no I/O, no clock.

A node is DISCONNECTED until `connecting`. It is CONNECTING until the transport is connected, CHECKING_API_VERSIONS
until the broker has sent its versions, with SASL then AUTHENTICATING, and then READY, the only state in which requests
of callers are sent. A session of limited lifetime (KIP-368) is renewed on the same connection: the node is
REAUTHENTICATING, and then READY again. Each state falls back to DISCONNECTED.

A host name may have several addresses. They are tried one after another without a pause, because a refused address
does not mean that the next one fails (`localhost` is often ::1 first, without a listener). After the last one has
failed, the node waits for the backoff, which doubles with each failure; then the name is resolved again. A broker that
closes the connection after it accepted it is no better than one that refuses it, so failures are counted until the
node is READY.

A failed authentication is a `refusal`: it says that a repetition would fail as well. Other addresses of the name are
not tried, the requests to the node fail with it, and it stays the node's failure until the next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcli.client.backoff import Backoff
from kcli.client.connection.in_flight import InFlightRequests
from kcli.errors import KcliError
from kcli.structs import Node

DISCONNECTED = "disconnected"
CONNECTING = "connecting"
CHECKING_API_VERSIONS = "checking_api_versions"
AUTHENTICATING = "authenticating"
READY = "ready"
REAUTHENTICATING = "reauthenticating"

CONNECT, CONNECTED, VERSIONS_RECEIVED, DROP = "connect", "connected", "versions received", "drop"
AUTHENTICATE, AUTHENTICATED = "authenticate", "authenticated"

#: (state, event) -> state. A missing pair is a bug of the caller.
TRANSITIONS = {
    (DISCONNECTED, CONNECT): CONNECTING,
    (CONNECTING, CONNECT): CONNECTING,  # the next address of the same node
    (CONNECTING, CONNECTED): CHECKING_API_VERSIONS,
    (CONNECTING, DROP): DISCONNECTED,
    (CHECKING_API_VERSIONS, CONNECT): CONNECTING,  # the same: the peer accepted the connection and closed it
    (CHECKING_API_VERSIONS, VERSIONS_RECEIVED): READY,
    (CHECKING_API_VERSIONS, DROP): DISCONNECTED,
    (CHECKING_API_VERSIONS, AUTHENTICATE): AUTHENTICATING,
    (AUTHENTICATING, CONNECT): CONNECTING,  # the same again
    (AUTHENTICATING, AUTHENTICATED): READY,
    (AUTHENTICATING, DROP): DISCONNECTED,
    (READY, AUTHENTICATE): REAUTHENTICATING,
    (READY, DROP): DISCONNECTED,
    (REAUTHENTICATING, AUTHENTICATED): READY,
    (REAUTHENTICATING, DROP): DISCONNECTED,
}

SocketAddress = tuple[int, Any]

# Brokers refuse a renewal that comes sooner after the last authentication (KafkaChannel of Apache Kafka).
_MIN_RENEWAL_MS = 1_000.0


class NodeState:
    """The state of one node."""

    __slots__ = (
        "address_index",
        "addresses",
        "channel_id",
        "early_closes",
        "failures",
        "last_attempt_ms",
        "last_error",
        "reauthenticate_at_ms",
        "refusal",
        "renewable_at_ms",
        "retry_at_ms",
        "session_end_ms",
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
        self.early_closes = 0  # connections in a row that the broker closed at the first request
        self.last_attempt_ms = float("-inf")
        self.last_error: str | None = None  # reason of the last disconnection; None when READY
        self.refusal: KcliError | None = None  # the error that ended the last attempt for good
        self.retry_at_ms = float("-inf")
        self.reauthenticate_at_ms = float("inf")  # no requests from then on, until the session is renewed
        self.renewable_at_ms = float("inf")
        self.session_end_ms = float("inf")
        self.setup_deadline_ms = float("inf")
        self.throttled_until_ms = float("-inf")
        self.versions: dict[int, tuple[int, int]] | None = None

    def __repr__(self) -> str:
        notes = [self.state, self.channel_id] + ([f"failures={self.failures}"] if self.failures else [])
        return f"<NodeState {' '.join(notes)}{f': {self.last_error}' if self.last_error else ''}>"

    def move(self, event: str) -> None:
        """Apply an event. Raise ValueError for a pair that is not in TRANSITIONS."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise ValueError(f"event {event!r} is not possible in state {self.state!r}") from None


class ConnectionStates:
    """The states of all nodes. Times are milliseconds of a monotonic clock."""

    def __init__(self, reconnect: Backoff, setup_timeout: Backoff) -> None:
        self._reconnect = reconnect
        self._setup_timeout = setup_timeout
        self._nodes: dict[int, NodeState] = {}

    def __repr__(self) -> str:
        return f"<ConnectionStates {self._nodes}>"

    def of(self, node_id: int) -> NodeState:
        """Return the state of a node; a new one is DISCONNECTED."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = NodeState()
        return node

    def is_ready(self, node_id: int) -> bool:
        return self.of(node_id).state == READY

    def is_preparing(self, node_id: int) -> bool:
        return self.of(node_id).state in (CONNECTING, CHECKING_API_VERSIONS, AUTHENTICATING)

    def is_established(self, node_id: int) -> bool:
        """Return whether the connection has been READY: it is, or its session is being renewed."""
        return self.of(node_id).state in (READY, REAUTHENTICATING)

    def can_connect(self, node_id: int, now_ms: float) -> bool:
        node = self.of(node_id)
        return node.state == DISCONNECTED and now_ms >= node.retry_at_ms

    def failure(self, node_id: int) -> str | None:
        """Return the reason of a disconnection; None while connected, if never tried, and if we closed it."""
        node = self.of(node_id)
        return node.last_error if node.state == DISCONNECTED else None

    def refusal(self, node_id: int) -> KcliError | None:
        """Return the error of a failed authentication, until the next attempt."""
        return self.of(node_id).refusal

    def refusal_of_all(self, now_ms: float) -> KcliError | None:
        """Return the error of a failed authentication if no node has a connection; None otherwise.

        A refusal counts while its node is in backoff: after that, the next attempt decides.
        """
        nodes = self._nodes.values()
        if any(node.state in (READY, REAUTHENTICATING) for node in nodes):
            return None
        return next((node.refusal for node in nodes if node.refusal is not None and now_ms < node.retry_at_ms), None)

    def session_ends(self, node_id: int, now_ms: float) -> bool:
        """Return whether the session of a READY node must be renewed before the next request."""
        node = self.of(node_id)
        return node.state == READY and node.reauthenticate_at_ms <= now_ms

    def can_renew(self, node_id: int, now_ms: float) -> bool:
        """Return whether the session of a node ends and may be renewed now."""
        return self.session_ends(node_id, now_ms) and self.of(node_id).renewable_at_ms <= now_ms

    def delay_ms(self, node_id: int, now_ms: float) -> float:
        """Return the ms until the next attempt or request is allowed; infinity until an event changes the state."""
        node = self.of(node_id)
        if node.state == DISCONNECTED:
            return max(0.0, node.retry_at_ms - now_ms)
        if node.state == READY and node.throttled_until_ms > now_ms:
            return node.throttled_until_ms - now_ms
        if self.session_ends(node_id, now_ms) and node.renewable_at_ms > now_ms:
            return node.renewable_at_ms - now_ms
        return float("inf")

    def connecting(self, node_id: int, channel_id: str, addresses: Sequence[SocketAddress], now_ms: float) -> None:
        """Start an attempt with the first of `addresses`."""
        node = self.of(node_id)
        node.move(CONNECT)
        node.addresses, node.address_index = addresses, 0
        self._start_attempt(node, channel_id, now_ms)

    def has_next_address(self, node_id: int) -> bool:
        """Return whether this attempt has an untried address."""
        node = self.of(node_id)
        return node.address_index + 1 < len(node.addresses)

    def connecting_next_address(self, node_id: int, channel_id: str, now_ms: float) -> SocketAddress:
        """Continue the attempt with the next address, and return that."""
        node = self.of(node_id)
        node.move(CONNECT)
        node.address_index += 1
        self._start_attempt(node, channel_id, now_ms)
        return node.addresses[node.address_index]

    def connected(self, node_id: int) -> None:
        """The transport is connected; the setup timeout continues until READY."""
        self.of(node_id).move(CONNECTED)

    def ready(self, node_id: int, versions: dict[int, tuple[int, int]]) -> None:
        """The broker sent its versions (API key -> lowest, highest), and there is no SASL."""
        node = self.of(node_id)
        node.move(VERSIONS_RECEIVED)
        node.versions = versions
        self._is_ready(node)

    def authenticating(self, node_id: int, versions: dict[int, tuple[int, int]] | None = None) -> None:
        """SASL begins: after the broker sent its `versions`, or again on a READY connection."""
        node = self.of(node_id)
        node.move(AUTHENTICATE)
        if versions is not None:
            node.versions = versions

    def authenticated(self, node_id: int, lifetime_ms: float, renewed_after: float, now_ms: float) -> None:
        """SASL succeeded. The session is renewed after this part of its lifetime; a lifetime of 0 has no end."""
        node = self.of(node_id)
        node.move(AUTHENTICATED)
        if lifetime_ms > 0:
            node.reauthenticate_at_ms = now_ms + lifetime_ms * renewed_after
            node.renewable_at_ms = now_ms + _MIN_RENEWAL_MS
            node.session_end_ms = now_ms + lifetime_ms
        else:
            node.reauthenticate_at_ms = node.session_end_ms = float("inf")
        self._is_ready(node)

    def _is_ready(self, node: NodeState) -> None:
        node.failures = 0
        node.last_error = None
        node.setup_deadline_ms = float("inf")

    def disconnected(
        self,
        node_id: int,
        reason: str,
        now_ms: float,
        *,
        intended: bool = False,
        refusal: KcliError | None = None,
    ) -> None:
        """The connection or the attempt ended. `intended`: the client ended it, so the next attempt has no backoff.

        `refusal`: authentication failed, and a repetition would fail as well.
        """
        node = self.of(node_id)
        node.move(DROP)
        node.channel_id = ""
        node.setup_deadline_ms = float("inf")
        node.throttled_until_ms = float("-inf")
        node.reauthenticate_at_ms = node.session_end_ms = float("inf")
        node.refusal = refusal
        if intended:
            node.last_error, node.retry_at_ms = None, now_ms
        else:
            node.last_error = reason
            node.failures += 1
            node.retry_at_ms = now_ms + self._reconnect.after(node.failures)

    def unresolved(self, node_id: int, reason: str, now_ms: float) -> None:
        """The attempt failed before a connection, because the host name has no address."""
        node = self.of(node_id)
        node.move(CONNECT)
        node.addresses, node.last_attempt_ms = (), now_ms
        self.disconnected(node_id, reason, now_ms)

    def answered(self, node_id: int) -> None:
        """The broker responded to a request of a caller."""
        self.of(node_id).early_closes = 0

    def closed_early(self, node_id: int) -> int:
        """The broker closed a connection at the first request. Return how many times in a row it has done so."""
        node = self.of(node_id)
        node.early_closes += 1
        return node.early_closes

    def throttle(self, node_id: int, until_ms: float) -> None:
        """The broker throttles us: send no requests until then (KIP-219)."""
        self.of(node_id).throttled_until_ms = until_ms

    def is_throttled(self, node_id: int, now_ms: float) -> bool:
        return self.of(node_id).throttled_until_ms > now_ms

    def overdue(self, now_ms: float) -> list[int]:
        """Return the nodes whose setup timeout passed; the caller disconnects them."""
        return [node_id for node_id, node in self._nodes.items() if node.setup_deadline_ms <= now_ms]

    def next_deadline_ms(self) -> float:
        """Return the time of the next setup timeout; infinity without one."""
        return min((node.setup_deadline_ms for node in self._nodes.values()), default=float("inf"))

    def adopt(self, old_id: int, new_id: int) -> bool:
        """Move the ready connection of `old_id` to `new_id`, unless that has one. Return whether it was moved."""
        old, new = self._nodes.get(old_id), self._nodes.get(new_id)
        if old is None or old.state != READY or (new is not None and new.state != DISCONNECTED):
            return False
        self._nodes[new_id] = self._nodes.pop(old_id)
        return True

    def _start_attempt(self, node: NodeState, channel_id: str, now_ms: float) -> None:
        node.channel_id = channel_id
        node.refusal = None
        node.last_attempt_ms = now_ms
        node.setup_deadline_ms = now_ms + self._setup_timeout.after(node.failures + 1)


# Ranks, best first. A connection in progress is awaited, unless it is slow and another node can be tried.
_IDLE, _BUSY, _FULL, _CONNECTING, _UNTRIED, _SLOW = range(6)


def least_loaded(
    nodes: Sequence[Node], states: ConnectionStates, in_flight: InFlightRequests, now_ms: float, patience_ms: float
) -> Node | None:
    """Return the node with the best rank, the first among equals; None if all are in backoff."""
    best_node, best_rank = None, None
    for node in nodes:
        rank = _rank(node.id, states, in_flight, now_ms, patience_ms)
        if rank is not None and (best_rank is None or rank < best_rank):
            best_node, best_rank = node, rank
    return best_node


def _rank(
    node_id: int, states: ConnectionStates, in_flight: InFlightRequests, now_ms: float, patience_ms: float
) -> tuple[int, float] | None:
    attempted_ms = states.of(node_id).last_attempt_ms
    if states.is_established(node_id):
        count = in_flight.count(node_id)
        is_busy = states.is_throttled(node_id, now_ms) or not states.is_ready(node_id)
        if is_busy or not in_flight.can_send(node_id):
            return _FULL, count
        return (_BUSY if count else _IDLE), count
    if states.is_preparing(node_id):
        return (_CONNECTING if now_ms - attempted_ms < patience_ms else _SLOW), attempted_ms
    return (_UNTRIED, attempted_ms) if states.can_connect(node_id, now_ms) else None

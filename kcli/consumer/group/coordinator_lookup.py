"""`CoordinatorLookup`: the broker that coordinates a group, found and found again.

The coordinator gets a connection of its own, under a node id of its own: a broker answers one request of a connection
at a time, so a heartbeat would wait behind a Fetch that waits for records, and a Fetch behind a JoinGroup.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse

# The newest version that asks about one group in the old form.
FIND_COORDINATOR_VERSION = 3
_LARGEST_ID = 2**31 - 1
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def coordinator_node(node_id: int, host: str, port: int) -> Node:
    """The broker under the id that its second connection, as a coordinator, goes by."""
    return Node(_LARGEST_ID - node_id, host, port)


class CoordinatorLookup:
    """Asks any broker for the group's coordinator while there is none. Any thread may call it."""

    def __init__(self, client: ConsumerNetworkClient, group: str) -> None:
        self._client = client
        self._group = group
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._lock = threading.Lock()
        self._node: Node | None = None
        self._asked: RequestFuture[FindCoordinatorResponse] | None = None
        self._failures = 0
        self._not_before_ms = 0.0
        self._fatal: KcliError | None = None
        self.trouble: str = ""  # why there is no coordinator, for a person

    def __repr__(self) -> str:
        return f"<CoordinatorLookup {self._group} {self._node or self.trouble or 'not asked yet'}>"

    @property
    def node(self) -> Node | None:
        """The coordinator; None while it is not known. Its `id` is not the broker's, see the module."""
        return self._node

    def find(self, now_ms: float) -> Node | None:
        """The coordinator; asks for it when there is none and the backoff allows.

        Raises what asking again would not help: BrokerError (GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID).
        """
        fatal, self._fatal = self._fatal, None
        if fatal is not None:
            raise fatal
        self.ask(now_ms)
        return self._node

    def ask(self, now_ms: float) -> RequestFuture[FindCoordinatorResponse] | None:
        """The question that is on its way, asked now if it is due; None if there is none. Never raises."""
        from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

        with self._lock:
            if self._node is not None or self._fatal is not None or now_ms < self._not_before_ms:
                return None
            if self._asked is not None:
                return self._asked
            node = self._client.least_loaded_node()
            if node is None:
                self._failed_once("no broker can be reached", now_ms)
                return None
            asked = self._client.send(
                node, FindCoordinatorRequest(key=self._group), max_version=FIND_COORDINATOR_VERSION
            )
            self._asked = asked
        asked.on_done(self._answered)
        return asked

    def await_node(self, deadline_ms: float) -> Node:
        """The coordinator, looked for until there is one; TimeoutExpired tells why there is none."""
        while True:
            now_ms = self._client.clock.now_ms()
            node = self.find(now_ms)
            if node is not None:
                return node
            if now_ms >= deadline_ms:
                raise self.timed_out()
            self._client.poll(timeout_ms=max(0.0, min(deadline_ms, self.next_ms()) - now_ms))

    def timed_out(self) -> TimeoutExpired:
        """The error for a coordinator that was not found in time."""
        trouble = f": {self.trouble}" if self.trouble else ""
        return TimeoutExpired(f"no coordinator of group {self._group} was found in time{trouble}")

    def heard(self, error: KcliError, node: Node) -> None:
        """A question to `node` came to nothing, or was refused: the coordinator may be another by now."""
        moved = error.code in _MOVED if isinstance(error, BrokerError) else error.retriable
        if moved:
            self.lost(str(error), node)

    def lost(self, reason: str, node: Node | None = None) -> None:
        """The coordinator is gone, or is another by now; with `node` only if that is the one we know."""
        with self._lock:
            known = self._node
            if known is None or (node is not None and node != known):
                return
            self._node, self.trouble = None, reason
        # Whoever waits for an answer of the old one shall not wait any longer.
        self._client.disconnect(known)

    def next_ms(self) -> float:
        """When `find` has something to ask though nothing arrives; infinity while it has not."""
        if self._node is not None or self._asked is not None:
            return float("inf")
        return self._not_before_ms

    def _answered(self, done: RequestFuture[FindCoordinatorResponse]) -> None:
        with self._lock:
            self._asked = None
            now_ms = self._client.clock.now_ms()
            if done.error is not None:
                self._judge(done.error, now_ms)
                return
            found = done.value()
            if found.error_code:
                text = found.error_message or None
                self._judge(
                    BrokerError(found.error_code, text, api="FindCoordinator", group=self._group),
                    now_ms,
                )
                return
            self._node = coordinator_node(found.node_id, found.host, found.port)
            self._failures, self.trouble = 0, ""

    def _judge(self, error: KcliError, now_ms: float) -> None:
        unknown = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_SERVER_ERROR
        if error.retriable or unknown:
            self._failed_once(str(error), now_ms)
        else:
            self._fatal, self.trouble = error, str(error)

    def _failed_once(self, reason: str, now_ms: float) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self.trouble = reason

"""`CoordinatorLookup`: find the coordinator of a group, and find it again.

The coordinator has a connection of its own, with a node id of its own. A broker answers the requests of a connection in
order, so a heartbeat would wait for a Fetch that waits for records, and a Fetch for a JoinGroup.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kcli import logs
from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.consumer.retry_backoff import LASTING
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.logs import RepeatedWarnings
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse

# The newest version for a single group.
FIND_COORDINATOR_VERSION = 3
_LARGEST_ID = 2**31 - 1
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def coordinator_node(node_id: int, host: str, port: int) -> Node:
    """Return the broker with the node id of its connection as coordinator."""
    return Node(_LARGEST_ID - node_id, host, port)


class CoordinatorLookup:
    """Finds the coordinator of one group through any broker. Callable from any thread."""

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
        self._warnings = RepeatedWarnings("kcli.consumer.group")
        self.problem: str = ""  # the reason why no coordinator is known

    def __repr__(self) -> str:
        return f"<CoordinatorLookup {self._group} {self._node or self.problem or 'not asked yet'}>"

    @property
    def node(self) -> Node | None:
        """The coordinator; None while it is unknown. Its `id` is not the broker's, see the module."""
        return self._node

    def find(self, now_ms: float) -> Node | None:
        """Return the coordinator, or None; send a request if it is unknown and the backoff has ended.

        Raise a fatal error: BrokerError (GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID).
        """
        fatal, self._fatal = self._fatal, None
        if fatal is not None:
            raise fatal
        self.request(now_ms)
        return self._node

    def request(self, now_ms: float) -> RequestFuture[FindCoordinatorResponse] | None:
        """Return the request in flight, sent now if it is due; None if there is none. Never raises."""
        from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

        with self._lock:
            if self._node is not None or self._fatal is not None or now_ms < self._not_before_ms:
                return None
            if self._asked is not None:
                return self._asked
            node = self._client.least_loaded_node()
            if node is None:
                self._failed_once(self._client.timed_out("a broker").message, now_ms)
                return None
            asked = self._client.send(
                node, FindCoordinatorRequest(key=self._group), max_version=FIND_COORDINATOR_VERSION
            )
            self._asked = asked
        asked.add_done_callback(self._answered)
        return asked

    def await_node(self, deadline_ms: float) -> Node:
        """Wait for the coordinator. Raise TimeoutExpired, with the reason, at the deadline."""
        while True:
            now_ms = self._client.clock.now_ms()
            node = self.find(now_ms)
            if node is not None:
                return node
            if now_ms >= deadline_ms:
                raise self.timed_out()
            self._client.poll(timeout_ms=max(0.0, min(deadline_ms, self.next_ms()) - now_ms))

    def timed_out(self) -> TimeoutExpired:
        """Return the error for a coordinator that was not found in time."""
        problem = f": {self.problem}" if self.problem else ""
        return TimeoutExpired(f"the coordinator of group {self._group} was not found before the timeout{problem}")

    def handle_error(self, error: KcliError, node: Node) -> None:
        """Handle the error of a request to `node`: the coordinator may have moved."""
        moved = error.code in _MOVED if isinstance(error, BrokerError) else error.retriable
        if moved:
            self.mark_unknown(str(error), node)

    def mark_unknown(self, reason: str, node: Node | None = None) -> None:
        """Forget the coordinator; with `node` only if that is the known coordinator."""
        with self._lock:
            known = self._node
            if known is None or (node is not None and node != known):
                return
            self._node, self.problem = None, reason
        logs.info("kcli.consumer.group", "group %s: the coordinator %s is given up: %s", self._group, known, reason)
        # Requests to the previous coordinator fail at once instead of at their timeout.
        self._client.disconnect(known)

    def next_ms(self) -> float:
        """Return the time at which `find` sends the next request; infinity if none is due.

        A fatal error waits for the caller of `find`, without a time.
        """
        if self._node is not None or self._asked is not None or self._fatal is not None:
            return float("inf")
        return self._not_before_ms

    def _answered(self, done: RequestFuture[FindCoordinatorResponse]) -> None:
        with self._lock:
            self._asked = None
            now_ms = self._client.clock.now_ms()
            if done.error is not None:
                self._judge(done.error, now_ms)
                return
            response = done.value()
            if response.error_code:
                evidence = {"request": "JoinGroup", "api": "FindCoordinator", "group": self._group}
                message = response.error_message or None
                self._judge(response.broker_error(response.error_code, message, **evidence), now_ms)
                return
            self._node = coordinator_node(response.node_id, response.host, response.port)
            self._failures, self.problem = 0, ""
        text = f"group {self._group}: the coordinator is {self._node}"
        if not self._warnings.ended(now_ms, text, "coordinator"):
            logs.info("kcli.consumer.group", "%s", text)

    def _judge(self, error: KcliError, now_ms: float) -> None:
        unknown = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_SERVER_ERROR
        if error.retriable or unknown:
            self._failed_once(str(error), now_ms)
        else:
            self._fatal, self.problem = error, str(error)

    def _failed_once(self, reason: str, now_ms: float) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self.problem = reason
        if self._failures >= LASTING:
            text = f"group {self._group}: the coordinator cannot be found yet: {reason}"
            self._warnings.warn("coordinator", now_ms, text)

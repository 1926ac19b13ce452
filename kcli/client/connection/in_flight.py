"""Requests by node, oldest first: in flight, and unsent ones that wait for a connection. Pure: no I/O, no clock."""

from __future__ import annotations

from collections import deque
from typing import Any

from kcli.client.request_future import RequestFuture
from kcli.protocol.wire import Request
from kcli.structs import Node


class InFlight:
    """A request that was sent. Produce with acks=0 expects no response; `internal`: a request of the client itself."""

    __slots__ = (
        "correlation_id",
        "deadline_ms",
        "expects_response",
        "future",
        "internal",
        "node_id",
        "request",
        "sent_ms",
        "version",
    )

    def __init__(
        self,
        node_id: int,
        correlation_id: int,
        version: int,
        request: Any,
        future: RequestFuture[Any],
        sent_ms: float,
        deadline_ms: float,
        expects_response: bool = True,
        internal: bool = False,
    ) -> None:
        self.node_id = node_id
        self.correlation_id = correlation_id
        self.version = version
        self.request = request
        self.future = future
        self.sent_ms = sent_ms
        self.deadline_ms = deadline_ms
        self.expects_response = expects_response
        self.internal = internal

    def __repr__(self) -> str:
        return f"<InFlight {self.api} v{self.version} #{self.correlation_id} to node {self.node_id}>"

    @property
    def api(self) -> str:
        """`Fetch` for a FetchRequest."""
        return type(self.request).__name__.removesuffix("Request")


class InFlightRequests:
    """Requests in flight, by node. A broker responds in order: the next response is that of the oldest request."""

    def __init__(self, max_per_node: int) -> None:
        self._max_per_node = max_per_node
        self._queues: dict[int, deque[InFlight]] = {}
        self._sending: set[int] = set()

    def __repr__(self) -> str:
        return f"<InFlightRequests { ({node_id: len(queue) for node_id, queue in self._queues.items()}) }>"

    def add(self, entry: InFlight) -> None:
        """Add a request that was passed to the connection. The next may follow after it is written."""
        self._queues.setdefault(entry.node_id, deque()).append(entry)
        self._sending.add(entry.node_id)

    def can_send(self, node_id: int) -> bool:
        """Return whether the last request is written and the limit per node is not reached."""
        return node_id not in self._sending and self.count(node_id) < self._max_per_node

    def count(self, node_id: int | None = None) -> int:
        """Return the number of requests, of one node or of all."""
        if node_id is None:
            return sum(map(len, self._queues.values()))
        return len(self._queues.get(node_id, ()))

    def written(self, node_id: int) -> InFlight | None:
        """The newest request is written. Remove and return it if no response is expected."""
        self._sending.discard(node_id)
        queue = self._queues.get(node_id)
        if queue and not queue[-1].expects_response:
            return queue.pop()
        return None

    def oldest(self, node_id: int) -> InFlight | None:
        queue = self._queues.get(node_id)
        return queue[0] if queue else None

    def take_oldest(self, node_id: int) -> InFlight:
        return self._queues[node_id].popleft()

    def take_all(self, node_id: int) -> tuple[list[InFlight], InFlight | None]:
        """Remove the requests of a node whose connection closed. Return them, and the one not completely written."""
        entries = list(self._queues.pop(node_id, ()))
        unwritten = entries[-1] if entries and node_id in self._sending else None
        self._sending.discard(node_id)
        return entries, unwritten

    def overdue(self, now_ms: float) -> list[InFlight]:
        """Return the first overdue request of each node; the caller disconnects the node."""
        firsts = (next((e for e in queue if e.deadline_ms <= now_ms), None) for queue in self._queues.values())
        return [entry for entry in firsts if entry is not None]

    def next_deadline_ms(self) -> float:
        return min((e.deadline_ms for queue in self._queues.values() for e in queue), default=float("inf"))

    def adopt(self, old_id: int, new_id: int) -> None:
        """Move the requests of `old_id` to `new_id`, with the connection."""
        queue = self._queues.pop(old_id, None)
        if queue:
            for entry in queue:
                entry.node_id = new_id
            self._queues[new_id] = queue
        if old_id in self._sending:
            self._sending.remove(old_id)
            self._sending.add(new_id)


class Unsent:
    """A request that waits for a connection."""

    __slots__ = ("deadline_ms", "future", "max_version", "min_version", "node", "request")

    def __init__(
        self,
        node: Node,
        request: Request[Any],
        future: RequestFuture[Any],
        deadline_ms: float,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        self.node = node
        self.request = request
        self.future = future
        self.deadline_ms = deadline_ms
        self.min_version = min_version
        self.max_version = max_version


class UnsentRequests:
    """Unsent requests, by node. Any thread may call `put`; the other methods, one at a time, after `sort_in`."""

    def __init__(self) -> None:
        self._inbox: deque[Unsent] = deque()
        self._queues: dict[int, deque[Unsent]] = {}

    def __repr__(self) -> str:
        return f"<UnsentRequests { ({node_id: len(queue) for node_id, queue in self._queues.items()}) }>"

    def put(self, entry: Unsent) -> None:
        self._inbox.append(entry)

    def sort_in(self) -> None:
        """Move the requests that were put to the queues of their nodes."""
        while self._inbox:
            entry = self._inbox.popleft()
            self._queues.setdefault(entry.node.id, deque()).append(entry)

    def nodes(self) -> list[Node]:
        """Return the nodes with unsent requests, each with the address in its oldest request."""
        return [queue[0].node for queue in self._queues.values()]

    def take_oldest(self, node_id: int) -> Unsent | None:
        queue = self._queues.get(node_id)
        if not queue:
            return None
        entry = queue.popleft()
        if not queue:
            del self._queues[node_id]
        return entry

    def take_all(self, node_id: int) -> list[Unsent]:
        """Remove and return the requests to one node."""
        return list(self._queues.pop(node_id, ()))

    def take(self, future: RequestFuture[Any]) -> Unsent | None:
        """Remove and return the request of this future; None if it is not here."""
        for node_id, queue in self._queues.items():
            for entry in queue:
                if entry.future is future:
                    queue.remove(entry)
                    if not queue:
                        del self._queues[node_id]
                    return entry
        return None

    def take_expired(self, now_ms: float) -> list[Unsent]:
        """Remove and return the requests whose deadline passed."""
        expired = [entry for queue in self._queues.values() for entry in queue if entry.deadline_ms <= now_ms]
        for node_id in {entry.node.id for entry in expired}:
            remaining = deque(entry for entry in self._queues.pop(node_id) if entry.deadline_ms > now_ms)
            if remaining:
                self._queues[node_id] = remaining
        return expired

    def next_deadline_ms(self) -> float:
        return min((e.deadline_ms for queue in self._queues.values() for e in queue), default=float("inf"))

    def count(self, node_id: int | None = None) -> int:
        """Return the number of requests, to one node or to all, including those not sorted in yet."""
        entries = [*list(self._inbox), *(entry for queue in list(self._queues.values()) for entry in list(queue))]
        return len(entries) if node_id is None else sum(entry.node.id == node_id for entry in entries)

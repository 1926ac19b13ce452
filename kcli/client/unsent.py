"""Requests that wait for their connection, by node, in the order in which they came. Pure: no I/O, no clock."""

from __future__ import annotations

from collections import deque
from typing import Any

from kcli.client.request_future import RequestFuture
from kcli.protocol.wire import Request
from kcli.structs import Node


class Unsent:
    """One request on its way to a connection."""

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
    """`put` may be called by any thread; the rest by one at a time, after `sort_in`."""

    def __init__(self) -> None:
        self._inbox: deque[Unsent] = deque()
        self._queues: dict[int, deque[Unsent]] = {}

    def __repr__(self) -> str:
        return f"<UnsentRequests { ({node_id: len(queue) for node_id, queue in self._queues.items()}) }>"

    def put(self, entry: Unsent) -> None:
        self._inbox.append(entry)

    def sort_in(self) -> None:
        """Queue what was put by node."""
        while self._inbox:
            entry = self._inbox.popleft()
            self._queues.setdefault(entry.node.id, deque()).append(entry)

    def nodes(self) -> list[Node]:
        """Those that something waits for, at the address that the oldest request was meant for."""
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
        """All that wait for a node that is lost."""
        return list(self._queues.pop(node_id, ()))

    def take_expired(self, now_ms: float) -> list[Unsent]:
        """All whose deadline has come before their connection."""
        expired = [entry for queue in self._queues.values() for entry in queue if entry.deadline_ms <= now_ms]
        for node_id in {entry.node.id for entry in expired}:
            left = deque(entry for entry in self._queues.pop(node_id) if entry.deadline_ms > now_ms)
            if left:
                self._queues[node_id] = left
        return expired

    def next_deadline_ms(self) -> float:
        return min((e.deadline_ms for queue in self._queues.values() for e in queue), default=float("inf"))

    def count(self, node_id: int | None = None) -> int:
        """For one node, or for all; those not sorted in yet included."""
        entries = [*list(self._inbox), *(entry for queue in list(self._queues.values()) for entry in list(queue))]
        return len(entries) if node_id is None else sum(entry.node.id == node_id for entry in entries)

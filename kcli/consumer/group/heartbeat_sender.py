"""`HeartbeatSender`: the heartbeats of one classic member, sent when they are due, judged by the member."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

from kcli.consumer.group import classic_requests as requests
from kcli.consumer.group.heartbeat import Heartbeat

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.group.membership import Generation
    from kcli.protocol.messages.heartbeat import HeartbeatResponse
    from kcli.structs import Node

#: (who was asked, for which generation, the answer) -> the coordinator knows that we live.
Judge = Callable[["Node", "Generation", "RequestFuture[HeartbeatResponse]"], bool]


class HeartbeatSender:
    """Called with the member's `lock` held, which answers take themselves. `node`: the coordinator seen last."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        config: ConsumerConfig,
        lock: RLock,
        judge: Judge,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._config = config
        self._lock = lock
        self._judge = judge
        self.times = Heartbeat(config, client.clock.now_ms())
        self.in_flight: RequestFuture[HeartbeatResponse] | None = None
        self.node: Node | None = None

    def has_coordinator(self, now_ms: float) -> bool:
        """Whether there is somebody to tell. Whoever was found anew is given a whole session to answer."""
        node = self._lookup.node
        if node is not None and node != self.node:
            self.times.found(now_ms)
        self.node = node
        return node is not None

    def send(self, generation: Generation, now_ms: float) -> None:
        """Send a heartbeat, if one is due."""
        node = self._lookup.node
        if node is None or self.in_flight is not None or not self.times.is_due(now_ms):
            return
        self.times.sent(now_ms)
        request = requests.heartbeat_request(self._config, generation)
        lowest = requests.lowest_version(request, self._config)
        self.in_flight = self._client.send(node, request, min_version=lowest)
        self.in_flight.on_done(partial(self._answered, node, generation))

    def next_ms(self) -> float:
        """When there is something to do though nothing arrives."""
        if self.in_flight is not None:
            return min(self.times.session_ends_ms, self.times.poll_ends_ms)
        return self.times.next_ms()

    def _answered(self, node: Node, generation: Generation, done: RequestFuture[HeartbeatResponse]) -> None:
        with self._lock:
            if self.in_flight is done:
                self.in_flight = None
            good = self._judge(node, generation, done)
            now_ms = self._client.clock.now_ms()
            if good:
                self.times.answered(now_ms)
            else:
                self.times.failed(now_ms)

"""`Heartbeat`: the timers of a classic member.

`HeartbeatSender` sends its heartbeats, `HeartbeatThread` in the background.

Three timers run: for the next heartbeat; for the session, after which the coordinator must have removed the member
because no heartbeat arrived; and for the poll, after which the application is considered dead (max.poll.interval.ms,
KIP-62).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.backoff import Backoff
from kcli.consumer.group import classic_protocol as requests

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.group.group_membership import Generation
    from kcli.protocol.messages.heartbeat import HeartbeatResponse
    from kcli.structs import Node


class Heartbeat:
    """The three timers of one member. Pure: time is an argument."""

    def __init__(self, config: ConsumerConfig, now_ms: float) -> None:
        self._interval_ms = config.heartbeat_interval_ms
        self._session_timeout_ms = config.session_timeout_ms
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._failures = 0
        self.due_ms = now_ms
        self.session_ends_ms = now_ms
        self.poll_ends_ms = now_ms
        self._sent_ms = now_ms
        self._confirmed_ms = now_ms
        self.begin(now_ms)

    def __repr__(self) -> str:
        return f"<Heartbeat due={self.due_ms:.0f} session={self.session_ends_ms:.0f} poll={self.poll_ends_ms:.0f}>"

    def begin(self, now_ms: float) -> None:
        """Start all timers, for a new generation."""
        self._failures = 0
        self.due_ms = now_ms + self._interval_ms
        self.session_ends_ms = now_ms + self._session_timeout_ms
        self.polled(now_ms)

    def polled(self, now_ms: float) -> None:
        """Restart the poll timer."""
        self.poll_ends_ms = now_ms + self._max_poll_interval_ms

    def sent(self, now_ms: float) -> None:
        """Restart the heartbeat timer."""
        self.due_ms = now_ms + self._interval_ms
        self._sent_ms = now_ms

    def answered(self, now_ms: float) -> None:
        """Restart the session timer after a successful response."""
        self._failures = 0
        self.session_ends_ms = now_ms + self._session_timeout_ms
        self.confirmed(self._sent_ms)

    def failed(self, now_ms: float) -> None:
        """Set the next heartbeat to the end of the backoff."""
        self._failures += 1
        self.due_ms = now_ms + self._backoff.after(self._failures)

    def coordinator_changed(self, now_ms: float) -> None:
        """Restart the session timer, because there is a new coordinator."""
        self.session_ends_ms = now_ms + self._session_timeout_ms

    def confirmed(self, sent_ms: float) -> None:
        """Record that the coordinator had the member when it received a request sent at this time."""
        self._confirmed_ms = sent_ms

    def join_pending(self, now_ms: float) -> None:
        """Record that a JoinGroup in flight confirms the membership now. A suspended process does not call this."""
        if not self.may_be_expelled(now_ms):
            self._confirmed_ms = now_ms

    def may_be_expelled(self, now_ms: float) -> bool:
        """True if the coordinator may have removed the member: no request sent within session.timeout.ms was answered.

        The time of sending counts, not that of the response: a process that was suspended reads old responses.
        """
        return now_ms >= self._confirmed_ms + self._session_timeout_ms

    def is_due(self, now_ms: float) -> bool:
        return now_ms >= self.due_ms

    def session_is_over(self, now_ms: float) -> bool:
        return now_ms >= self.session_ends_ms

    def poll_is_overdue(self, now_ms: float) -> bool:
        return now_ms >= self.poll_ends_ms

    def next_ms(self) -> float:
        """Return the time at which the first timer ends."""
        return min(self.due_ms, self.session_ends_ms, self.poll_ends_ms)


#: (coordinator, generation, response) -> whether the coordinator accepts the member.
Judge = Callable[["Node", "Generation", "RequestFuture[HeartbeatResponse]"], bool]


class HeartbeatSender:
    """Sends the heartbeats of one classic member. The caller holds the member's `lock`; response handlers take it.

    `node`: the coordinator of the last call.
    """

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
        self.timers = Heartbeat(config, client.clock.now_ms())
        self.in_flight: RequestFuture[HeartbeatResponse] | None = None
        self.node: Node | None = None

    def has_coordinator(self, now_ms: float) -> bool:
        """True if a coordinator is known. A new coordinator restarts the session timer."""
        node = self._lookup.node
        if node is not None and node != self.node:
            self.timers.coordinator_changed(now_ms)
        self.node = node
        return node is not None

    def send(self, generation: Generation, now_ms: float) -> None:
        """Send a heartbeat if one is due."""
        node = self._lookup.node
        if node is None or self.in_flight is not None or not self.timers.is_due(now_ms):
            return
        self.timers.sent(now_ms)
        request = requests.heartbeat_request(self._config, generation)
        lowest = requests.lowest_version(request, self._config)
        # Half of the session is left for another connection if this one is dead without a sign (half-open).
        timeout_ms = min(self._config.request_timeout_ms, self._config.session_timeout_ms / 2)
        self.in_flight = self._client.send(node, request, timeout_ms=timeout_ms, min_version=lowest)
        self.in_flight.add_done_callback(partial(self._answered, node, generation))

    def next_ms(self) -> float:
        """Return the time of the next action."""
        if self.in_flight is not None:
            return min(self.timers.session_ends_ms, self.timers.poll_ends_ms)
        return self.timers.next_ms()

    def _answered(self, node: Node, generation: Generation, done: RequestFuture[HeartbeatResponse]) -> None:
        with self._lock:
            if self.in_flight is done:
                self.in_flight = None
            good = self._judge(node, generation, done)
            now_ms = self._client.clock.now_ms()
            if good:
                self.timers.answered(now_ms)
            else:
                self.timers.failed(now_ms)


# Longest network wait, and pause before the next one if the application's thread polls the network.
_LOOK_AGAIN_MS = 50.0


class NextBeat(NamedTuple):
    """The time of the next call (infinity: not before `wake`), and the request in flight."""

    next_ms: float
    awaited: RequestFuture[Any] | None = None


class HeartbeatThread:
    """Calls `beat(now_ms)` in its own thread when it is due; `beat` sends requests and never waits.

    While the application polls, the application's thread drives the network; otherwise this thread does, and completes
    only the request that `beat` awaits. The application may call `beat` too, so `beat` needs a lock. An exception of
    `beat` ends the thread and is stored as `failure`.
    """

    def __init__(self, client: ConsumerNetworkClient, beat: Callable[[float], NextBeat], name: str) -> None:
        self._client = client
        self._beat = beat
        self._name = f"kcli heartbeat {name}"
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._woken = False
        self.failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<HeartbeatThread {self._name} {'running' if self._thread is not None else 'not started'}>"

    def start(self) -> None:
        """Start the thread unless it runs."""
        if self._thread is None:
            self._stopped = False
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Call `beat` soon, because its last result is no longer valid."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def stop(self) -> None:
        """End the thread and wait for its end. Requests in flight may stay unanswered."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with self._condition:
                self._stopped = True
                self._condition.notify()
            thread.join()

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._turn()
        except BaseException as error:
            self.failure = error

    def _turn(self) -> None:
        client = self._client
        now_ms = client.clock.now_ms()
        beat = self._beat(now_ms)
        wait_ms = max(0.0, beat.next_ms - client.clock.now_ms())
        if beat.awaited is None or beat.awaited.done:
            self._sleep(wait_ms)
        elif not client.serve(beat.awaited, min(wait_ms, _LOOK_AGAIN_MS)):
            self._sleep(min(wait_ms, _LOOK_AGAIN_MS))

    def _sleep(self, wait_ms: float) -> None:
        with self._condition:
            if not self._stopped and not self._woken:
                self._condition.wait(None if wait_ms == float("inf") else wait_ms / 1000)
            self._woken = False

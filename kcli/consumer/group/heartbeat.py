"""`Heartbeat`: when a member must say that it lives, and when it must be believed dead. Pure: time is a number.

Three times run. The heartbeat's: the next one is due. The session's: the coordinator has not answered for so long that
it must have expelled us. The poll's: the application has not polled for so long that it cannot be at work any more
(KIP-62).
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
    """The three times of one member."""

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
        self._vouched_ms = now_ms
        self.begin(now_ms)

    def __repr__(self) -> str:
        return f"<Heartbeat due={self.due_ms:.0f} session={self.session_ends_ms:.0f} poll={self.poll_ends_ms:.0f}>"

    def begin(self, now_ms: float) -> None:
        """A generation begins: all times anew."""
        self._failures = 0
        self.due_ms = now_ms + self._interval_ms
        self.session_ends_ms = now_ms + self._session_timeout_ms
        self.polled(now_ms)

    def polled(self, now_ms: float) -> None:
        """The application is at work."""
        self.poll_ends_ms = now_ms + self._max_poll_interval_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat is on its way."""
        self.due_ms = now_ms + self._interval_ms
        self._sent_ms = now_ms

    def answered(self, now_ms: float) -> None:
        """The coordinator knows that we live."""
        self._failures = 0
        self.session_ends_ms = now_ms + self._session_timeout_ms
        self.vouched_for(self._sent_ms)

    def failed(self, now_ms: float) -> None:
        """It may not know; to be said again soon."""
        self._failures += 1
        self.due_ms = now_ms + self._backoff.after(self._failures)

    def found(self, now_ms: float) -> None:
        """There is a coordinator again, so the session is given its full time."""
        self.session_ends_ms = now_ms + self._session_timeout_ms

    def vouched_for(self, sent_ms: float) -> None:
        """The coordinator had us as a member when it answered what was sent then."""
        self._vouched_ms = sent_ms

    def still_waits(self, now_ms: float) -> None:
        """An open JoinGroup vouches for us as well, as long as we look after it: who was stopped may not."""
        if not self.is_doubtful(now_ms):
            self._vouched_ms = now_ms

    def is_doubtful(self, now_ms: float) -> bool:
        """Whether we may have been expelled without knowing: nothing said since a session ago was answered.

        Not when an answer came counts, but when its request left: a process that was stopped finds old answers.
        """
        return now_ms >= self._vouched_ms + self._session_timeout_ms

    def is_due(self, now_ms: float) -> bool:
        return now_ms >= self.due_ms

    def session_is_over(self, now_ms: float) -> bool:
        return now_ms >= self.session_ends_ms

    def poll_is_overdue(self, now_ms: float) -> bool:
        return now_ms >= self.poll_ends_ms

    def next_ms(self) -> float:
        """When the first of the three times is over."""
        return min(self.due_ms, self.session_ends_ms, self.poll_ends_ms)


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


# Whose answer is awaited is looked at this often, unless the answer comes to this thread itself.
_LOOK_AGAIN_MS = 50.0


class Beat(NamedTuple):
    """When there will be something to do next (infinity: not before `wake`), and the request that is on its way."""

    next_ms: float
    awaited: RequestFuture[Any] | None = None


class HeartbeatThread:
    """Calls `beat(now_ms)` whenever it is time, from its own thread; `beat` sends what is due and never waits.

    An application that polls drives the network itself; while it does not, this thread does, and settles nothing but
    what `beat` awaits. The application may call the same function from its own thread, so it needs a lock inside.
    What `beat` raises ends the thread and is kept as `failure`.
    """

    def __init__(self, client: ConsumerNetworkClient, beat: Callable[[float], Beat], name: str) -> None:
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
        """Begin; nothing happens if it runs already."""
        if self._thread is None:
            self._stopped = False
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Call `beat` soon: what it told of its next time holds no longer."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def stop(self) -> None:
        """End it and wait until it has ended; what it has sent may remain unanswered."""
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
        elif client.is_polled_by_another_thread:
            self._sleep(min(wait_ms, _LOOK_AGAIN_MS))
        else:
            client.serve(beat.awaited, min(wait_ms, _LOOK_AGAIN_MS))

    def _sleep(self, wait_ms: float) -> None:
        with self._condition:
            if not self._stopped and not self._woken:
                self._condition.wait(None if wait_ms == float("inf") else wait_ms / 1000)
            self._woken = False

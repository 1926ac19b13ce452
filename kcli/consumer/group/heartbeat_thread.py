"""`HeartbeatThread`: lets a member say that it lives while the application is busy with records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture

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

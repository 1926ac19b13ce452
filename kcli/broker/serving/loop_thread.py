"""A server's loop in a thread of this process: start it, end it, and call functions in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from kcli import forks
from kcli.errors import KcliError

T = TypeVar("T")

START_S = 60.0
JOIN_S = 30.0


class Server(Protocol):
    """A `Broker` or a `ControllerServer`."""

    def poll(self, max_wait_ms: float) -> None:
        """Run one iteration of the loop."""

    def run(self, until: Callable[[], bool]) -> None:
        """Poll until `until()`."""

    def kill(self) -> None:
        """End it as kill -9 would."""

    def wakeup(self) -> None:
        """End the current wait of the loop."""

    def call(self, fn: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """Call `fn` in the loop's thread."""


S = TypeVar("S", bound=Server)


class LoopThread(Generic[S]):
    """The thread of a started server. `failure` is the error that ended the loop; the server is killed then."""

    def __init__(self, name: str, on_failure: Callable[[], None] = lambda: None) -> None:
        """`on_failure` is called in the thread after the loop has failed."""
        self.server: S | None = None
        self.failure: BaseException | None = None
        self._name = name
        self._on_failure = on_failure
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._made_in = forks.pid

    def __repr__(self) -> str:
        return f"<LoopThread {self._name} {self.state}>"

    @property
    def state(self) -> str:
        """`running`, `failed` or `stopped`."""
        return "running" if self.is_running else "failed" if self.failure else "stopped"

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, server: S, is_serving: Callable[[], bool] = lambda: True) -> None:
        """Give the loop of a started server to a new thread, and wait until it polls and `is_serving()`.

        KcliError, and the server is killed, if it does not serve within 60 seconds.
        """
        self.server, self.failure = server, None
        self._stopping.clear()
        serves = threading.Event()
        arguments = (server, is_serving, serves)
        self._thread = threading.Thread(target=self._run, args=arguments, name=self._name, daemon=True)
        self._thread.start()
        if not serves.wait(START_S):
            self.end(lambda server: server.kill())
            raise KcliError(f"{self._name} does not serve clients {START_S:.0f} s after its start")

    def _run(self, server: S, is_serving: Callable[[], bool], serves: threading.Event) -> None:
        try:
            try:
                server.poll(0)  # the loop belongs to this thread from here on
                server.run(lambda: self._stopping.is_set() or is_serving())
            finally:
                serves.set()
            server.run(self._stopping.is_set)
        except BaseException as failure:
            self.failure = failure
            server.kill()
            self._on_failure()

    def end(self, finish: Callable[[S], None]) -> None:
        """End the loop, then call `finish(server)` in this thread unless the loop failed. No-op if it was ended.

        No-op, too, in a fork of the process that made it: the server runs in the parent, and so do its files.
        """
        if self._made_in != forks.pid:
            return
        server, thread, self.server, self._thread = self.server, self._thread, None, None
        if server is None or thread is None:
            return
        self._stopping.set()
        server.wakeup()
        thread.join(JOIN_S)
        if thread.is_alive():
            raise KcliError(f"the loop of {self._name} did not end within {JOIN_S:.0f} s")
        if self.failure is None:
            finish(server)

    def call(self, fn: Callable[[S], T]) -> T:
        """Call `fn(server)` in the loop's thread between two requests; return its result or raise its exception."""
        server = self.server
        if server is None or not self.is_running:
            raise KcliError(f"{self._name} is not running") from self.failure
        result: T = server.call(lambda: fn(server))
        return result

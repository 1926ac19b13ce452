"""The composition root: one process, one loop that owns all state."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.connections import ConnectionCounts, max_open_connections
from kcli.broker.control import Control
from kcli.broker.handlers.table import HANDLERS
from kcli.broker.request_context import RequestContext
from kcli.broker.server import Answer, SocketServer
from kcli.broker.timer import Timer
from kcli.clock import Clock, SystemClock
from kcli.errors import KcliError
from kcli.network.listener import open_listener
from kcli.network.selector import Selector
from kcli.protocol.wire import Request

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files

T = TypeVar("T")

# Of a frame that a client only claims to send; many clients may claim.
_FIRST_STEP_BYTES = 4096
# After the data directory has failed, so long may the answers that say so take to leave.
_LAST_WORDS_MS = 200.0


class BrokerFailed(KcliError):
    """The data directory cannot be written to any more; the broker ends, as real Kafka does with its only one."""


class Broker:
    """Everything a handler may need, by name. All of it belongs to the thread that calls `poll` or `run`.

    Only `wakeup` and `call` may come from other threads.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        """`complain` is told in sentences what somebody should know; by default they go to standard error."""
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.timer = Timer()
        self.control = Control()
        self.host = config.host
        self.port = config.port
        self._files = files
        self._tell = complain or _to_stderr
        self._calls: deque[Callable[[], None]] = deque()
        self._loop_thread: int | None = None
        self._handlers: dict[int, Callable[[Any, Request[Any], RequestContext], Answer]] = {}
        self.server: SocketServer

    def __repr__(self) -> str:
        return f"<Broker {self.address} node={self.config.node_id}>"

    @property
    def address(self) -> str:
        """`host:port` where it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    # ---- its life ----

    def start(self) -> None:
        """Open the data directory and listen. KcliError or OSError, and nothing left open, if it cannot."""
        listening = open_listener(self.host, self.port, backlog=self.config.socket_listen_backlog_size)
        self.port = listening.getsockname()[1]
        self.server = self._make_server()
        self.server.listen_on(listening)

    def poll(self, max_wait_ms: float) -> None:
        """One round of the loop: wait for something to do, up to `max_wait_ms`, and do it."""
        self._loop_thread = threading.get_ident()
        wait_ms = min(max_wait_ms, self.timer.next_deadline_ms() - self.clock.now_ms())
        self.server.poll(max(0.0, 0.0 if self._calls else wait_ms))
        while self._calls:
            self._calls.popleft()()
        self.timer.advance(self.clock.now_ms())

    def run(self, until: Callable[[], bool]) -> None:
        """Poll until `until()`, which is asked after each round: `wakeup` ends one. BrokerFailed: see there."""
        while not until():
            self.poll(float("inf"))

    def shutdown(self, *, clean: bool = True) -> None:
        """End it: connections are closed; `clean`: everything is flushed and the directory marked as left in order."""
        self.server.close()

    def kill(self) -> None:
        """End it as kill -9 would: nothing is flushed or marked."""
        self.server.close()

    # ---- from other threads ----

    def wakeup(self) -> None:
        """End the wait of `poll` under way, or of the next."""
        self.server.wakeup()

    def call(self, ask: Callable[[], T], timeout_s: float = 30.0) -> T:
        """`ask()` in the loop's thread, between two requests; returns or raises what it does."""
        if self._loop_thread in (None, threading.get_ident()):
            return ask()
        done = threading.Event()
        outcome: list[tuple[T | None, BaseException | None]] = []

        def run() -> None:
            try:
                outcome.append((ask(), None))
            except BaseException as error:
                outcome.append((None, error))
            done.set()

        self._calls.append(run)
        self.wakeup()
        if not done.wait(timeout_s):
            raise KcliError(f"the broker's loop did not come round within {timeout_s:g} s")
        value, error = outcome[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    # ---- inside ----

    def _handle(self, request: Request[Any], context: RequestContext) -> Answer:
        handler = self._handlers.get(context.api_key)
        if handler is None:
            module = import_module(f"kcli.broker.handlers.{HANDLERS[context.api_key].module}")
            handler = self._handlers[context.api_key] = module.handle
        return handler(self, request, context)

    def _make_server(self) -> SocketServer:
        config = self.config
        selector = Selector(
            self.clock,
            max_frame_bytes=config.socket_request_max_bytes,
            memory_limit_bytes=config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else None,
            idle_ms=config.connections_max_idle_ms,
            in_turn=True,
            first_step_bytes=_FIRST_STEP_BYTES,
        )
        possible = max_open_connections()
        counts = ConnectionCounts(min(config.max_connections, possible), config.max_connections_per_ip)
        return SocketServer(
            selector,
            counts,
            self._handle,
            self.control,
            self.timer,
            self.clock,
            self._complain,
            evicts=possible < config.max_connections,
        )

    def _complain(self, text: str, bug: BaseException | None) -> None:
        self._tell(text if bug is None else f"{text}: {type(bug).__name__}: {bug}")
        if bug is not None and os.environ.get("KCLI_DEBUG") == "1":
            import traceback

            self._tell("".join(traceback.format_exception(bug)).rstrip())


def _to_stderr(text: str) -> None:
    print(f"kcli broker: {text}", file=sys.stderr, flush=True)

"""ServerLoop: the loop that a broker and a controller have in common, with its sockets, timer and calls."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.cluster.cluster_values import Listener
from kcli.broker.security.listeners import SECURITY_PROTOCOLS
from kcli.broker.serving.calls import Calls
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.control import Control
from kcli.clock import Clock, SystemClock
from kcli.errors import KcliError
from kcli.network.listener import bind_socket
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.security.listeners import Endpoint
    from kcli.broker.serving.server import SocketServer

T = TypeVar("T")


class ServerLoop:
    """A server with one loop, which belongs to the thread that calls `poll`.

    Only `wakeup`, `post` and `call` may be used from other threads.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock | None, log: Callable[[str], None] | None, *, role: str
    ) -> None:
        """`log` receives messages for the operator; by default they go to standard error, after the `role`."""
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.timer = Timer()
        self.control = Control()
        self._log = log or (lambda text: print(f"kcli {role}: {visible(text)}", file=sys.stderr, flush=True))
        self.endpoints = config.endpoints  # with the ports in use, once they are bound
        self.server: SocketServer
        self._calls = Calls()

    @property
    def host(self) -> str:
        return self.endpoints[0].host

    @property
    def port(self) -> int:
        return self.endpoints[0].port

    @property
    def address(self) -> str:
        """The `host:port` of the first listener."""
        return _shown(self.host, self.port)

    def poll(self, max_wait_ms: float) -> None:
        """Run one iteration of the loop: wait up to `max_wait_ms` for events or due tasks, and process them."""
        self._calls.enter()
        wait_ms = min(max_wait_ms, self._next_due_ms() - self.clock.now_ms())
        self.server.poll(max(0.0, 0.0 if self._calls else wait_ms))
        self._calls.run()
        try:
            self._run_due(self.clock.now_ms())
        except Exception as bug:  # in one task, which must not stop the others
            self._log_fault("a due task failed", bug)

    def _next_due_ms(self) -> float:
        return self.timer.next_deadline_ms()

    def _run_due(self, now_ms: float) -> None:
        self.timer.advance(now_ms)

    def _log_fault(self, text: str, bug: BaseException | None) -> None:
        self._log(text if bug is None else f"{text}: {type(bug).__name__}: {bug}")
        if bug is not None and os.environ.get("KCLI_DEBUG") == "1":
            import traceback

            for line in "".join(traceback.format_exception(bug)).rstrip().split("\n"):
                self._log(line)

    # ---- from other threads ----

    def wakeup(self) -> None:
        """End the current wait of `poll`, or the next one."""
        self.server.wakeup()

    def post(self, fn: Callable[[], None]) -> None:
        """Call `fn()` in the loop thread, later."""
        self._calls.add(fn)
        self.wakeup()

    def call(self, fn: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Call `fn()` in the loop thread between two requests; return its result or raise its exception."""
        return self._calls.call(fn, self.wakeup, timeout_s)


def bind(endpoint: Endpoint) -> socket.socket:
    """Return a socket bound to the address of a listener. KcliError if that fails."""
    try:
        return bind_socket(endpoint.host, endpoint.port)
    except OSError as error:
        raise KcliError(f"cannot listen on {_shown(endpoint.host, endpoint.port)}: {error.strerror or error}") from None


def advertised_address(endpoint: Endpoint) -> tuple[str, int]:
    """Return the address of a listener for others.

    That is the name of this machine if it listens on all addresses, as in Apache Kafka.
    """
    host = socket.gethostname() if endpoint.host in ("", "0.0.0.0", "::") else endpoint.host
    return endpoint.advertised_host or host, endpoint.advertised_port or endpoint.port


def advertised_listeners(endpoints: Iterable[Endpoint]) -> tuple[Listener, ...]:
    """Return the listeners of a broker with the addresses that others are told."""
    return tuple(
        Listener(endpoint.name, *advertised_address(endpoint), SECURITY_PROTOCOLS[endpoint.protocol])
        for endpoint in endpoints
    )


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host or '0.0.0.0'}:{port}"

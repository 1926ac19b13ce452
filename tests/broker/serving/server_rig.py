"""A `SocketServer` with a test handler, driven by hand, and clients on real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kcli.broker.serving.connection_quotas import ConnectionQuotas
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.server import Answer, SocketServer
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.control import Control
from kcli.clock import ManualClock
from kcli.network.listener import bind_socket
from kcli.network.selector import Selector
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from tests.broker.wire import Wire


class ServerRig:
    """The server under test. `handle` may be replaced; by default it answers with a HeartbeatResponse."""

    def __init__(self, *, max_connections: int = 100, max_per_ip: int = 100, evicts: bool = False, **options: Any):
        self.clock = ManualClock()
        self.timer = Timer()
        self.control = Control()
        self.logged: list[tuple[str, BaseException | None]] = []
        self.handled: list[tuple[Any, RequestContext]] = []
        self.handle: Callable[[Any, RequestContext], Answer] = lambda request, context: HeartbeatResponse()
        self.selector = Selector(self.clock, **{"idle_ms": 600_000, **options}, half_duplex=True)
        self.quotas = ConnectionQuotas(max_connections, max_per_ip)
        self.server = SocketServer(
            self.selector,
            self.quotas,
            self._handle,
            self.control,
            self.timer,
            self.clock,
            lambda text, bug: self.logged.append((text, bug)),
            evicts=evicts,
        )
        listening = bind_socket("127.0.0.1", 0)
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        self.server.listen_on(listening, 100)
        self.wires: list[Wire] = []

    def _handle(self, request: Any, context: RequestContext) -> Answer:
        self.handled.append((request, context))
        return self.handle(request, context)

    def connect(self, *, admitted: bool = True) -> Wire:
        """Connect a new client and wait until it is accepted, unless `admitted` is False."""
        before = len(self.quotas)
        self.wires.append(Wire(self.address))
        if admitted:
            self.poll_until(lambda: len(self.quotas) > before)
        return self.wires[-1]

    def poll(self, polls: int = 5) -> None:
        for _ in range(polls):
            self.server.poll(2)
            self.timer.advance(self.clock.now_ms())

    def poll_until(self, done: Callable[[], object], polls: int = 2000) -> None:
        for _ in range(polls):
            if done():
                return
            self.poll(1)
        raise AssertionError(f"the condition was not met after {polls} polls of {self.server!r}")

    def advance(self, ms: float) -> None:
        self.clock.advance(ms)
        self.poll()

    def close(self) -> None:
        for wire in self.wires:
            wire.sock.close()
        self.server.close()


@contextmanager
def server_rig(**options: Any) -> Iterator[ServerRig]:
    made = ServerRig(**options)
    try:
        yield made
    finally:
        made.close()

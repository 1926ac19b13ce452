"""The composition root: one process, one loop that owns all state."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.cluster_state import ClusterState
from kcli.broker.control import Control
from kcli.broker.files import DiskFiles
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log_manager import LogManager
from kcli.broker.producer_ids import ProducerIds
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.request_context import RequestContext
from kcli.broker.server import Answer, ConnectionQuotas, SocketServer, max_open_connections
from kcli.broker.timer import Timer
from kcli.clock import Clock, SystemClock
from kcli.errors import ConfigError, KcliError
from kcli.network.listener import bind_socket
from kcli.network.selector import Selector
from kcli.protocol.wire import Request
from kcli.structs import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files
    from kcli.broker.group.group_coordinator import GroupCoordinator
    from kcli.broker.group.offset_store import OffsetStore

T = TypeVar("T")

# Of a frame that a client only claims to send; many clients may claim.
_FIRST_STEP_BYTES = 4096
# Real Kafka has a thread that does nothing but accept and gets by with 50. Ours serves in between: a queue that short
# overflows in a storm, and who then is not in it tries again after a second.
_LEAST_BACKLOG = 1024
# After the data directory has failed, so long may the answers that say so take to leave.
_LAST_WORDS_MS = 200.0
_AFTER_A_BUG_MS = 1000.0


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
        self._reports: list[list[str]] = []
        self._groups: tuple[OffsetStore, GroupCoordinator] | None = None
        self._chores_due_ms = 0.0
        self._handlers: dict[int, Callable[[Any, Request[Any], RequestContext], Answer]] = {}
        self.server: SocketServer
        self.is_started = False  # from here on `wakeup` works, and `shutdown` is the way out

    def __repr__(self) -> str:
        return f"<Broker {self.address} node={self.config.node_id}>"

    @property
    def address(self) -> str:
        """`host:port` where it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host or "0.0.0.0"
        return f"{host}:{self.port}"

    # ---- its life ----

    def start(self) -> None:
        """Open the data directory, load what is there, and listen. KcliError or OSError if that cannot be done; nothing
        is left open then."""
        with ExitStack() as undo:
            sock = undo.enter_context(self._bind())
            self.port = sock.getsockname()[1]
            self._open_data(undo)
            self.server = self._make_server()
            self.is_started = True
            self.server.listen_on(sock, max(self.config.socket_listen_backlog_size, _LEAST_BACKLOG))
            undo.pop_all()
        self._chores_due_ms = self.clock.now_ms()
        self._pass_on_reports()

    def _bind(self) -> socket.socket:
        """First of all, but nobody can connect before all is loaded."""
        try:
            return bind_socket(self.config.host, self.config.port)
        except OSError as error:
            raise KcliError(f"cannot listen at {self.address}: {error.strerror or error}") from None

    def _open_data(self, undo: ExitStack) -> None:
        config, files = self.config, self._files or DiskFiles()
        if config.data_dir is None:
            raise ConfigError("log.dirs must name the directory for the data")
        self.log_manager = LogManager(config.data_dir, files, config, self.clock)
        self._reports.append(self.log_manager.reports)
        undo.callback(self._pass_on_reports)
        undo.callback(lambda: self.log_manager.close(clean=False))
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, config)
        self.cluster = ClusterState(config, files, self.log_manager, self.replica_manager)
        self._reports.append(self.cluster.reports)
        self.cluster.host = config.advertised_host or _reachable(self.host)
        self.cluster.port = config.advertised_port or self.port
        self.log_manager.open(self.cluster.log_config)
        self.cluster.start()
        if OFFSETS_TOPIC in self.cluster.topics:
            self._load_groups()
        self.producer_ids = ProducerIds(config.data_dir, files, highest_seen=self.log_manager.highest_producer_id)

    def _load_groups(self) -> tuple[OffsetStore, GroupCoordinator]:
        """Committed offsets and groups: at the start if some are stored, else with the first request about them.

        What they import would be a tenth of the time until the broker is ready.
        """
        from kcli.broker.group.group_coordinator import GroupCoordinator
        from kcli.broker.group.offset_store import OffsetStore

        store = OffsetStore(self.config, self.replica_manager, self.cluster, self.clock)
        self._reports.append(store.reports)
        coordinator = GroupCoordinator(self.config, self.timer, self.clock, store)
        store.load(coordinator)
        self.cluster.on_topic_deleted.append(store.forget_topic)
        self._groups = store, coordinator
        self._chores_due_ms = self.clock.now_ms()  # it has some, too
        return self._groups

    @property
    def offsets(self) -> OffsetStore:
        """What groups have committed."""
        return (self._groups or self._load_groups())[0]

    @property
    def groups(self) -> GroupCoordinator:
        """The groups and their members."""
        return (self._groups or self._load_groups())[1]

    def poll(self, max_wait_ms: float) -> None:
        """One round of the loop: wait for something to do, up to `max_wait_ms`, and do it."""
        self._loop_thread = threading.get_ident()
        due_ms = min(self.timer.next_deadline_ms(), self._chores_due_ms)
        wait_ms = min(max_wait_ms, due_ms - self.clock.now_ms())
        self.server.poll(max(0.0, 0.0 if self._calls else wait_ms))
        while self._calls:
            self._calls.popleft()()
        now_ms = self.clock.now_ms()
        try:
            self.timer.advance(now_ms)
            if now_ms >= self._chores_due_ms:
                self._do_chores(now_ms, self.clock.wall_ms())
        except Exception as bug:  # of one task; the others must not suffer
            self._complain("something that was due failed", bug)
        self._pass_on_reports()

    def _do_chores(self, now_ms: float, now_wall_ms: int) -> None:
        self._chores_due_ms = now_ms + _AFTER_A_BUG_MS
        due_ms = self.log_manager.tick(now_ms, now_wall_ms)
        if self._groups is not None:
            due_ms = min(due_ms, self._groups[0].tick(now_ms, now_wall_ms))
        self._chores_due_ms = due_ms

    def _pass_on_reports(self) -> None:
        """Tell what the parts had to say since the last time."""
        for reports in self._reports:
            for text in reports:
                self._tell(text)
            reports.clear()

    def run(self, until: Callable[[], bool]) -> None:
        """Poll until `until()`, which is asked after each round: `wakeup` ends one.

        BrokerFailed when the data directory has failed; who waited for an answer has been told then.
        """
        while not until():
            self.poll(float("inf"))
            if self.log_manager.failed is not None:
                self.server.finish_sending(_LAST_WORDS_MS)
                raise BrokerFailed(f"the data directory has failed: {self.log_manager.failed}")

    def shutdown(self, *, clean: bool = True) -> None:
        """End it: connections are closed; `clean`: everything is flushed and the directory marked as left in order."""
        self.server.close()
        self.log_manager.close(clean=clean)
        self._pass_on_reports()

    def kill(self) -> None:
        """End it as kill -9 would: nothing is flushed or marked."""
        self.shutdown(clean=False)

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
        counts = ConnectionQuotas(min(config.max_connections, possible), config.max_connections_per_ip)
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


def _reachable(host: str) -> str:
    """What to tell clients when we listen everywhere: the name of this machine, as Kafka does."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host


def _to_stderr(text: str) -> None:
    print(f"kcli broker: {text}", file=sys.stderr, flush=True)

"""The broker: it wires all parts together and runs the one loop that owns all state."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.cluster_state import ClusterState
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import without_effect
from kcli.broker.control import Control
from kcli.broker.files import DiskFiles, retry_without
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log_manager import LogManager
from kcli.broker.producer_ids import ProducerIds
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.request_context import RequestContext
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.security.listeners import of_unknown_listeners
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
    from kcli.broker.security.acl_store import AclStore
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.security.credentials import Credentials
    from kcli.broker.security.delegation_tokens import DelegationTokens
    from kcli.broker.security.listeners import Endpoint
    from kcli.broker.security.secured_connections import ListenerSecurity

T = TypeVar("T")

# Memory reserved for a frame before its bytes arrive, because many clients may announce large frames.
_FIRST_READ_BYTES = 4096
# Apache Kafka has a thread that only accepts, so a backlog of 50 is enough. Here requests are served in between: in a
# connection storm so short a queue overflows, and each dropped client tries again only after a second.
_MIN_BACKLOG = 1024
# Time to send the answers with the error after the data directory has failed.
_FINAL_ANSWERS_MS = 200.0
_RETRY_AFTER_BUG_MS = 1000.0


class BrokerFailed(KcliError):
    """The data directory has failed and the broker stops, as Apache Kafka does if its only directory fails."""


class Broker:
    """One broker; its attributes are the parts that handlers use.

    All of it belongs to the thread that calls `poll` or `run`. Only `wakeup` and `call` may be used from other threads.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        """`log` receives messages for the operator; by default they go to standard error."""
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.timer = Timer()
        self.control = Control()
        self.authorizer: AnyAuthorizer = AllowAll()
        self.acls: AclStore | None = None
        self.host = config.host
        self.port = config.port
        self.endpoints = config.endpoints  # with the ports in use, once they are bound
        self._files = files or DiskFiles()
        self._log = log or _log_to_stderr
        self._calls: deque[Callable[[], None]] = deque()
        self._loop_thread: int | None = None
        self._reports: list[list[str]] = []
        self._groups: tuple[OffsetStore, GroupCoordinator] | None = None
        self._maintenance_due_ms = 0.0
        self._handlers: dict[int, Callable[[Any, Request[Any], RequestContext], Answer]] = {}
        self.server: SocketServer
        self.is_started = False  # then `wakeup` works, and `shutdown` must be called

    def __repr__(self) -> str:
        return f"<Broker {self.address} node={self.config.node_id}>"

    @property
    def address(self) -> str:
        """The `host:port` of the first listener."""
        return _shown(self.host, self.port)

    # ---- life cycle ----

    def start(self) -> None:
        """Open the data directory, load the logs, and listen.

        KcliError or OSError if that fails; then nothing is left open.
        """
        with ExitStack() as undo:
            sockets = [undo.enter_context(self._bind(endpoint)) for endpoint in self.config.endpoints]
            self.endpoints = tuple(
                endpoint._replace(port=sock.getsockname()[1])
                for endpoint, sock in zip(self.config.endpoints, sockets, strict=True)
            )
            self.port = self.endpoints[0].port
            self._open_data(undo)
            securities = {one.name: self._security(one) for one in self.endpoints if one.protocol != "PLAINTEXT"}
            self.server = self._make_server()
            self.is_started = True
            backlog = max(self.config.socket_listen_backlog_size, _MIN_BACKLOG)
            for endpoint, sock in zip(self.endpoints, sockets, strict=True):
                self.server.listen_on(sock, backlog, endpoint.name, securities.get(endpoint.name))
            undo.pop_all()
        self._maintenance_due_ms = self.clock.now_ms()
        self._log_reports()
        if (ignored := without_effect(self.config.given, BROKER_OPTIONS)) is not None:
            self._log(ignored)
        if stray := of_unknown_listeners(self.config.given, self.config.endpoints):
            self._log(f"{', '.join(stray)}: listeners has no such listener, so this has no effect")

    def _bind(self, endpoint: Endpoint) -> socket.socket:
        """Bind the port before anything else. Clients cannot connect until everything is loaded."""
        try:
            sock = bind_socket(endpoint.host, endpoint.port)
        except OSError as error:
            raise KcliError(
                f"cannot listen on {_shown(endpoint.host, endpoint.port)}: {error.strerror or error}"
            ) from None
        # Accepted sockets inherit the sizes. A receive buffer has to be set before a connection is established.
        for buffer, size in (
            (socket.SO_SNDBUF, self.config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, self.config.socket_receive_buffer_bytes),
        ):
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, buffer, size)
        return sock

    def _security(self, endpoint: Endpoint) -> ListenerSecurity:
        """Make TLS and SASL of a listener. Their imports take longer than the rest of the start."""
        from kcli.broker.security.secured_connections import ListenerSecurity

        return ListenerSecurity(
            endpoint,
            self.config.listener_settings(endpoint.name),
            self.credentials,
            self.tokens,
            self.clock,
            self._handle,
        )

    def _open_data(self, undo: ExitStack) -> None:
        config, files = self.config, self._files
        if config.data_dir is None:
            raise ConfigError("log.dirs is not set; set it to the data directory")
        self.log_manager = LogManager(config.data_dir, files, config, self.clock)
        self._reports.append(self.log_manager.reports)
        undo.callback(self._log_reports)
        undo.callback(lambda: self.log_manager.close(clean=False))
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, config)
        self.cluster = ClusterState(config, files, self.log_manager, self.replica_manager)
        self._reports.append(self.cluster.reports)
        self.cluster.advertised = {
            one.name: (one.advertised_host or _reachable_host(one.host), one.advertised_port or one.port)
            for one in self.endpoints
        }
        self.log_manager.open(self.cluster.log_config)
        self.cluster.start()
        if OFFSETS_TOPIC in self.cluster.topics:
            self._load_groups()
        self.producer_ids = ProducerIds(config.data_dir, files, highest_seen=self.log_manager.highest_producer_id)
        if config.authorizer_class_name:
            from kcli.broker.security.acl_store import AclStore
            from kcli.broker.security.authorizer import Authorizer

            self.authorizer = Authorizer(
                super_users=config.super_user_names, allow_without_acl=config.allow_everyone_if_no_acl_found
            )
            self.acls = AclStore(files, config.data_dir, self.authorizer, self.log_manager.fail)

    def _load_groups(self) -> tuple[OffsetStore, GroupCoordinator]:
        """Load groups and committed offsets: at the start if the offsets topic exists, else at the first request.

        Their imports would take a tenth of the start-up time.
        """
        from kcli.broker.group.group_coordinator import GroupCoordinator
        from kcli.broker.group.offset_store import OffsetStore

        store = OffsetStore(self.config, self.replica_manager, self.cluster, self.clock)
        self._reports.append(store.reports)
        coordinator = GroupCoordinator(self.config, self.timer, self.clock, store)
        store.load(coordinator)
        self.cluster.on_topic_deleted.append(store.forget_topic)
        self._groups = store, coordinator
        self._maintenance_due_ms = self.clock.now_ms()  # because the store needs maintenance, too
        return self._groups

    @property
    def offsets(self) -> OffsetStore:
        """The committed offsets of all groups."""
        return (self._groups or retry_without(self.log_manager.release_files, self._load_groups))[0]

    @property
    def groups(self) -> GroupCoordinator:
        """The groups and their members."""
        return (self._groups or retry_without(self.log_manager.release_files, self._load_groups))[1]

    @cached_property
    def credentials(self) -> Credentials:
        """The SCRAM users."""
        from kcli.broker.security.credentials import Credentials

        return Credentials(self._files, self.log_manager.data_dir, self.log_manager.fail)

    @cached_property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        from kcli.broker.security.delegation_tokens import DelegationTokens

        return DelegationTokens(self._files, self.log_manager.data_dir, self.log_manager.fail, self.config)

    def poll(self, max_wait_ms: float) -> None:
        """Run one iteration of the loop: wait up to `max_wait_ms` for events or due tasks, and process them."""
        self._loop_thread = threading.get_ident()
        due_ms = min(self.timer.next_deadline_ms(), self._maintenance_due_ms)
        wait_ms = min(max_wait_ms, due_ms - self.clock.now_ms())
        self.server.poll(max(0.0, 0.0 if self._calls else wait_ms))
        while self._calls:
            self._calls.popleft()()
        now_ms = self.clock.now_ms()
        try:
            self.timer.advance(now_ms)
            if now_ms >= self._maintenance_due_ms:
                self._maintain(now_ms, self.clock.wall_ms())
        except Exception as bug:  # in one task, which must not stop the others
            self._log_fault("a due task failed", bug)
        self._log_reports()

    def _maintain(self, now_ms: float, now_wall_ms: int) -> None:
        self._maintenance_due_ms = now_ms + _RETRY_AFTER_BUG_MS
        self.cluster.save_pending()
        due_ms = self.log_manager.tick(now_ms, now_wall_ms)
        if self._groups is not None:
            due_ms = min(due_ms, self._groups[0].tick(now_ms, now_wall_ms))
        self._maintenance_due_ms = due_ms

    def _log_reports(self) -> None:
        """Log the messages that the parts have collected."""
        for reports in self._reports:
            for text in reports:
                self._log(text)
            reports.clear()

    def run(self, until: Callable[[], bool]) -> None:
        """Poll until `until()` returns True. It is called after each iteration; `wakeup` ends one.

        BrokerFailed if the data directory fails, after the waiting requests were answered with the error.
        """
        while not until():
            self.poll(float("inf"))
            if self.log_manager.failed is not None:
                self.server.finish_sending(_FINAL_ANSWERS_MS)
                raise BrokerFailed(f"the data directory has failed: {self.log_manager.failed}")

    def shutdown(self, *, clean: bool = True) -> None:
        """Close all connections and logs. `clean`: flush everything and write the marker of a clean shutdown."""
        self.server.close()
        if clean:
            self.cluster.save_pending()
        self.log_manager.close(clean=clean)
        self._log_reports()

    def kill(self) -> None:
        """End it as kill -9 would: nothing is flushed or marked."""
        self.shutdown(clean=False)

    # ---- from other threads ----

    def wakeup(self) -> None:
        """End the current wait of `poll`, or the next one."""
        self.server.wakeup()

    def call(self, fn: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Call `fn()` in the loop thread between two requests; return its result or raise its exception."""
        if self._loop_thread in (None, threading.get_ident()):
            return fn()
        done = threading.Event()
        outcomes: list[tuple[T | None, BaseException | None]] = []

        def run() -> None:
            try:
                outcomes.append((fn(), None))
            except BaseException as error:
                outcomes.append((None, error))
            done.set()

        self._calls.append(run)
        self.wakeup()
        if not done.wait(timeout_s):
            raise KcliError(f"the broker's loop did not run the call within {timeout_s:g} s")
        value, error = outcomes[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    # ---- internal ----

    def _handle(self, request: Request[Any], context: RequestContext) -> Answer:
        handler = self._handlers.get(context.api_key)
        if handler is None:
            name = f"kcli.broker.handlers.{HANDLERS[context.api_key].module}"
            module = retry_without(self.log_manager.release_files, lambda: import_module(name))
            handler = self._handlers[context.api_key] = module.handle
        return handler(self, request, context)

    def _make_server(self) -> SocketServer:
        config = self.config
        selector = Selector(
            self.clock,
            max_frame_bytes=config.socket_request_max_bytes,
            memory_limit_bytes=config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else None,
            idle_ms=config.connections_max_idle_ms,
            half_duplex=True,
            initial_frame_bytes=_FIRST_READ_BYTES,
        )
        max_connections = max_open_connections()
        quotas = ConnectionQuotas(min(config.max_connections, max_connections), config.max_connections_per_ip)
        return SocketServer(
            selector,
            quotas,
            self._handle,
            self.control,
            self.timer,
            self.clock,
            self._log_fault,
            release_descriptors=self.log_manager.release_files,
            evicts=max_connections < config.max_connections,
            refusal_delay_ms=config.connection_failed_authentication_delay_ms,
        )

    def _log_fault(self, text: str, bug: BaseException | None) -> None:
        self._log(text if bug is None else f"{text}: {type(bug).__name__}: {bug}")
        if bug is not None and os.environ.get("KCLI_DEBUG") == "1":
            import traceback

            self._log("".join(traceback.format_exception(bug)).rstrip())


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host or '0.0.0.0'}:{port}"


def _reachable_host(host: str) -> str:
    """Return the host to advertise: the name of this machine if the broker listens on all addresses, as in Kafka."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host


def _log_to_stderr(text: str) -> None:
    print(f"kcli broker: {text}", file=sys.stderr, flush=True)

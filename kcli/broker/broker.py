"""The broker: it wires all parts together and runs the one loop that owns all state."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from kcli.broker.cluster.view import DEFAULT, ClusterView
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import without_effect
from kcli.broker.files import DiskFiles, lacks_descriptors, retry_without
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log_manager import LogManager
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.security.listeners import of_unknown_listeners
from kcli.broker.serving.connection_quotas import ConnectionQuotas, max_open_connections
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.server import Answer, SocketServer
from kcli.broker.serving.server_loop import ServerLoop, advertised_listeners, bind
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import ConfigError, KcliError
from kcli.network.selector import Selector
from kcli.protocol.wire import Request
from kcli.structs import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.alone import Alone
    from kcli.broker.config import BrokerConfig
    from kcli.broker.coordinator_partitions import CoordinatorPartitions
    from kcli.broker.counters import MBean
    from kcli.broker.data_dir import DataDir
    from kcli.broker.files import Files
    from kcli.broker.group.group_coordinator import GroupCoordinator
    from kcli.broker.group.offset_store import OffsetStore
    from kcli.broker.node.node import Node
    from kcli.broker.quotas import ClientQuotas
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.security.credentials import Credentials
    from kcli.broker.security.delegation_tokens import DelegationTokens
    from kcli.broker.security.listeners import Endpoint
    from kcli.broker.security.secured_connections import ListenerSecurity
    from kcli.broker.transaction.markers import MarkerWriter
    from kcli.broker.transaction.transaction_coordinator import TransactionCoordinator
    from kcli.broker.transaction.verification import PartitionVerifier

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


class Broker(ServerLoop):
    """One broker; its attributes are the parts that handlers use. All of it belongs to the thread of its loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        log: Callable[[str], None] | None = None,
        data_dir: DataDir | None = None,
    ) -> None:
        """`log` receives messages for the operator; by default they go to standard error.

        `data_dir` is the data directory if it is locked by a controller in this process.
        """
        super().__init__(config, clock, log, role="broker")
        self.authorizer: AnyAuthorizer = AllowAll()
        self.files = files or DiskFiles()
        self.shared_dir = data_dir
        self._sockets: list[socket.socket] = []  # bound, but not listening yet
        self._securities: dict[str, ListenerSecurity] = {}
        self._reports: list[list[str]] = []
        self._groups: tuple[OffsetStore, GroupCoordinator, CoordinatorPartitions] | None = None
        self._transactions: TransactionCoordinator | None = None
        self._maintenance_due_ms = 0.0
        self._handlers: dict[int, Callable[[Any, Request[Any], RequestContext], Answer]] = {}
        self.is_started = False  # then `wakeup` works, and `shutdown` must be called
        #: The cluster of this broker: that of a controller, or its own.
        self.membership: Node | Alone
        self.cluster: ClusterView

    def __repr__(self) -> str:
        return f"<Broker {self.address} node={self.config.node_id}>"

    def log(self, text: str) -> None:
        """Log a message for the operator."""
        self._log(text)

    # ---- life cycle ----

    @property
    def is_serving(self) -> bool:
        """True if clients can connect. A node serves once the controller has unfenced it: see `run`."""
        return self.is_started and self.membership.is_serving

    def start(self) -> None:
        """Open the data directory, load the logs, and listen.

        A node waits for the controller's cluster id if its directory is new. It listens later, while the loop runs.

        KcliError or OSError if that fails; then nothing is left open.
        """
        with ExitStack() as undo:
            sockets = [undo.enter_context(self._bind(endpoint)) for endpoint in self.config.endpoints]
            self.endpoints = tuple(
                endpoint._replace(port=sock.getsockname()[1])
                for endpoint, sock in zip(self.config.endpoints, sockets, strict=True)
            )
            self._sockets = sockets
            self.selector = self._make_selector()
            undo.callback(self.selector.close_all)
            self._open_data(undo)
            self._securities = {
                endpoint.name: self._security(endpoint)
                for endpoint in self.endpoints
                if endpoint.protocol != "PLAINTEXT"
            }
            self.server = self._make_server()
            self.is_started = True
            self.server.outgoing = self.membership.peers
            self.membership.start()
            undo.pop_all()
        self._maintenance_due_ms = self.clock.now_ms()
        self._log_reports()
        if (ignored := without_effect(self.config.given, BROKER_OPTIONS, self.membership.ignores)) is not None:
            self.log(ignored)
        if stray := of_unknown_listeners(self.config.given, self.config.endpoints):
            self.log(f"{', '.join(stray)}: listeners has no such listener, so this has no effect")

    def listen(self) -> None:
        """Accept connections of clients."""
        backlog = max(self.config.socket_listen_backlog_size, _MIN_BACKLOG)
        for endpoint, sock in zip(self.endpoints, self._sockets, strict=True):
            self.server.listen_on(sock, backlog, endpoint.name, self._securities.get(endpoint.name))
        self._sockets = []

    def _bind(self, endpoint: Endpoint) -> socket.socket:
        """Bind the port before anything else. Clients cannot connect until everything is loaded."""
        sock = bind(endpoint)
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
        config = self.config
        if config.data_dir is None:
            raise ConfigError("log.dirs is not set; set it to the data directory")
        kind = _kind_of_membership(config)
        self.log_manager = LogManager(
            config.data_dir,
            self.files,
            config,
            self.clock,
            new_cluster_id=lambda: kind.new_cluster_id(config, self.log),
            shared=self.shared_dir,
            is_replica=kind.has_other_replicas,
        )
        self._reports.append(self.log_manager.reports)
        undo.callback(self._log_reports)
        undo.callback(lambda: self.log_manager.close(clean=False))
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, config)
        self.membership = kind(self)
        undo.callback(lambda: self.membership.close(clean=False))
        self.apis = self.membership.apis
        self.cluster = self.membership.cluster
        self._reports.append(self.cluster.reports)
        self.log_manager.open(self.cluster.log_config)
        self.replica_manager.on_leadership.append(self._on_leadership)
        self.membership.open_partitions()
        self.cluster.advertised = {
            listener.name: (listener.host, listener.port) for listener in advertised_listeners(self.endpoints)
        }
        if config.authorizer_class_name:
            from kcli.broker.security.authorizer import Authorizer

            self.authorizer = Authorizer(
                super_users=config.super_user_names, allow_without_acl=config.allow_everyone_if_no_acl_found
            )
            _ = self.membership.security  # from now on the authorizer follows the ACLs
        if self._groups is not None:
            self.group_partitions.finish_loading()
        if self._transactions is not None:
            self._transactions.partitions.finish_loading()
        self._check_directory()

    def _load_groups(self) -> tuple[OffsetStore, GroupCoordinator, CoordinatorPartitions]:
        """Load groups and committed offsets: when a partition of theirs is led here, else at the first request.

        Their imports would take a tenth of the start-up time.
        """
        from kcli.broker.coordinator_partitions import CoordinatorPartitions
        from kcli.broker.group.group_coordinator import GroupCoordinator
        from kcli.broker.group.offset_store import OffsetStore

        store = OffsetStore(self.config, self.replica_manager, self.cluster, self.clock)
        self._reports.append(store.reports)
        coordinator = GroupCoordinator(self.config, self.timer, self.clock, store, self.cluster)
        store.register(coordinator)
        self.cluster.on_topic_deleted.append(store.forget_topic)
        partitions = CoordinatorPartitions(
            OFFSETS_TOPIC,
            store.load_partition,
            store.unload,
            self.cluster,
            self.replica_manager,
            self.timer,
            self.clock,
            timeout_ms=self.config.offsets_commit_timeout_ms,
        )
        self._groups = store, coordinator, partitions
        self._maintenance_due_ms = self.clock.now_ms()  # because the store needs maintenance, too
        partitions.load_led()
        return self._groups

    @cached_property
    def marker_writer(self) -> MarkerWriter:
        """The writer of transaction markers in the partitions that this broker leads."""
        from kcli.broker.transaction.markers import MarkerWriter

        def error_of_offsets(number: int) -> ErrorCode:
            return self.group_partitions.error_of_partition(number)

        def end_offsets(number: int, producer_id: int, is_commit: bool) -> None:
            self.offsets.end_transaction(number, producer_id, is_commit=is_commit)

        return MarkerWriter(self.replica_manager, error_of_offsets, end_offsets)

    def _on_leadership(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        """Let the coordinator follow the leadership of its partitions."""
        try:
            if tp.topic == OFFSETS_TOPIC:
                self.group_partitions.on_leadership(tp.partition, leader_epoch)
            elif tp.topic == TRANSACTIONS_TOPIC:
                self.transactions.partitions.on_leadership(tp.partition, leader_epoch)
        except OSError as error:  # a module could not be imported; the next request tries again
            if not lacks_descriptors(error):
                raise

    def _load_transactions(self) -> TransactionCoordinator:
        """Load the transactional ids: when a partition of theirs is led here, else at the first request."""
        from kcli.broker.transaction.markers import MarkerSender
        from kcli.broker.transaction.transaction_coordinator import TransactionCoordinator

        peers = self.membership.peers
        markers = MarkerSender(self.cluster, self.marker_writer.write, peers, self.timer, self.clock)
        coordinator = TransactionCoordinator(
            self.config,
            self.cluster,
            self.replica_manager,
            markers,
            self.membership.next_producer_id,
            self.timer,
            self.clock,
        )
        self._reports += [markers.reports, coordinator.reports]
        self._transactions = coordinator
        self._maintenance_due_ms = self.clock.now_ms()  # because the coordinator needs maintenance, too
        coordinator.partitions.load_led()
        return coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids and their transactions."""
        return self._transactions or retry_without(self.log_manager.release_files, self._load_transactions)

    @property
    def offsets(self) -> OffsetStore:
        """The committed offsets of all groups."""
        return (self._groups or retry_without(self.log_manager.release_files, self._load_groups))[0]

    @property
    def groups(self) -> GroupCoordinator:
        """The groups and their members."""
        return (self._groups or retry_without(self.log_manager.release_files, self._load_groups))[1]

    @property
    def group_partitions(self) -> CoordinatorPartitions:
        """The partitions of __consumer_offsets that this broker leads."""
        return (self._groups or retry_without(self.log_manager.release_files, self._load_groups))[2]

    @cached_property
    def verifier(self) -> PartitionVerifier:
        """The verification of transactions for the partitions that are led here."""
        from kcli.broker.transaction.verification import PartitionVerifier

        return PartitionVerifier(
            self.cluster,
            lambda: self.transactions,
            self.replica_manager.partition_or_error,
            self.membership.peers,
            self.clock,
        )

    @property
    def alone(self) -> Alone:
        """The membership of a broker without a controller."""
        return cast("Alone", self.membership)

    @property
    def node(self) -> Node:
        """The membership of a broker with a controller."""
        return cast("Node", self.membership)

    @property
    def credentials(self) -> Credentials:
        """The SCRAM users."""
        return self.membership.security.credentials

    @property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        return self.membership.security.tokens

    def protocol_of(self, context: RequestContext) -> str:
        """Return the security protocol of a client's connection."""
        return self.config.protocol_of(context.listener)

    def poll(self, max_wait_ms: float) -> None:
        """Run one iteration of the loop: wait up to `max_wait_ms` for events or due tasks, and process them."""
        super().poll(max_wait_ms)
        self._log_reports()

    def _next_due_ms(self) -> float:
        return min(super()._next_due_ms(), self._maintenance_due_ms)

    def _run_due(self, now_ms: float) -> None:
        super()._run_due(now_ms)
        if now_ms >= self._maintenance_due_ms:
            self._maintain(now_ms, self.clock.wall_ms())

    def _maintain(self, now_ms: float, now_wall_ms: int) -> None:
        self._maintenance_due_ms = now_ms + _RETRY_AFTER_BUG_MS
        due_ms = self.log_manager.tick(now_ms, now_wall_ms)
        if self._groups is not None:
            due_ms = min(due_ms, self._groups[0].tick(now_ms, now_wall_ms))
        if self._transactions is not None:
            due_ms = min(due_ms, self._transactions.tick(now_ms, now_wall_ms))
        self._maintenance_due_ms = due_ms

    def _log_reports(self) -> None:
        """Log the messages that the parts have collected."""
        for reports in self._reports:
            for text in reports:
                self.log(text)
            reports.clear()

    def run(self, until: Callable[[], bool]) -> None:
        """Poll until `until()` returns True. It is called after each iteration; `wakeup` ends one.

        KcliError if a node can never join the cluster. BrokerFailed if the data directory fails, after the waiting
        requests were answered with the error.
        """
        while not until():
            self.poll(float("inf"))
            if self.membership.failure is not None:
                raise self.membership.failure
            if self.log_manager.failed is not None:
                self.server.finish_sending(_FINAL_ANSWERS_MS)
            self._check_directory()

    def _check_directory(self) -> None:
        if self.log_manager.failed is not None:
            raise BrokerFailed(f"the data directory has failed: {self.log_manager.failed}")

    def create_topic(self, name: str, partitions: int | None) -> int:
        """Create a topic if it does not exist, and return its number of partitions. None: num.partitions."""
        existing = self.cluster.topics.get(name)
        if existing is None:
            existing = self.alone.create_topic(name, DEFAULT if partitions is None else partitions)
        return len(existing.partitions)

    def shutdown(self, *, clean: bool = True) -> None:
        """Close all connections and logs. `clean`: flush everything and write the marker of a clean shutdown.

        A node lets the controller move its leaderships to other nodes before that.
        """
        if clean and self.config.controlled_shutdown_enable:
            self.membership.leave()
        self.membership.close(clean=clean)
        self.server.close()
        for sock in self._sockets:
            sock.close()
        self.log_manager.close(clean=clean, broker_epoch=self.membership.epoch)
        self._log_reports()

    def mbeans(self) -> list[MBean]:
        """Return the metrics. May be called from any thread while the loop runs."""
        return self.call(self.read_mbeans)

    def read_mbeans(self) -> list[MBean]:
        """Return the metrics, in the loop thread."""
        from kcli.broker.mbeans import broker_metrics

        found = broker_metrics(self.replica_manager, self.server.requests, self.membership.bytes_fetched)
        return found + self.membership.controller_mbeans()

    def kill(self) -> None:
        """End it as kill -9 would: nothing is flushed or marked."""
        self.shutdown(clean=False)

    # ---- internal ----

    @property
    def client_quotas(self) -> ClientQuotas | None:
        """The quotas of clients and addresses; None without any."""
        return self.replica_manager.client_quotas

    def _handle(self, request: Request[Any], context: RequestContext) -> Answer:
        handler = self._handlers.get(context.api_key)
        if handler is None:
            if self.membership.is_forwarded(context.api_key):
                return self.membership.forward(request, context)

            def imported(name: str) -> Any:
                module = f"kcli.broker.handlers.{name}"
                return retry_without(self.log_manager.release_files, lambda: import_module(module))

            module, group_requests = imported(HANDLERS[context.api_key].module), imported("group_requests")
            handler = module.handle
            if context.api_key in group_requests.API_KEYS:
                handler = partial(group_requests.handle, module, self.group_partitions)
            self._handlers[context.api_key] = handler
        return handler(self, request, context)

    def _make_selector(self) -> Selector:
        config = self.config
        return Selector(
            self.clock,
            max_frame_bytes=config.socket_request_max_bytes,
            memory_limit_bytes=config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else None,
            idle_ms=config.connections_max_idle_ms,
            half_duplex=True,
            initial_frame_bytes=_FIRST_READ_BYTES,
        )

    def _make_server(self) -> SocketServer:
        config = self.config
        max_connections = max_open_connections()
        quotas = ConnectionQuotas(min(config.max_connections, max_connections), config.max_connections_per_ip)
        server = SocketServer(
            self.selector,
            quotas,
            self._handle,
            self.control,
            self.timer,
            self.clock,
            self._log_fault,
            release_descriptors=self.log_manager.release_files,
            evicts=max_connections < config.max_connections,
            served=self.apis,
            refusal_delay_ms=config.connection_failed_authentication_delay_ms,
        )
        server.client_quotas = lambda: self.client_quotas
        return server


def _kind_of_membership(config: BrokerConfig) -> type[Node] | type[Alone]:
    """Return the class of the membership. Only the one that is used is imported."""
    if config.is_node:
        from kcli.broker.node.node import Node

        return Node
    from kcli.broker.alone import Alone

    return Alone

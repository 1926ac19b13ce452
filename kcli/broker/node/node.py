"""Node: the parts that make a broker a member of a cluster, wired into the broker's loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID, uuid4

from kcli.broker.cluster.cluster_values import PRODUCER_IDS_PER_BLOCK
from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.broker.cluster.view import ClusterView
from kcli.broker.data_dir import parse_uuid
from kcli.broker.node.forwarding import FORWARDED, NODE_APIS, Answer, Forwarder
from kcli.broker.node.heartbeats import HeartbeatThread, ask_cluster_id
from kcli.broker.node.lifecycle import Lifecycle, State
from kcli.broker.node.observer import Observer
from kcli.broker.node.peers import Address, NetworkPeers, PeerError, Peers
from kcli.broker.replication.fetchers import ReplicaFetchers
from kcli.broker.serving.server_loop import advertised_listeners
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.config_defs import Option
    from kcli.broker.counters import MBean
    from kcli.broker.data_dir import DataDir
    from kcli.broker.log_manager import LogManager
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.security.image_security import ImageSecurity
    from kcli.broker.security.listeners import Endpoint
    from kcli.broker.serving.request_context import RequestContext
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock
    from kcli.network.selector import Selector
    from kcli.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kcli.protocol.wire import Request

_IDS_TIMEOUT_MS = 5000.0
# The next block of producer ids is requested when this part of a block is left.
_PREFETCH = 0.1
# The time that a shutdown waits for the controller: in all, since its last answer, and so if heartbeats have failed.
_LEAVE_MS = 30_000.0
_LEAVE_UNANSWERED_MS = 10_000.0
_LEAVE_FAILING_MS = 2000.0
_LEAVE_POLL_MS = 50.0
_DIRECTORY_RETRY_MS = 100.0
# A decision of Apache Kafka's controller has at most 10,000 records.
_REPLICAS_PER_REQUEST = 2000
# A registration that fails for one of these reasons never succeeds.
_FATAL = {
    "INCONSISTENT_CLUSTER_ID": "the data directory belongs to another cluster; choose another directory",
    "UNSUPPORTED_VERSION": "the cluster has finalized a feature level that this version does not support",
    "INVALID_REGISTRATION": "the controller does not accept the registration",
}


class Host(Protocol):
    """The parts of a `Broker` that its node uses."""

    config: BrokerConfig
    clock: Clock
    timer: Timer
    log_manager: LogManager
    replica_manager: ReplicaManager
    authorizer: AnyAuthorizer
    endpoints: tuple[Endpoint, ...]
    selector: Selector
    shared_dir: DataDir | None

    def log(self, text: str, /) -> None:
        """Log a message for the operator."""

    def listen(self) -> None:
        """Accept connections of clients."""

    def post(self, fn: Callable[[], None]) -> None:
        """Call `fn()` in the loop thread, later."""

    def poll(self, max_wait_ms: float) -> None:
        """Run one iteration of the loop."""


class Node:
    """A broker's membership in a cluster.

    `is_serving` is False until the controller has unfenced the broker for the first time: what the metadata said
    before, such as the leaderships of its last life, must not be acted upon. `failure` is set if it can never join.
    """

    apis = NODE_APIS
    has_other_replicas = True

    def __init__(self, broker: Host) -> None:
        config = broker.config
        self._broker = broker
        self._clock = broker.clock
        self.is_serving = False
        self.failure: KcliError | None = None
        self.peers = NetworkPeers(
            broker.selector,
            broker.timer,
            broker.clock,
            node_id=config.node_id,
            listener=config.inter_broker_endpoint.name,
            bootstrap=config.controllers,
        )
        directory_id = self._directory_id = parse_uuid(broker.log_manager.directory_id)
        self.observer = Observer(
            self.peers,
            broker.timer,
            broker.clock,
            node_id=config.node_id,
            cluster_id=broker.log_manager.cluster_id,
            directory_id=directory_id,
            publish=self._on_metadata,
            on_applied=self._on_applied,
            # The address that a controller in this process tells others is not used.
            on_controller=self._on_controller if broker.shared_dir is None else lambda address: None,
            log=broker.log,
        )
        self.lifecycle = Lifecycle(
            node_id=config.node_id,
            cluster_id=broker.log_manager.cluster_id,
            incarnation_id=uuid4(),
            listeners=advertised_listeners(broker.endpoints),
            rack=config.broker_rack,
            directory_id=directory_id,
            previous_epoch=broker.log_manager.clean_epoch,
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        )
        self._heartbeats = HeartbeatThread(
            self.lifecycle,
            broker.clock,
            self._controller_of_heartbeats,
            lambda: broker.post(self._follow_lifecycle),
            lambda fault: broker.post(lambda: self._on_fault(fault)),
            timeout_s=config.broker_session_timeout_ms / 2000,
            client_id=f"kcli-node-{config.node_id}",
        )
        self.producer_ids = ControllerIds(self.peers, self.lifecycle, config.node_id)
        #: For tests: heartbeats wait for this event, as the whole process would when it is stopped by a signal.
        self.resumed: Event | None = None
        self._forwarder = Forwarder(self.peers, broker.timer, broker.clock, config.request_timeout_ms)
        self.cluster = ClusterView(self.image, config, broker.log_manager.cluster_id, broker.clock, self._create_topics)
        # Changes since the start, until the node may act upon them.
        self._withheld: Changes | None = Changes()
        self.fetchers = ReplicaFetchers(
            broker.replica_manager,
            self.peers,
            broker.timer,
            broker.clock,
            config,
            broker_epoch=lambda: self.lifecycle.epoch,
        )
        broker.replica_manager.join_cluster(
            fetchers=self.fetchers,
            peers=self.peers,
            log_config=self.cluster.log_config,
            broker_epoch=lambda: self.lifecycle.epoch,
        )

    def __repr__(self) -> str:
        return f"<Node {self._broker.config.node_id} {self.lifecycle!r} {self.observer!r}>"

    @staticmethod
    def new_cluster_id(config: BrokerConfig, log: Callable[[str], None]) -> str:
        """Ask the controller for the id of its cluster."""
        timeout_s = config.initial_broker_registration_timeout_ms / 1000
        return ask_cluster_id(config.controllers, config.node_id, timeout_s, log)

    @staticmethod
    def ignores(option: Option) -> bool:
        """Return whether a setting of brokers has no effect here."""
        return option.ignored

    @property
    def image(self) -> MetadataImage:
        """The metadata that is applied."""
        return self.observer.image

    @cached_property
    def security(self) -> ImageSecurity:
        """ACLs, SCRAM users and delegation tokens, which follow the metadata from the first use on."""
        from kcli.broker.security.image_security import ImageSecurity

        return ImageSecurity(self.image, self._broker.config, self._broker.authorizer)

    @property
    def epoch(self) -> int:
        """The broker epoch, -1 before the registration."""
        return self.lifecycle.epoch

    def start(self) -> None:
        """Register, and follow the metadata log."""
        self.observer.start()
        self._heartbeats.start()

    def is_forwarded(self, api_key: int) -> bool:
        """True for an API that only the controller serves."""
        return api_key in FORWARDED

    def forward(self, request: Request[Any], context: RequestContext) -> Answer:
        """Let the controller serve the request."""
        return self._forwarder.forward(request, context)

    def leave(self) -> None:
        """Wait until the controller has moved the leaderships of this node away; the loop goes on meanwhile.

        Return earlier if the controller does not answer.
        """
        lifecycle, clock = self.lifecycle, self._clock
        if lifecycle.epoch < 0 or self.failure is not None:
            return
        start_ms = clock.now_ms()
        lifecycle.wants_shutdown = True
        self._heartbeats.wakeup()
        while lifecycle.state is not State.STOPPED and clock.now_ms() < start_ms + _LEAVE_MS:
            patience_ms = _LEAVE_UNANSWERED_MS if lifecycle.fault is None else _LEAVE_FAILING_MS
            if clock.now_ms() > max(start_ms, lifecycle.answered_ms) + patience_ms:
                self._broker.log("the controller does not answer; stopping without a controlled shutdown")
                return
            self._broker.poll(_LEAVE_POLL_MS)

    @property
    def bytes_fetched(self) -> int:
        """The bytes that the followers here have fetched."""
        return self.fetchers.bytes_in

    def controller_mbeans(self) -> list[MBean]:
        """Nothing: the controller has them."""
        return []

    def open_partitions(self) -> None:
        """Nothing: partitions are opened as the metadata assigns them."""

    def next_producer_id(self) -> int:
        """Return a new producer id. BrokerError COORDINATOR_LOAD_IN_PROGRESS while there is none."""
        return self.producer_ids.next()

    def close(self, *, clean: bool = True) -> None:
        """End the thread of the heartbeats, and fetch nothing more."""
        self.observer.close()
        self.fetchers.shutdown()
        self._heartbeats.stop()

    def _create_topics(
        self, request: CreateTopicsRequest, on_done: Callable[[CreateTopicsResponse | Exception], None]
    ) -> None:
        self.peers.controller("topics").send(request, on_done)

    # ---- the controller's decisions, in the loop thread ----

    def _on_metadata(self, image: MetadataImage, changes: Changes) -> None:
        self.peers.update(image)
        if self._withheld is not None:
            _merge(self._withheld, changes)
        else:
            self._apply(image, changes)

    def _apply(self, image: MetadataImage, changes: Changes) -> None:
        broker = self._broker
        self.cluster.apply(image, changes)
        broker.replica_manager.apply(image, changes)
        if "security" in vars(self):
            self.security.apply(image, changes)
        self._serve_if_unfenced()

    def _on_applied(self, offset: int) -> None:
        self.lifecycle.applied_offset = offset

    def _on_controller(self, address: Address | None) -> None:
        if address is None:
            self.peers.forget_controller()
        else:
            self.peers.set_controller(address)

    def _follow_lifecycle(self) -> None:
        lifecycle = self.lifecycle
        if self._withheld is not None and lifecycle.state is not State.STARTING:
            changes, self._withheld = self._withheld, None
            self._apply(self.image, changes)
            self._tell_directory(self._replicas_elsewhere())
        self._serve_if_unfenced()

    def _replicas_elsewhere(self) -> list[tuple[UUID, int]]:
        """Return the replicas of this node that the metadata assign to another directory, by topic id and number."""
        node_id = self._broker.config.node_id
        return [
            (self.image.topics[tp.topic].topic_id, tp.partition)
            for tp, state in self.image.partitions()
            for replica, directory in zip(state.replicas, state.directories, strict=False)
            if replica == node_id and directory != self._directory_id
        ]

    def _tell_directory(self, replicas: list[tuple[UUID, int]]) -> None:
        """Tell the controller that replicas are in our directory, then ask to be unfenced (KIP-858).

        The directory has another id than before if the disk was replaced. The controller elects no leader in a
        directory that is not registered, so it must know before it elects leaders for the unfenced node.
        """
        if not replicas:
            self.lifecycle.is_ready = True
            self._heartbeats.wakeup()
            return
        from kcli.protocol.messages.assign_replicas_to_dirs import (
            AssignReplicasToDirsRequest,
            AssignReplicasToDirsResponse,
            DirectoryRequest,
            PartitionRequest,
            TopicRequest,
        )

        def on_done(answer: AssignReplicasToDirsResponse | PeerError) -> None:
            if isinstance(answer, PeerError):
                again_ms = self._clock.now_ms() + _DIRECTORY_RETRY_MS
                self._broker.timer.call_at(again_ms, lambda: self._tell_directory(replicas))
            else:
                if answer.error_code:
                    code = ErrorCode.of(answer.error_code).name
                    self._broker.log(f"the controller does not accept the directory of replicas: {code}")
                self._tell_directory(replicas[_REPLICAS_PER_REQUEST:])

        topics: dict[UUID, TopicRequest] = {}
        for topic_id, number in replicas[:_REPLICAS_PER_REQUEST]:
            topic = topics.setdefault(topic_id, TopicRequest(topic_id=topic_id, partitions=[]))
            topic.partitions.append(PartitionRequest(partition_index=number))
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker.config.node_id,
            broker_epoch=self.lifecycle.epoch,
            directories=[DirectoryRequest(id=self._directory_id, topics=list(topics.values()))],
        )
        self.peers.controller("directories").send(request, on_done)

    def _serve_if_unfenced(self) -> None:
        """Listen as soon as the controller and the image say that this broker is unfenced."""
        if self.is_serving or self.lifecycle.state is not State.RUNNING:
            return
        own = self.image.brokers.get(self._broker.config.node_id)
        if own is not None and own.epoch == self.lifecycle.epoch and not own.is_fenced:
            self.is_serving = True
            self._broker.listen()

    def _on_fault(self, fault: str) -> None:
        if self.lifecycle.epoch < 0 and fault in _FATAL:
            self.failure = KcliError(f"the controller has refused the registration: {fault}: {_FATAL[fault]}")
        elif self.lifecycle.epoch < 0 and fault == "DUPLICATE_BROKER_REGISTRATION":
            id = self._broker.config.node_id
            self._broker.log(f"node {id} is still registered by another process; waiting for the end of its session")
        else:
            self._broker.log(f"no heartbeat: {fault}; trying again")

    def _controller_of_heartbeats(self) -> Address:
        """Return the controller's address, in the thread of the heartbeats. PeerError if a test has cut it off."""
        if self.resumed is not None:
            self.resumed.wait()
        address = self.peers.controller_address
        if self.peers.is_cut_off(address):
            raise PeerError("a test has cut the connection to the controller")
        return address


class ControllerIds:
    """Producer ids in blocks from the controller (KIP-730); the next block is requested before one is used up."""

    def __init__(self, peers: Peers, lifecycle: Lifecycle, node_id: int) -> None:
        self._peer = peers.controller("producer ids")
        self._lifecycle = lifecycle
        self._node_id = node_id
        self._block = range(0)
        self._next_block = range(0)
        self._is_requesting = False

    def __repr__(self) -> str:
        return f"<ControllerIds {self._block} then {self._next_block}>"

    def next(self) -> int:
        """Return a new id. BrokerError COORDINATOR_LOAD_IN_PROGRESS while the controller has not sent a block."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        if not self._block:
            self._request()
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        id, self._block = self._block[0], self._block[1:]
        if not self._next_block and len(self._block) < _PREFETCH * PRODUCER_IDS_PER_BLOCK:
            self._request()
        return id

    def _request(self) -> None:
        if not self._is_requesting:
            self._is_requesting = True
            request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._lifecycle.epoch)
            self._peer.send(request, self._on_block, timeout_ms=_IDS_TIMEOUT_MS)

    def _on_block(self, answer: AllocateProducerIdsResponse | PeerError) -> None:
        self._is_requesting = False
        if not isinstance(answer, PeerError) and not answer.error_code:
            self._next_block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)


def _merge(total: Changes, more: Changes) -> None:
    removed = {topic.topic_id for topic in more.removed_topics}
    names = {topic.name for topic in more.removed_topics}
    total.partitions = {tp: None for tp in total.partitions if tp.topic not in names} | more.partitions
    total.removed_topics = [
        topic for topic in total.removed_topics if topic.topic_id not in removed
    ] + more.removed_topics
    total.brokers |= more.brokers
    total.configs |= more.configs
    total.kinds |= more.kinds

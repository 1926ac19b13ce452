"""A whole cluster in memory under a manual clock: the real controller's decisions, replica managers and fetchers.

    cluster = MemoryCluster(3)
    cluster.create("orders", [1, 2, 3])
    cluster.produce("a")
    cluster.run(1000)

Only the transport of heartbeats and of the metadata log is the harness's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.broker.cluster.view import ClusterView
from kcli.broker.config import BrokerConfig
from kcli.broker.delayed import ProduceOutcome
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log.log import Log
from kcli.broker.log_manager import LogManager
from kcli.broker.node.peers import PeerError
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.replication.fetchers import ReplicaFetchers
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.error_codes import ErrorCode
from kcli.protocol.records.scan import iter_records
from kcli.structs import TopicPartition
from tests.broker.cluster.memory_peers import MemoryNetwork
from tests.broker.controller.quorum import CLUSTER_ID, Quorum
from tests.broker.log.logs import whole_batches
from tests.broker.rig import batch

CONTROLLER = 0
TP = TopicPartition("orders", 0)
_HEARTBEAT_MS, _REGISTER_MS = 2000, 1000


class Death(BaseException):
    """A process dies within an operation."""

    def __init__(self, member: Member) -> None:
        self.member = member


class Member:
    """A node: its files outlive the process. `is_serving`: the controller has unfenced this process."""

    def __init__(self, cluster: MemoryCluster, node_id: int, properties: dict[str, str]) -> None:
        self.cluster = cluster
        self.id = node_id
        self.clock = cluster.clock
        self.files = MemoryFiles()
        self.config = BrokerConfig.from_properties({**properties, "node.id": str(node_id)})
        self.authorizer = AllowAll()
        self.log: list[str] = []
        self._incarnation = 0
        self.is_alive = False
        self.start()

    def __repr__(self) -> str:
        return f"<Member {self.id}>"

    def start(self) -> None:
        """Start a process on the files."""
        assert not self.is_alive
        self._incarnation += 1
        self.is_alive, self.is_serving = True, False
        self.epoch = -1
        self._due_ms = 0.0
        self._applied = 0
        self._has_roles = False
        self.image = MetadataImage()
        self.timer = Timer()
        self.log_manager = LogManager(f"/data{self.id}", self.files, self.config, self.clock)
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, self.config)
        self.node_cluster = self.cluster_view()
        self.log_manager.open(self.node_cluster.log_config)
        peers = self.cluster.network.peers(self.id)
        self.fetchers = ReplicaFetchers(
            self.replica_manager, peers, self.timer, self.clock, self.config, broker_epoch=lambda: self.epoch
        )
        self.replica_manager.join_cluster(
            fetchers=self.fetchers,
            peers=peers,
            log_config=lambda topic: self.node_cluster.log_config(topic),
            broker_epoch=lambda: self.epoch,
        )

    def cluster_view(self) -> ClusterView:
        return ClusterView(self.image, self.config, CLUSTER_ID, self.clock, lambda request, done: None)

    def lose_power(self) -> None:
        """Die, and lose what was not flushed to the disk."""
        self.kill()
        self.files = self.files.after_power_loss()

    def die_after(self, operations: int) -> None:
        """Die as by kill -9 after this many more operations that change files."""
        left = operations

        def next_fault(operation: str, path: str) -> None:
            nonlocal left
            left -= operation not in ("read", "list", "open")
            if left < 0:
                raise Death(self)

        self.files.next_fault = next_fault  # type: ignore[method-assign,assignment]

    def survive(self) -> None:
        """Take back `die_after`."""
        vars(self.files).pop("next_fault", None)

    def kill(self) -> None:
        """Die as by kill -9."""
        assert self.is_alive
        self.survive()
        self.is_alive = self.is_serving = False
        self.log += self.log_manager.reports
        self.log_manager.close(clean=False)
        self.cluster.network.serve(self.id, None)
        self.cluster.network.drop(self.id)

    # ---- one step of the loop ----

    def step(self) -> None:
        if not self.is_alive or self.id in self.cluster.network.paused:
            return
        now_ms = self.clock.now_ms()
        if not self.cluster.network.is_cut(self.id, CONTROLLER):
            if self.epoch < 0 and now_ms >= self._due_ms:
                self._register(now_ms)
            self._follow_metadata()
            if self.epoch >= 0 and now_ms >= self._due_ms:
                self._beat(now_ms)
        self.timer.advance(now_ms)

    def _register(self, now_ms: float) -> None:
        answer = self.cluster.quorum.register(self.id, incarnation=100 * self.id + self._incarnation)
        self._due_ms = now_ms + (_REGISTER_MS if answer.error_code else 0)
        if not answer.error_code:
            self.epoch = answer.broker_epoch

    def _beat(self, now_ms: float) -> None:
        answer = self.cluster.quorum.beat(
            self.id, broker_epoch=self.epoch, current_metadata_offset=self._applied - 1, want_fence=not self._has_roles
        )
        is_running = self._has_roles and not answer.is_fenced
        self._due_ms = now_ms + (_HEARTBEAT_MS if is_running else 10)
        if is_running and not self.is_serving:
            self.is_serving = True
            self.cluster.network.serve(self.id, self.handle)

    def _follow_metadata(self) -> None:
        records = self.cluster.quorum.log[self._applied :]
        if not records:
            return
        changes = Changes()
        for record in records:
            self.image.apply(record, changes)
        self._applied += len(records)
        own = self.image.brokers.get(self.id)
        if self._has_roles:
            self.node_cluster.apply(self.image, changes)
            self.replica_manager.apply(self.image, changes)
        elif own is not None and own.epoch == self.epoch:
            self._has_roles = True
            self.node_cluster = self.cluster_view()
            self.replica_manager.apply(self.image, None)

    def handle(self, request: Any, sender: int) -> Any:
        """Answer a request with the broker's own handler."""
        key = type(request).API_KEY
        context = RequestContext(
            key, type(request).VERSIONS[1], 1, "peer", f"from {sender}", "127.0.0.1",
            self.clock.now_ms(), self.clock.wall_ms(),
        )  # fmt: skip
        return import_module(f"kcli.broker.handlers.{HANDLERS[key].module}").handle(_Handled(self), request, context)

    # ---- looking ----

    def log_of(self, tp: TopicPartition = TP) -> Log:
        return self.log_manager.logs[tp]

    def contents(self, tp: TopicPartition = TP) -> bytes:
        """The bytes of all batches from the log start on."""
        return b"".join(segment.file.read_at(0, segment.size) for segment in self.log_of(tp).segments)

    def visible(self, tp: TopicPartition = TP) -> dict[int, bytes | None]:
        """Values by offset below the high watermark."""
        log = self.log_of(tp)
        found = {}
        for segment in log.segments:
            for info in whole_batches(segment.file.read_at(0, segment.size)):
                for record in iter_records(info.records):
                    if log.log_start_offset <= record.offset < log.high_watermark:
                        found[record.offset] = record.value
        return found


class _Handled:
    """The parts of a broker that handlers use."""

    def __init__(self, member: Member) -> None:
        self.cluster = member.node_cluster
        self.replica_manager = member.replica_manager
        self.authorizer = member.authorizer
        self.config = member.config
        self.clock = member.clock


class MemoryCluster:
    """A controller and its nodes 1, 2, .... `acknowledged` are the values of acks=all writes that succeeded, `offsets`
    those in their answers.

    `member_type` is the class of its nodes. Settings with the prefix `controller_` are the controller's, the others the
    nodes'.
    """

    member_type = Member

    def __init__(self, count: int = 3, **properties: Any) -> None:
        named = {name.replace("_", "."): str(value) for name, value in properties.items()}
        self.quorum = Quorum(**{k[len("controller.") :]: v for k, v in named.items() if k.startswith("controller.")})
        self.clock = self.quorum.clock
        self.network = MemoryNetwork(self.clock, CONTROLLER)
        self.network.serve(CONTROLLER, lambda request, sender: self.quorum.send(request))
        self.acknowledged: list[str] = []
        self.offsets: dict[str, int] = {}
        self.refused: list[tuple[str, ErrorCode]] = []
        self._written = 0
        settings = {k: v for k, v in named.items() if not k.startswith("controller.")}
        self.members = {id: self.member_type(self, id, settings) for id in range(1, count + 1)}
        self.run(100)

    def member(self, node_id: int) -> Member:
        return self.members[node_id]

    def create(self, topic: str, *replicas: list[int], **configs: Any) -> None:
        answer = self.quorum.create(topic, *replicas, configs={k.replace("_", "."): str(v) for k, v in configs.items()})
        assert not answer.error_code, answer
        self.run()

    def state(self, tp: TopicPartition = TP) -> Any:
        return self.quorum.partition(tp.topic, tp.partition)

    def leader(self, tp: TopicPartition = TP) -> Member | None:
        """The leader as the controller sees it, None without one that serves."""
        leader = self.members.get(self.state(tp).leader)
        return leader if leader is not None and leader.is_serving else None

    def produce(self, *values: str, tp: TopicPartition = TP, acks: int = -1, at: Member | None = None) -> bool:
        """Write a batch to the leader, or to the node `at`; False if it is not there."""
        member = at or self.leader(tp)
        if member is None or not member.is_serving or member.id in self.network.paused:
            return False
        pending: Pending[dict[TopicPartition, ProduceOutcome]] = member.replica_manager.append(
            {tp: bytearray(batch(*values))},
            acks=acks,
            timeout_ms=3000,
            now_ms=self.clock.now_ms(),
            now_wall_ms=self.clock.wall_ms(),
        )

        def done(outcomes: dict[TopicPartition, ProduceOutcome]) -> None:
            code = outcomes[tp].error
            if member.is_alive and not code and acks == -1:
                self.acknowledged.extend(values)
                self.offsets.update({value: outcomes[tp].base_offset + at for at, value in enumerate(values)})
            elif code:
                self.refused.extend((value, code) for value in values)

        pending.on_done(done)
        return True

    def write(self, count: int = 1, **options: Any) -> bool:
        """Produce a batch of new values."""
        values = [f"v{number}" for number in range(self._written, self._written + count)]
        self._written += count
        return self.produce(*values, **options)

    def run(self, ms: float = 0, step_ms: float = 10) -> None:
        """Let this time pass, and everything happen that is due."""
        end_ms = self.clock.now_ms() + ms
        while True:
            self._settle_now()
            left_ms = end_ms - self.clock.now_ms()
            if left_ms <= 0:
                return
            self.clock.advance(min(step_ms, left_ms))
            if self.quorum.next_due_ms <= self.clock.now_ms():
                self.quorum.tick()

    def _settle_now(self) -> None:
        for _ in range(200):
            before = len(self.network.delivered), len(self.quorum.log)
            try:
                for member in self.members.values():
                    member.step()
                self.network.run()
            except Death as death:
                death.member.kill()
                continue
            if (len(self.network.delivered), len(self.quorum.log)) == before:
                return
        raise AssertionError("the nodes do not come to rest")

    def expire(self) -> None:
        """Wait until the sessions of dead nodes have ended."""
        self.run(12_000, step_ms=100)


__all__ = ["CONTROLLER", "TP", "Member", "MemoryCluster", "PeerError"]

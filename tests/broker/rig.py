"""A broker without server and cluster state: logs in memory or on disk, and a manual clock."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from kcli.broker.cluster.cluster_values import PartitionState, Registration
from kcli.broker.cluster.image import MetadataImage
from kcli.broker.cluster.view import ClusterView, LiveBroker
from kcli.broker.config import BrokerConfig
from kcli.broker.files import Files
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log_manager import LogManager
from kcli.broker.partition import Partition, Replication
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.replication.isr import Follower
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.clock import ManualClock
from kcli.protocol.codec import decode, encode, encode_parts
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.wire import Request
from kcli.structs import TopicPartition

DATA = "/data"


class OneLeader(ClusterView):
    """The cluster of a rig: its broker leads all its partitions."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(MetadataImage(), rig.config, "rig", rig.clock, lambda request, on_done: None)
        self._rig = rig

    def brokers(self, listener: str, *, with_fenced: bool = False) -> list[LiveBroker]:
        return [LiveBroker(self.node_id, *self.address(listener))]

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        partition = self._rig.replica_manager.partition(tp)
        me = (self.node_id,)
        return None if partition is None else PartitionState(me, me, self.node_id, partition.leader_epoch)


class Membership:
    """The source of producer ids of a rig, which starts again with it."""

    def __init__(self) -> None:
        self._ids = count()

    def next_producer_id(self) -> int:
        return next(self._ids)


class Rig:
    """The parts of a broker that handlers of records use. `configs`: log configurations by topic, kept at a restart."""

    def __init__(self, files: Files | None = None, data_dir: str = DATA, **properties: Any) -> None:
        self.files: Any = files or MemoryFiles()
        self.data_dir = data_dir
        self.config = BrokerConfig.from_properties({k.replace("_", "."): v for k, v in properties.items()})
        self.configs: dict[str, LogConfig] = {}
        self.clock = ManualClock(now_ms=1000)
        self.authorizer: Any = AllowAll()
        self.start()

    def start(self) -> None:
        self.timer = Timer()
        self.log_manager = LogManager(self.data_dir, self.files, self.config, self.clock)
        self.log_manager.open(self._config_of)
        self.cluster: ClusterView = OneLeader(self)
        self.membership = Membership()
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, self.config)
        for tp, log in list(self.log_manager.logs.items()):
            self.replica_manager.create_partition(tp, log.topic_id, self._config_of(tp.topic))

    def restart(self) -> None:
        self.log_manager.close(clean=True)
        self.start()

    def _config_of(self, topic: str) -> LogConfig:
        return self.configs.get(topic, LogConfig())

    def topic(self, name: str, partitions: int = 1, **config: Any) -> UUID:
        """Create a topic with fields of LogConfig; return its id."""
        self.configs[name] = LogConfig(**config)
        id = uuid4()
        for index in range(partitions):
            self.replica_manager.create_partition(TopicPartition(name, index), id, self.configs[name])
        return id

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.replica_manager.partitions[TopicPartition(topic, index)]

    def follower(self, topic: str, index: int = 0, *, end: int) -> Partition:
        """Give a partition an in-sync follower on node 2 that has the records below `end`."""
        partition = self.partition(topic, index)
        broker = Registration(2, 1, uuid4(), is_fenced=False)
        partition.replication = Replication(1, {2: broker}.get, 30_000)
        partition.state = PartitionState((1, 2), (1, 2), 1, partition.leader_epoch)
        partition.followers.setdefault(2, Follower(2)).log_end = end
        return partition

    def without_follower(self, topic: str, index: int = 0) -> None:
        """Take the follower of a partition away."""
        partition = self.partition(topic, index)
        partition.state, partition.followers = None, {}

    def send(self, request: Request[Any], version: int, client_id: str | None = "test") -> Answer:
        """Send a request to its handler; request and response are encoded and decoded."""
        key = request.API_KEY
        context = RequestContext(
            key, version, 1, client_id, "c1", "127.0.0.1", self.clock.now_ms(), self.clock.wall_ms()
        )
        arrived = decode(type(request), bytearray(encode(request, version)), version)
        module = import_module(f"kcli.broker.handlers.{HANDLERS[key].module}")
        return Answer(module.handle(self, arrived, context), version)

    def ask(self, request: Request[Any], version: int, client_id: str | None = "test") -> Any:
        """Return the response of a request that must not wait."""
        answer = self.send(request, version, client_id)
        assert answer.is_there, "the request waits"
        return answer.value

    def wait(self, ms: float) -> None:
        """Advance the clock and run due tasks."""
        self.clock.advance(ms)
        self.timer.advance(self.clock.now_ms())


class Answer:
    """A response that is complete or pending."""

    def __init__(self, given: Any, version: int) -> None:
        self._given = given
        self._version = version

    @property
    def is_there(self) -> bool:
        return not isinstance(self._given, Pending) or self._given.is_done

    @property
    def value(self) -> Any:
        """The response as the client decodes it; None if none is sent."""
        response = self._given.value if isinstance(self._given, Pending) else self._given
        if response is None:
            return None
        sent = b"".join(bytes(part) for part in encode_parts(response, self._version))
        return decode(type(response), sent, self._version)


def batch(*values: bytes | str, now_ms: int = 1_500_000_000_000, key: bytes | None = b"k", **options: Any) -> bytes:
    """Build one batch with a record per value."""
    rows = [NewRecord(key, v.encode() if isinstance(v, str) else v, now_ms + n) for n, v in enumerate(values)]
    return build_batch(rows, **options)

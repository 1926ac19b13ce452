"""Stages for stories about a controller: ours in memory, under a manual clock. `real_controller` has Apache's."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.broker.cluster.image import MetadataImage, PartitionState, Registration
from kcli.broker.config import BrokerConfig
from kcli.broker.controller.controller import Controller
from kcli.broker.serving.request_context import RequestContext
from kcli.clock import ManualClock
from kcli.protocol.codec import decode, encode
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionChange,
    PartitionResult,
    TopicChange,
)
from kcli.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryRequest,
    PartitionRequest,
    TopicRequest,
)
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from kcli.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kcli.protocol.metadata_records import FeatureLevelRecord
from kcli.protocol.wire import Message, Request
from kcli.structs import TopicPartition
from tests.real_kafka import CLUSTER_ID

if TYPE_CHECKING:
    from typing_extensions import Self

R = TypeVar("R", bound=Message)
METADATA_VERSION, ELR = "metadata.version", "eligible.leader.replicas.version"
SESSION_MS = 9000


class Scene:
    """A controller, and the brokers that a test plays. `image` is the state after all records of its log."""

    session_ms: float

    @property
    def image(self) -> MetadataImage:
        raise NotImplementedError

    def send(self, request: Request[R], version: int | None = None, *, principal: str = "User:ANONYMOUS") -> R:
        """Return the response; by default to the newest version of the request."""
        raise NotImplementedError

    def wait(self, ms: float) -> None:
        """Let time pass."""
        raise NotImplementedError

    def update(self) -> None:
        """Let the controller do what is due, and see it in `image`."""
        raise NotImplementedError

    def partition(self, topic: str, number: int = 0) -> PartitionState:
        state = self.image.partition(TopicPartition(topic, number))
        assert state is not None
        return state

    def broker(self, node_id: int) -> Registration:
        return self.image.brokers[node_id]

    # ---- brokers ----

    def register(
        self, node_id: int, *, incarnation: int = 1, version: int = 4, **fields: Any
    ) -> BrokerRegistrationResponse:
        return self.send(registration(node_id, incarnation=incarnation, **fields), version)

    def beat(self, node_id: int, **fields: Any) -> BrokerHeartbeatResponse:
        """Send a heartbeat of a broker that has applied the whole log."""
        fields = {
            "broker_epoch": self.broker(node_id).epoch,
            "current_metadata_offset": self.image.offset,
            "cordoned_log_dirs": [],
            **fields,
        }
        return self.send(BrokerHeartbeatRequest(broker_id=node_id, **fields))

    def beat_of(self, node_id: int, *, broker_epoch: int = 0) -> BrokerHeartbeatResponse:
        """Send a heartbeat of a broker that need not be registered."""
        return self.send(BrokerHeartbeatRequest(broker_id=node_id, broker_epoch=broker_epoch))

    def assign(self, node_id: int, directory_id: UUID, topic: str, *partitions: int) -> AssignReplicasToDirsResponse:
        """Report the log directory of replicas of a broker."""
        numbers = [PartitionRequest(partition_index=number) for number in partitions]
        topics = [TopicRequest(topic_id=self.image.topics[topic].topic_id, partitions=numbers)]
        request = AssignReplicasToDirsRequest(
            broker_id=node_id,
            broker_epoch=self.broker(node_id).epoch,
            directories=[DirectoryRequest(id=directory_id, topics=topics)],
        )
        return self.send(request)

    def start(self, *node_ids: int, **fields: Any) -> Self:
        """Register brokers, and unfence them."""
        for node_id in node_ids:
            assert self.register(node_id, **fields).error_code == 0
            assert not self.beat(node_id).is_fenced
        return self

    def kill(self, *node_ids: int) -> None:
        """Let the sessions of these brokers expire, while the other unfenced brokers send heartbeats."""
        waited = 0.0
        while not all(self.broker(node_id).is_fenced for node_id in node_ids):
            assert waited <= 5 * self.session_ms
            self.wait(self.session_ms / 8)
            waited += self.session_ms / 8
            for broker in list(self.image.brokers.values()):
                if broker.node_id not in node_ids and not broker.is_fenced:
                    self.beat(broker.node_id)
            self.update()

    def pass_session(self, *alive: int) -> None:
        """Let the time of a session pass, in which only some brokers send heartbeats."""
        for _ in range(9):
            self.wait(self.session_ms / 8)
            for node_id in alive:
                self.beat(node_id)

    def propose(
        self, topic: str, isr: list[int], *, leader: int | None = None, is_recovering: bool = False, **fields: int
    ) -> PartitionResult:
        """Let the leader of partition 0 propose an ISR. `fields` replace what it knows of the partition."""
        state = self.partition(topic)
        leader = state.leader if leader is None else leader
        brokers = self.image.brokers
        change = PartitionChange(
            leader_epoch=fields.get("leader_epoch", state.leader_epoch),
            partition_epoch=fields.get("partition_epoch", state.partition_epoch),
            leader_recovery_state=int(is_recovering),
            new_isr_with_epochs=[
                BrokerState(broker_id=one, broker_epoch=fields.get("broker_epoch", brokers[one].epoch)) for one in isr
            ],
        )
        topic_id = self.image.topics[topic].topic_id
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=brokers[leader].epoch,
            topics=[TopicChange(topic_id=topic_id, partitions=[change])],
        )
        return self.send(request).topics[0].partitions[0]

    def create(
        self,
        name: str,
        *replicas: list[int],
        configs: dict[str, str | None] | None = None,
        partitions: int = -1,
        replication_factor: int = -1,
        principal: str = "User:ANONYMOUS",
        **fields: Any,
    ) -> CreatableTopicResult:
        """Create a topic with these replicas by partition, or by counts."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=number, broker_ids=one)
                for number, one in enumerate(replicas)
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        return self.send(CreateTopicsRequest(topics=[topic], **fields), principal=principal).topics[0]


class Quorum(Scene):
    """Our controller with its log in memory. Each decision is appended, replayed and answered, as its server does."""

    def __init__(self, *, elr: bool = True, **settings: object) -> None:
        self.session_ms = SESSION_MS
        self.clock = ManualClock()
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}
        # A broker with the controller's own id would be in the controller's process.
        self.config = BrokerConfig.from_properties({"node.id": "3000", **given})
        self.log: list[Any] = []
        self.controller = self._new_controller()
        self.append([FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)])
        self.append([FeatureLevelRecord(name=ELR, feature_level=int(elr))])

    def _new_controller(self) -> Controller:
        return Controller(self.config, CLUSTER_ID, random=Random(1))

    def append(self, records: list[Any]) -> None:
        for record in records:
            self.log.append(record)
            self.controller.replay(record, len(self.log) - 1)

    def restart(self) -> None:
        """Lose everything but the log."""
        self.controller = self._new_controller()
        for offset, record in enumerate(self.log):
            self.controller.replay(record, offset)

    def send(self, request: Request[R], version: int | None = None, *, principal: str = "User:ANONYMOUS") -> R:
        """Return the response, after a way over the wire in both directions."""
        key = request.API_KEY
        version = request.VERSIONS[1] if version is None else version
        context = RequestContext(
            key, version, 1, "test", "c", "127.0.0.1", self.clock.now_ms(), self.clock.wall_ms(), principal
        )
        request = decode(type(request), bytearray(encode(request, version)), version)
        self.records, response, self.next_due_ms = self.controller.handle(request, context)
        self.append(self.records)
        assert response is not None
        return decode(type(response), bytearray(encode(response, version)), version)  # type: ignore[return-value]

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def wait(self, ms: float) -> None:
        self.clock.advance(ms)

    def update(self) -> None:
        self.tick()

    def tick(self) -> list[Any]:
        """Let the controller do what is due. Return its records."""
        self.records, response, self.next_due_ms = self.controller.tick(self.clock.now_ms())
        assert response is None
        self.append(self.records)
        return self.records


def registration(node_id: int, *, incarnation: int = 1, **fields: Any) -> BrokerRegistrationRequest:
    fields = {
        "cluster_id": CLUSTER_ID,
        "listeners": [Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        "features": [
            Feature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in SUPPORTED_FEATURES.items()
        ],
        "rack": None,
        "log_dirs": [directory(node_id)],
        **fields,
    }
    return BrokerRegistrationRequest(broker_id=node_id, incarnation_id=UUID(int=incarnation), **fields)


def directory(node_id: int, number: int = 0) -> UUID:
    """Return the id of a log directory of a broker."""
    return UUID(int=1000 + 10 * node_id + number)

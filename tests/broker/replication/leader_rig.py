"""A node of a cluster without sockets: it leads partitions of an image that the test writes, in memory.

The controller's answers to AlterPartition are the test's, too, and so are the fetches of followers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid5

from kcli.broker.cluster.cluster_values import PartitionState
from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.broker.log.log_config import LogConfig
from kcli.broker.node.peers import PeerError
from kcli.protocol import metadata_records as records
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionResult,
    TopicResult,
)
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kcli.structs import TopicPartition
from tests.broker.cluster.memory_peers import MemoryNetwork
from tests.broker.rig import Answer, OneLeader, Rig, batch

CONTROLLER = 100
NEWEST_FETCH, NEWEST_PRODUCE = 18, 13
_NAMES = UUID(int=7)


class FollowedPartitions:
    """Replica fetchers that only record whom they follow."""

    def __init__(self) -> None:
        self.throttle: Callable[[TopicPartition, int], float] | None = None
        self.follows: dict[TopicPartition, tuple[int, int]] = {}

    def follow(self, tp: TopicPartition, topic_id: UUID, leader: int, leader_epoch: int) -> None:
        self.follows[tp] = leader, leader_epoch

    def stop(self, tp: TopicPartition) -> None:
        self.follows.pop(tp, None)

    def shutdown(self) -> None:
        self.follows.clear()


class Throttled:
    """A server that records for how long it does not read from which connection."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, float]] = []

    def throttle(self, id: str, ms: float) -> None:
        self.waits.append((id, ms))


class OfImage(OneLeader):
    """The leaders of the rig's image."""

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        return self._rig.replica_manager.replicas.image.partition(tp)


class LeaderRig(Rig):
    """Node 1 of brokers 1, 2 and 3, whose epochs are 101, 102 and 103.

    `proposals` are the ISRs of all AlterPartition requests. The controller accepts them, unless `refusal` is set: an
    error code of the partition, or a PeerError. `led` are the calls of on_leadership.
    """

    def __init__(self, brokers: Sequence[int] = (1, 2, 3), **properties: Any) -> None:
        super().__init__(**{"node_id": 1, **properties})
        self.network = MemoryNetwork(self.clock, CONTROLLER)
        self.network.serve(CONTROLLER, lambda request, sender: self._alter(request))
        self.fetchers = FollowedPartitions()
        self.proposals: list[list[int]] = []
        self.requests: list[AlterPartitionRequest] = []
        self.refusal: int | PeerError | None = None
        self.led: list[tuple[TopicPartition, int | None]] = []
        self.image = MetadataImage()
        self.server = Throttled()
        self.join()
        self.publish(*(self.registration(id) for id in brokers))

    def join(self) -> None:
        self.cluster = OfImage(self)
        self.replica_manager.join_cluster(
            fetchers=self.fetchers,
            peers=self.network.peers(1),
            log_config=lambda topic: self.configs.get(topic, LogConfig()),
            broker_epoch=lambda: 101,
        )
        self.replica_manager.on_leadership.append(lambda tp, epoch: self.led.append((tp, epoch)))

    # ---- metadata ----

    def registration(self, id: int, epoch: int | None = None, **fields: Any) -> records.RegisterBrokerRecord:
        return records.RegisterBrokerRecord(
            broker_id=id, broker_epoch=100 + id if epoch is None else epoch, **{"fenced": False, "rack": None, **fields}
        )

    def publish(self, *changed: Any) -> None:
        """Apply records to the image, and the image to the replicas."""
        changes = Changes()
        for record in changed:
            self.image.apply(record, changes)
        self.replica_manager.apply(self.image, changes)

    def new_topic(
        self, name: str = "t", replicas: Sequence[int] = (1, 2, 3), *, min_isr: int = 1, **state: Any
    ) -> UUID:
        """Create a topic with one partition, led by its first replica, with all replicas in sync."""
        self.configs[name] = LogConfig(min_insync_replicas=min_isr)
        id = uuid5(_NAMES, name)
        fields = {"isr": list(replicas), "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0, **state}
        self.publish(
            records.TopicRecord(name=name, topic_id=id),
            records.PartitionRecord(partition_id=0, topic_id=id, replicas=list(replicas), **fields),
        )
        return id

    def change(self, name: str = "t", **fields: Any) -> None:
        """Publish a change of the partition by the controller."""
        self.publish(records.PartitionChangeRecord(partition_id=0, topic_id=uuid5(_NAMES, name), **fields))

    def state(self, name: str = "t") -> PartitionState:
        state = self.partition(name).state
        assert state is not None
        return state

    # ---- the controller ----

    def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse | PeerError:
        self.requests.append(request)
        if isinstance(self.refusal, PeerError):
            return self.refusal
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                isr = [broker.broker_id for broker in one.new_isr_with_epochs]
                self.proposals.append(isr)
                if self.refusal:
                    rows.append(PartitionResult(partition_index=one.partition_index, error_code=self.refusal))
                    continue
                rows.append(
                    PartitionResult(
                        partition_index=one.partition_index,
                        leader_id=1,
                        leader_epoch=one.leader_epoch,
                        isr=isr,
                        leader_recovery_state=one.leader_recovery_state,
                        partition_epoch=one.partition_epoch + 1,
                    )
                )
            topics.append(TopicResult(topic_id=topic.topic_id, partitions=rows))
        return AlterPartitionResponse(topics=topics)

    def settle(self, ms: float = 1) -> None:
        """Let requests to the controller be sent and answered."""
        self.wait(ms)
        self.wait(1)  # proposals are sent by the next iteration of the loop
        self.network.run()
        self.wait(0)

    # ---- clients and followers ----

    def produce(self, *values: str, name: str = "t", acks: int = -1, timeout_ms: int = 2000) -> Answer:
        records = [PartitionProduceData(index=0, records=batch(*values or ("a",)))]
        topic = TopicProduceData(name=name, topic_id=uuid5(_NAMES, name), partition_data=records)
        return self.send(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic]), NEWEST_PRODUCE)

    def fetch_request(
        self,
        offset: int,
        name: str = "t",
        *,
        wait_ms: int = 500,
        rack: str = "",
        replica: ReplicaState | None = None,
        **fields: Any,
    ) -> FetchRequest:
        partition = FetchPartition(**{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields})
        topic = FetchTopic(topic_id=uuid5(_NAMES, name), partitions=[partition])
        return FetchRequest(
            topics=[topic],
            max_wait_ms=wait_ms,
            min_bytes=1,
            rack_id=rack,
            replica_state=replica or ReplicaState(),
        )

    def replicate(self, node: int, offset: int, name: str = "t", *, epoch: int | None = None, **fields: Any) -> Answer:
        """Fetch as a follower whose log ends at `offset`."""
        replica = ReplicaState(replica_id=node, replica_epoch=100 + node if epoch is None else epoch)
        fields = {"log_start_offset": 0, **fields}
        return self.send(self.fetch_request(offset, name, replica=replica, **fields), NEWEST_FETCH)

    def consume(self, offset: int, name: str = "t", version: int = NEWEST_FETCH, **fields: Any) -> Answer:
        request = self.fetch_request(offset, name, **fields)
        if version < 13:
            request.topics[0].topic = name
        return self.send(request, version)

    def fence(self, id: int) -> None:
        """Publish that a broker has missed its heartbeats."""
        self.publish(records.BrokerRegistrationChangeRecord(broker_id=id, broker_epoch=100 + id, fenced=1))

    @property
    def watermark(self) -> int:
        return self.partition("t").log.high_watermark


def fetched(answer: Answer) -> PartitionData:
    """Return the only row of a complete fetch."""
    assert answer.is_there, "the fetch waits"
    [topic] = answer.value.responses
    [row] = topic.partitions
    return row  # type: ignore[no-any-return]


def produced(answer: Answer) -> PartitionProduceResponse:
    """Return the only row of a complete produce."""
    assert answer.is_there, "the produce waits"
    [topic] = answer.value.responses
    [row] = topic.partition_responses
    return row  # type: ignore[no-any-return]

"""A cluster in memory whose nodes coordinate groups, under a manual clock."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from kcli.broker.coordinator_log import key_hash
from kcli.broker.coordinator_partitions import CoordinatorPartitions
from kcli.broker.group.group_coordinator import GroupCoordinator
from kcli.broker.group.offset_store import OffsetStore
from kcli.broker.handlers import group_requests
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.codec import decode, encode
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kcli.protocol.wire import Request
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.cluster.memory_cluster import Member, MemoryCluster
from tests.broker.rig import Answer

# Later versions name topics by id.
_BY_NAME = {OffsetCommitRequest: 9, OffsetFetchRequest: 8}


class Coordinator(Member):
    """A node with the parts of a broker that serve groups."""

    def start(self) -> None:
        self.parts: SimpleNamespace | None = None
        super().start()
        self.replica_manager.on_leadership.append(self._on_leadership)

    def _on_leadership(self, tp: TopicPartition, epoch: int | None) -> None:
        if tp.topic == OFFSETS_TOPIC:
            self.group_parts().partitions.on_leadership(tp.partition, epoch)

    def group_parts(self) -> SimpleNamespace:
        """The parts of `Broker` that handlers of groups use, made at the first use."""
        if self.parts is None:
            cluster, manager = self.node_cluster, self.replica_manager
            offsets = OffsetStore(self.config, manager, cluster, self.clock)
            groups = GroupCoordinator(self.config, self.timer, self.clock, offsets, cluster)
            offsets.register(groups)
            cluster.on_topic_deleted.append(offsets.forget_topic)
            timeout_ms = self.config.offsets_commit_timeout_ms
            partitions = CoordinatorPartitions(
                OFFSETS_TOPIC,
                offsets.load_partition,
                offsets.unload,
                cluster,
                manager,
                self.timer,
                self.clock,
                timeout_ms=timeout_ms,
            )
            self.parts = SimpleNamespace(
                offsets=offsets, groups=groups, partitions=partitions, cluster=cluster, authorizer=self.authorizer
            )
        return self.parts

    def send(self, request: Request[Any], version: int | None = None) -> Answer:
        """Send a request about groups as a client does."""
        assert self.is_serving
        version = version or _BY_NAME.get(type(request), type(request).VERSIONS[1])
        key = request.API_KEY
        context = RequestContext(
            key, version, 1, "client", "c1", "127.0.0.1", self.clock.now_ms(), self.clock.wall_ms()
        )
        arrived = decode(type(request), bytearray(encode(request, version)), version)
        module = import_module(f"kcli.broker.handlers.{HANDLERS[key].module}")
        parts = self.group_parts()
        return Answer(group_requests.handle(module, parts.partitions, parts, arrived, context), version)  # type: ignore[arg-type]

    def ask(self, request: Request[Any], version: int | None = None) -> Any:
        """Return the answer, which must come before replicas lag."""
        answer = self.send(request, version)
        self.cluster.run(50)
        assert answer.is_there, "the request waits"
        return answer.value


class CoordinatingCluster(MemoryCluster):
    """Nodes 1 to 3, a topic "orders", and __consumer_offsets with one partition that node 1 leads, unless given."""

    member_type = Coordinator

    def __init__(self, *offsets: list[int], min_isr: int = 1, **properties: Any) -> None:
        settings = {"group_min_session_timeout_ms": 100, "group_initial_rebalance_delay_ms": 0, **properties}
        super().__init__(3, **settings)
        self.placement = offsets or ([1, 2, 3],)
        self.create("orders", [1, 2, 3])
        self.create(OFFSETS_TOPIC, *self.placement, cleanup_policy="compact", min_insync_replicas=min_isr)
        self.run(600)

    def partition_of(self, group: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, key_hash(group) % len(self.placement))

    def coordinator(self, group: str = "readers") -> Coordinator:
        """The leader of the group's partition."""
        leader = self.leader(self.partition_of(group))
        assert isinstance(leader, Coordinator)
        return leader

    def node(self, id: int) -> Coordinator:
        member = self.member(id)
        assert isinstance(member, Coordinator)
        return member


def commit_request(offset: int, group: str = "readers", generation: int = -1, member_id: str = "") -> Any:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[row])],
    )


def commit_error(response: Any) -> int:
    return int(response.topics[0].partitions[0].error_code)


def fetch_request(*groups: str) -> Any:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups or ("readers",)]
    )


def committed(response: Any) -> list[tuple[str, int, int]]:
    """Group, error and offset of each row of an OffsetFetch; the offset is -1 with an error."""
    return [(one.group_id, one.error_code, _offset(one.topics)) for one in response.groups]


def _offset(topics: Iterable[Any]) -> int:
    return next((one.partitions[0].committed_offset for one in topics), -1)

"""A FakeCluster with groups, committed offsets and log ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.consumer_protocol import TopicPartitions as Blob
from kcli.protocol.messages import (
    consumer_group_describe,
    describe_groups,
    fetch,
    find_coordinator,
    list_groups,
    list_offsets,
    offset_fetch,
)
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from kcli.structs import TopicPartition
from tests.client.fake_cluster import FakeCluster
from tests.network.memory import MemoryPeer

GROUP_ID_NOT_FOUND, NOT_COORDINATOR, NOT_LEADER = 69, 16, 6
CLASSIC, CONSUMER = "classic", "consumer"


class FakeGroup(NamedTuple):
    """A group at its coordinator (a node id); one member owns `owned`."""

    node: int
    owned: tuple[TopicPartition, ...] = ()
    committed: dict[TopicPartition, int] = {}
    kind: str = CLASSIC
    state: str = "Stable"


class GroupCluster(FakeCluster):
    """Three brokers, a:9092 to c:9092; partition N of topic t is led by broker N+1; logs are 10..100."""

    def __init__(self, groups: dict[str, FakeGroup]) -> None:
        super().__init__("a:9092", "b:9092", "c:9092")
        self.topics["t"] = {0: (1, 5), 1: (2, 5), 2: (3, 5)}
        self.groups = groups
        self.errors: dict[tuple[ApiKey, Any], int] = {}
        self.answers |= {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.LIST_GROUPS: self._list,
            ApiKey.DESCRIBE_GROUPS: self._describe_classic,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self._describe_consumer,
            ApiKey.OFFSET_FETCH: self._committed,
            ApiKey.LIST_OFFSETS: self._offsets,
            ApiKey.FETCH: self._fetch,
        }
        for key in (ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
            del self.versions[key]
        self.records: dict[TopicPartition, bytes] = {}

    def client(self) -> ConsumerNetworkClient:
        return self.connect("a:9092,b:9092,c:9092")

    def count(self, *keys: ApiKey) -> int:
        return sum(len(self.requests(key)) for key in keys)

    def _node_of(self, peer: MemoryPeer) -> int:
        return next(n.id for n in self.nodes.values() if f"{n.host}:{n.port}" == peer.address)

    def _error(self, api: ApiKey, peer: MemoryPeer, group: str) -> int:
        if (api, group) in self.errors:
            return self.errors[api, group]
        known = self.groups.get(group)
        return NOT_COORDINATOR if known is not None and known.node != self._node_of(peer) else 0

    def _find(self, _peer: MemoryPeer, request: Any, version: int) -> Message:
        keys = request.coordinator_keys or [request.key]
        found = []
        for key in keys:
            node = self.nodes[self.groups[key].node if key in self.groups else 1]
            found.append(find_coordinator.Coordinator(key=key, node_id=node.id, host=node.host, port=node.port))
        if version >= 4:
            return find_coordinator.FindCoordinatorResponse(coordinators=found)
        return find_coordinator.FindCoordinatorResponse(node_id=found[0].node_id, host=found[0].host, port=9092)

    def _list(self, peer: MemoryPeer, request: Any, _version: int) -> Message:
        listed = [
            list_groups.ListedGroup(group_id=name, protocol_type="consumer", group_state=it.state, group_type=it.kind)
            for name, it in self.groups.items()
            if it.node == self._node_of(peer)
        ]
        return list_groups.ListGroupsResponse(groups=listed)

    def _describe_classic(self, peer: MemoryPeer, request: Any, version: int) -> Message:
        return describe_groups.DescribeGroupsResponse(
            groups=[self._classic(peer, it, version) for it in request.groups]
        )

    def _classic(self, peer: MemoryPeer, name: str, version: int) -> describe_groups.DescribedGroup:
        group = self.groups.get(name)
        error = self._error(ApiKey.DESCRIBE_GROUPS, peer, name)
        if error or group is None or group.kind != CLASSIC:
            if not error and version < 6:
                return describe_groups.DescribedGroup(group_id=name, group_state="Dead")
            return describe_groups.DescribedGroup(group_id=name, error_code=error or GROUP_ID_NOT_FOUND)
        member = describe_groups.DescribedGroupMember(
            member_id=f"member-of-{name}",
            client_id="app",
            client_host="/10.0.0.7",
            member_metadata=encode_subscription(Subscription(topics=["t"])),
            member_assignment=encode_assignment(
                Assignment(assigned_partitions=[Blob(topic=tp.topic, partitions=[tp.partition]) for tp in group.owned])
            ),
        )
        return describe_groups.DescribedGroup(
            group_id=name,
            group_state=group.state,
            protocol_type="consumer",
            protocol_data="range",
            members=[member] if group.owned else [],
        )

    def _describe_consumer(self, peer: MemoryPeer, request: Any, _version: int) -> Message:
        described = []
        for name in request.group_ids:
            group = self.groups.get(name)
            error = self._error(ApiKey.CONSUMER_GROUP_DESCRIBE, peer, name)
            if not error and (group is None or group.kind != CONSUMER):
                error = GROUP_ID_NOT_FOUND
            state = group.state if group is not None else ""
            described.append(consumer_group_describe.DescribedGroup(group_id=name, error_code=error, group_state=state))
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=described)

    def _committed(self, peer: MemoryPeer, request: Any, version: int) -> Message:
        if version < 8:
            topics = self._topics(request.group_id, offset_fetch.OffsetFetchResponseTopic, _old_partition)
            error = self._error(ApiKey.OFFSET_FETCH, peer, request.group_id)
            return offset_fetch.OffsetFetchResponse(topics=topics, error_code=error)
        groups = []
        for asked in request.groups:
            assert asked.topics is None
            error = self._error(ApiKey.OFFSET_FETCH, peer, asked.group_id)
            topics = self._topics(asked.group_id, offset_fetch.OffsetFetchResponseTopics, _new_partition)
            groups.append(
                offset_fetch.OffsetFetchResponseGroup(
                    group_id=asked.group_id, error_code=error, topics=[] if error else topics
                )
            )
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _topics(self, name: str, topic_type: Any, partition: Any) -> list[Any]:
        committed = self.groups[name].committed if name in self.groups else {}
        return [
            topic_type(name=tp.topic, partitions=[partition(tp, offset, self.errors.get((ApiKey.OFFSET_FETCH, tp), 0))])
            for tp, offset in committed.items()
        ]

    def _offsets(self, peer: MemoryPeer, request: Any, _version: int) -> Message:
        def offset_of(topic: str, number: int, timestamp: int) -> list_offsets.ListOffsetsPartitionResponse:
            leader = self.topics.get(topic, {}).get(number, (0, 0))[0]
            error = 0 if leader == self._node_of(peer) else NOT_LEADER
            error = error or self.errors.get((ApiKey.LIST_OFFSETS, TopicPartition(topic, number)), 0)
            offset = 100 if timestamp == -1 else 10
            return list_offsets.ListOffsetsPartitionResponse(partition_index=number, error_code=error, offset=offset)

        return list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[offset_of(topic.name, p.partition_index, p.timestamp) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, _peer: MemoryPeer, request: Any, _version: int) -> Message:
        """Return batches like a broker: none above the limit of its partition, except for the first of the response."""
        is_first = True
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                data = self.records.get(TopicPartition(topic.topic, asked.partition), b"")
                fits = data if len(data) <= asked.partition_max_bytes or is_first else b""
                is_first = is_first and not fits
                partitions.append(
                    fetch.PartitionData(
                        partition_index=asked.partition, high_watermark=100, log_start_offset=10, records=fits
                    )
                )
            topics.append(fetch.FetchableTopicResponse(topic=topic.topic, partitions=partitions))
        return fetch.FetchResponse(responses=topics)


def _old_partition(tp: TopicPartition, offset: int, error: int) -> offset_fetch.OffsetFetchResponsePartition:
    return offset_fetch.OffsetFetchResponsePartition(
        partition_index=tp.partition, committed_offset=offset, error_code=error
    )


def _new_partition(tp: TopicPartition, offset: int, error: int) -> offset_fetch.OffsetFetchResponsePartitions:
    return offset_fetch.OffsetFetchResponsePartitions(
        partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=3, error_code=error
    )


def partitions(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", number) for number in numbers)


def at(committed: int, numbers: Iterable[int]) -> dict[TopicPartition, int]:
    return dict.fromkeys(partitions(*numbers), committed)

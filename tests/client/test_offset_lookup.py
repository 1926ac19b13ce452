"""Offsets by timestamp and ends of leader epochs, from the leaders."""

from typing import Any

from kcli.client.offset_lookup import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    EpochEnd,
    epochs_request,
    list_offsets,
    read_epochs,
)
from kcli.client.routing import ask_leaders
from kcli.error_codes import ErrorCode
from kcli.errors import UnsupportedVersion
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kcli.protocol.registry import ApiKey
from kcli.structs import OffsetAndTimestamp, TopicPartition
from tests.client.fake_cluster import FakeCluster
from tests.network.memory import MemoryPeer

T0, T1, P0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)


def cluster_of_logs(codes: list[int] | None = None) -> FakeCluster:
    """Two brokers; every log has offsets 100 to 200, epoch 3, and a record each millisecond from time 5000 on."""
    cluster = FakeCluster("a:9092", "b:9092")
    cluster.topics = {"orders": {0: (1, 3), 1: (2, 3)}, "payments": {0: (1, 3)}}
    errors = iter(codes or [])

    def offset(timestamp: int) -> tuple[int, int]:
        special = {LATEST: (200, -1), EARLIEST: (100, -1), MAX_TIMESTAMP: (199, 5_099)}
        return special.get(timestamp) or ((timestamp - 4_900, timestamp) if timestamp < 5_100 else (-1, -1))

    def answer(peer: MemoryPeer, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        def partition(p: Any) -> ListOffsetsPartitionResponse:
            code = next(errors, 0)
            found, timestamp = (-1, -1) if code else offset(p.timestamp)
            return ListOffsetsPartitionResponse(
                partition_index=p.partition_index,
                error_code=code,
                offset=found,
                timestamp=timestamp,
                leader_epoch=3 if version >= 4 and found >= 0 else -1,
            )

        topics = [
            ListOffsetsTopicResponse(name=t.name, partitions=[partition(p) for p in t.partitions])
            for t in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    cluster.answers[ApiKey.LIST_OFFSETS] = answer
    return cluster


def test_each_partition_can_have_another_timestamp() -> None:
    cluster = cluster_of_logs()
    found = list_offsets(cluster.connect("a:9092"), {T0: EARLIEST, T1: LATEST, P0: 5_010}, 1_000)
    assert found.values == {
        T0: OffsetAndTimestamp(100, -1, 3),
        T1: OffsetAndTimestamp(200, -1, 3),
        P0: OffsetAndTimestamp(110, 5_010, 3),
    }
    assert found.errors == {}


def test_each_leader_gets_one_request_with_the_known_leader_epoch() -> None:
    cluster = cluster_of_logs()
    list_offsets(cluster.connect("a:9092"), {T0: LATEST, T1: LATEST, P0: LATEST}, 1_000, isolation_level=1)
    asked = sorted(cluster.requests(ApiKey.LIST_OFFSETS))
    assert [(each.address, [t.name for t in each.request.topics]) for each in asked] == [
        ("a:9092", ["orders", "payments"]),
        ("b:9092", ["orders"]),
    ]
    for each in asked:
        assert (each.request.replica_id, each.request.isolation_level) == (-1, 1)
        assert {p.current_leader_epoch for t in each.request.topics for p in t.partitions} == {3}


def test_a_timestamp_after_the_last_record_has_no_offset() -> None:
    found = list_offsets(cluster_of_logs().connect("a:9092"), {T0: 9_999}, 1_000)
    assert found.values == {T0: OffsetAndTimestamp(-1, -1, -1)}


def test_retriable_errors_are_retried_and_others_are_returned() -> None:
    cluster = cluster_of_logs([ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    found = list_offsets(cluster.connect("a:9092"), {T0: LATEST, P0: LATEST}, 5_000)
    assert found.values == {T0: OffsetAndTimestamp(200, -1, 3)}
    assert str(found.errors[P0]).startswith("TOPIC_AUTHORIZATION_FAILED: ")
    assert found.errors[P0].evidence == {"api": "ListOffsets", "topic": "payments", "partition": 0}
    assert len(cluster.requests(ApiKey.METADATA)) == 1


def test_not_leader_causes_a_metadata_request() -> None:
    cluster = cluster_of_logs([ErrorCode.NOT_LEADER_OR_FOLLOWER])
    found = list_offsets(cluster.connect("a:9092"), {T0: LATEST}, 5_000)
    assert found.values == {T0: OffsetAndTimestamp(200, -1, 3)}
    assert len(cluster.requests(ApiKey.METADATA)) == 2


def test_unknown_topics_and_partitions_are_errors_of_their_partitions() -> None:
    typo, far = TopicPartition("typo", 0), TopicPartition("orders", 9)
    found = list_offsets(cluster_of_logs().connect("a:9092"), {T0: LATEST, typo: LATEST, far: LATEST}, 60_000)
    assert list(found.values) == [T0]
    assert set(found.errors) == {typo, far}


def test_the_largest_timestamp_requires_version_7() -> None:
    cluster = cluster_of_logs()
    cluster.versions[ApiKey.LIST_OFFSETS] = (1, 6)
    client = cluster.connect("a:9092")
    assert isinstance(list_offsets(client, {T0: MAX_TIMESTAMP}, 1_000).errors[T0], UnsupportedVersion)
    assert cluster.requests(ApiKey.LIST_OFFSETS) == []
    assert list_offsets(client, {T0: LATEST}, 1_000).values == {T0: OffsetAndTimestamp(200, -1, 3)}


def test_the_end_of_a_leader_epoch() -> None:
    cluster = cluster_of_logs()

    def answer(peer: MemoryPeer, request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
        (topic,) = request.topics
        (p,) = topic.partitions
        assert (request.replica_id, p.current_leader_epoch, p.leader_epoch) == (-1, 3, 2)
        end = EpochEndOffset(partition=p.partition, leader_epoch=2, end_offset=150)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=topic.topic, partitions=[end])])

    cluster.answers[ApiKey.OFFSET_FOR_LEADER_EPOCH] = answer
    client = cluster.connect("a:9092")
    found = ask_leaders(client, [T0], lambda _node, _tps: epochs_request(client.metadata, {T0: 2}), read_epochs, 1_000)
    assert found.values == {T0: EpochEnd(leader_epoch=2, end_offset=150)}

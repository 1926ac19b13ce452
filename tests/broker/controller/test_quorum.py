"""The metadata log as brokers read it: Fetch with its errors and waits, FetchSnapshot, DescribeQuorum (KIP-595)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kcli.broker.cluster.metadata_log import MetadataLog, SnapshotId
from kcli.broker.controller.quorum import Quorum, VoterListener
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.protocol.codec import decode, encode
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionRequest, TopicRequest
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kcli.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    PartitionSnapshotRequest,
    TopicSnapshotRequest,
)
from kcli.protocol.messages.fetch_snapshot import SnapshotId as WireId
from kcli.protocol.metadata_records import METADATA_TOPIC, METADATA_TOPIC_ID, NoOpRecord
from kcli.protocol.records.batch import read_batch_info

EPOCH, DIRECTORY = 3, UUID(int=50)


class Leader:
    """The quorum of a log in memory with two records of epoch 3, under a manual clock."""

    def __init__(self) -> None:
        self.clock, self.timer, files = ManualClock(1000), Timer(), MemoryFiles()
        self.log = MetadataLog("/data", files, now_wall_ms=0, report=pytest.fail)
        self.quorum = Quorum(
            self.log,
            self.timer,
            node_id=3000,
            directory_id=UUID(int=30),
            cluster_id="c",
            epoch=EPOCH,
            listeners=[VoterListener("CONTROLLER", "host", 9093)],
        )
        self.append(2)

    def append(self, count: int = 1) -> None:
        self.log.append([NoOpRecord()] * count, EPOCH, self.clock.wall_ms())
        self.quorum.appended()

    def context(self, version: int = 18) -> RequestContext:
        return RequestContext(1, version, 1, None, "1", "127.0.0.1", self.clock.now_ms(), self.clock.wall_ms())

    def fetch(self, offset: int, *, wait_ms: int = 500, **partition: Any) -> FetchResponse | Pending[FetchResponse]:
        defaults = {"current_leader_epoch": EPOCH, "last_fetched_epoch": EPOCH if offset else 0, "high_watermark": 99}
        asked = FetchPartition(fetch_offset=offset, replica_directory_id=DIRECTORY, **{**defaults, **partition})
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[asked])
        request = FetchRequest(
            cluster_id="c", replica_state=ReplicaState(replica_id=1), max_wait_ms=wait_ms, topics=[topic]
        )
        return self.quorum.answer_fetch(request, self.context())

    def fetched(self, offset: int, **partition: Any) -> PartitionData:
        """Fetch and return the partition of an answer that came at once."""
        return partition_of(self.fetch(offset, **partition))

    def advance(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timer.advance(self.clock.now_ms())

    def snapshot(self, position: int = 0, id: SnapshotId | None = None, **asked: Any) -> PartitionSnapshot:
        id = id or self.log.latest_snapshot or SnapshotId(1, 1)
        fields = {"current_leader_epoch": EPOCH, "position": position, **asked}
        partition = PartitionSnapshotRequest(snapshot_id=WireId(end_offset=id.end_offset, epoch=id.epoch), **fields)
        topic = TopicSnapshotRequest(name=METADATA_TOPIC, partitions=[partition])
        response = self.quorum.answer_fetch_snapshot(
            FetchSnapshotRequest(max_bytes=100, topics=[topic]), self.context(1)
        )
        assert response.error_code == 0
        assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [(3000, "host", 9093)]
        return response.topics[0].partitions[0]


@pytest.fixture
def leader() -> Leader:
    return Leader()


def partition_of(answer: FetchResponse | Pending[FetchResponse]) -> PartitionData:
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == 0
    assert [(one.node_id, one.host, one.port) for one in answer.node_endpoints] == [(3000, "host", 9093)]
    data = answer.responses[0].partitions[0]
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (3000, EPOCH)
    return data


def test_records_are_sent_at_once_with_the_high_watermark(leader: Leader) -> None:
    data = leader.fetched(0)

    assert (data.high_watermark, data.log_start_offset, data.error_code) == (2, 0, 0)
    assert read_batch_info(bytes(data.records or b"")).leader_epoch == EPOCH


def test_a_fetch_at_the_end_waits_for_the_next_records(leader: Leader) -> None:
    waiting = leader.fetch(2)
    assert isinstance(waiting, Pending)
    leader.advance(499)
    assert not waiting.is_done
    leader.append()

    data = partition_of(waiting.value)
    assert (data.high_watermark, read_batch_info(bytes(data.records or b"")).base_offset) == (3, 2)
    leader.advance(1000)  # the deadline of a fetch that was answered does nothing


def test_a_fetch_that_waited_in_vain_is_answered_empty(leader: Leader) -> None:
    waiting = leader.fetch(2)
    leader.advance(500)

    assert isinstance(waiting, Pending)
    data = partition_of(waiting.value)
    assert (data.high_watermark, bytes(data.records or b"")) == (2, b"")


def test_a_fetch_does_not_wait_if_it_may_not_or_does_not_know_the_high_watermark(leader: Leader) -> None:
    assert leader.fetched(2, wait_ms=0).high_watermark == 2
    assert leader.fetched(2, high_watermark=1).high_watermark == 2


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        ({"current_leader_epoch": 0, "last_fetched_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH - 1, "last_fetched_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last_fetched_epoch": EPOCH + 1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"wait_ms": -1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_error_names_the_leader(leader: Leader, partition: dict[str, int], code: ErrorCode) -> None:
    data = leader.fetched(2, **partition)

    assert (data.error_code, data.high_watermark) == (code, -1)


def test_another_cluster_and_other_topics_are_refused(leader: Leader) -> None:
    topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[FetchPartition()])
    other = FetchTopic(topic_id=UUID(int=9), partitions=[FetchPartition()])

    for cluster_id, topics, code in (
        ("other", [topic], ErrorCode.INCONSISTENT_CLUSTER_ID),
        ("c", [other], ErrorCode.INVALID_REQUEST),
        (None, [], ErrorCode.INVALID_REQUEST),
        (None, [topic, topic], ErrorCode.INVALID_REQUEST),
    ):
        answer = leader.quorum.answer_fetch(FetchRequest(cluster_id=cluster_id, topics=topics), leader.context())
        assert isinstance(answer, FetchResponse)
        assert answer.error_code == code


@pytest.mark.parametrize("version", range(4, 19))
def test_each_version_carries_its_answer(leader: Leader, version: int) -> None:
    asked = FetchPartition(current_leader_epoch=EPOCH, last_fetched_epoch=0 if version >= 12 else -1)
    topic = FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[asked])
    request = decode(FetchRequest, encode(FetchRequest(topics=[topic]), version), version)
    response = leader.quorum.answer_fetch(request, leader.context(version))
    assert isinstance(response, FetchResponse)
    for data in (partition for one in response.responses for partition in one.partitions):
        data.records = bytes(data.records or b"")
    response = decode(FetchResponse, encode(response, version), version)

    data = response.responses[0].partitions[0]
    # Before v12 a replica cannot name the epoch of its last record.
    assert data.error_code == (ErrorCode.NONE if version >= 12 else ErrorCode.INVALID_REQUEST)
    assert data.current_leader.leader_id == (3000 if version >= 12 else -1)
    assert len(response.node_endpoints) == (version >= 16)


def test_a_replica_that_has_records_of_no_leader_must_truncate(leader: Leader) -> None:
    data = leader.fetched(9)

    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (EPOCH, 2)
    assert bytes(data.records or b"") == b""


def test_an_empty_replica_reads_the_snapshot(leader: Leader) -> None:
    leader.log.write_snapshot([], [NoOpRecord()] * 20, 0)
    data = leader.fetched(0)
    assert (data.snapshot_id.end_offset, data.snapshot_id.epoch) == (2, EPOCH)

    first = leader.snapshot(0)
    rest = leader.snapshot(100)
    assert (first.size, first.position, rest.position) == (rest.size, 0, 100)
    assert len(bytes(first.unaligned_records)) == 100
    assert read_batch_info(bytes(first.unaligned_records)).is_control


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"id": SnapshotId(1, 1)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"id": SnapshotId(0, 0)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": 1_000_000}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"current_leader_epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_errors_of_snapshots(leader: Leader, asked: dict[str, Any], code: ErrorCode) -> None:
    leader.log.write_snapshot([], [NoOpRecord()] * 20, 0)

    assert leader.snapshot(**asked).error_code == code


def test_a_snapshot_of_another_cluster_is_refused(leader: Leader) -> None:
    answer = leader.quorum.answer_fetch_snapshot(FetchSnapshotRequest(cluster_id="other"), leader.context(1))
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    invalid = leader.quorum.answer_fetch_snapshot(FetchSnapshotRequest(), leader.context(1))
    assert invalid.error_code == ErrorCode.INVALID_REQUEST


def test_the_quorum_has_one_voter_and_the_brokers_that_fetch(leader: Leader) -> None:
    leader.fetch(2)
    caught_up_ms = leader.clock.wall_ms()
    leader.advance(100)
    leader.append()
    leader.advance(100)
    leader.fetch(2)

    topic = TopicRequest(topic_name=METADATA_TOPIC, partitions=[PartitionRequest()])
    request = DescribeQuorumRequest(topics=[topic])
    answer = leader.quorum.answer_describe(request, leader.context(2))
    partition = answer.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (3000, EPOCH, 3)
    assert [(one.replica_id, one.log_end_offset) for one in partition.current_voters] == [(3000, 3)]
    (observer,) = partition.observers
    assert (observer.replica_id, observer.replica_directory_id, observer.log_end_offset) == (1, DIRECTORY, 2)
    assert observer.last_caught_up_timestamp == caught_up_ms
    assert observer.last_fetch_timestamp == caught_up_ms + 200
    assert [(one.node_id, one.listeners[0].port) for one in answer.nodes] == [(3000, 9093)]

    leader.advance(300_000)
    assert leader.quorum.answer_describe(request, leader.context(2)).topics[0].partitions[0].observers == []
    wrong = leader.quorum.answer_describe(DescribeQuorumRequest(), leader.context(2))
    assert (wrong.error_code, wrong.topics) == (0, [])


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_of_describe_quorum_have_no_directories_and_addresses(leader: Leader, version: int) -> None:
    leader.fetch(2)
    request = DescribeQuorumRequest(topics=[TopicRequest(topic_name=METADATA_TOPIC, partitions=[PartitionRequest()])])
    answer = leader.quorum.answer_describe(request, leader.context(version))

    decoded = decode(type(answer), bytearray(encode(answer, version)), version)
    partition = decoded.topics[0].partitions[0]
    assert ([one.replica_id for one in partition.observers], decoded.nodes) == ([1], [])

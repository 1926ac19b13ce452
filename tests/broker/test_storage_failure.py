"""Disk errors: error 56 for all partitions, also for waiting requests, as in Apache Kafka with one directory."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kcli.broker.serving.request_context import CloseConnection
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.structs import TopicPartition
from tests.broker.rig import Rig, batch


@pytest.fixture
def rig() -> Rig:
    rig = Rig(MemoryFiles())
    rig.topic("t", partitions=2)
    return rig


def produce(rig: Rig, *indexes: int, acks: int = -1) -> list[tuple[int, int]]:
    """Return error and base offset of each partition."""
    data = [PartitionProduceData(index=index, records=batch("a", "b")) for index in indexes]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    [topic] = rig.ask(request, 9).responses
    return [(one.error_code, one.base_offset) for one in topic.partition_responses]


def fetch_request(offset: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])


def fetched(answer: Any) -> int:
    return answer.responses[0].partitions[0].error_code


def test_full_disk_is_error_56_and_acknowledged_records_remain(rig: Rig) -> None:
    assert produce(rig, 0) == [(0, 0)]
    rig.files.capacity_bytes = rig.files.used_bytes + 10
    assert produce(rig, 0) == [(56, -1)]
    assert rig.log_manager.failed is not None
    assert "t-0" in rig.log_manager.failed
    rig.files.capacity_bytes = None
    rig.log_manager.close(clean=False)
    rig.start()
    assert rig.partition("t").log.log_end_offset == 2
    assert produce(rig, 0) == [(0, 2)]


@pytest.mark.parametrize("lack", [1, 2])
@pytest.mark.parametrize("roll", [False, True])
def test_lack_of_descriptors_concerns_only_its_request(rig: Rig, lack: int, roll: bool) -> None:
    """Files are closed and the operation is tried once more; if that fails, too, the records are refused."""
    rig.topic("t", partitions=2, segment_bytes=len(batch("a", "b")) + 1 if roll else 1 << 20)
    assert produce(rig, 0, 1) == [(0, 0), (0, 0)]
    rig.log_manager.release_files()
    waiting = rig.send(fetch_request(2), 12)
    rig.files.faults.append(Fault("open", "", errno.EMFILE, times=lack))
    refused = [(56, -1)] if lack == 2 else [(0, 2)]
    assert produce(rig, 0) == refused
    assert waiting.is_there == (lack == 1)
    assert rig.log_manager.failed is None
    next_offset = 2 if lack == 2 else 4
    assert produce(rig, 0, 1) == [(0, next_offset), (0, 2)]
    assert fetched(rig.ask(fetch_request(0), 12)) == 0
    rig.restart()
    assert rig.partition("t").log.log_end_offset == next_offset + 2


def test_read_without_descriptors_is_refused_and_works_later(rig: Rig) -> None:
    assert produce(rig, 0) == [(0, 0)]
    rig.log_manager.release_files()
    rig.files.faults.append(Fault("open", ".log", errno.EMFILE, times=2))
    assert fetched(rig.ask(fetch_request(), 12)) == 56
    assert fetched(rig.ask(fetch_request(), 12)) == 0
    assert rig.log_manager.failed is None


def test_torn_write_is_truncated_at_the_next_start(rig: Rig) -> None:
    produce(rig, 0)
    rig.files.faults.append(Fault("append", ".log", errno.EIO, torn_bytes=40))
    assert produce(rig, 0) == [(56, -1)]
    rig.log_manager.close(clean=False)
    rig.start()
    assert rig.partition("t").log.log_end_offset == 2
    assert produce(rig, 0) == [(0, 2)]


def test_other_partitions_of_the_request_are_refused(rig: Rig) -> None:
    rig.files.faults.append(Fault("append", "t-0/00000000000000000000.log"))
    assert produce(rig, 0, 1) == [(56, -1), (56, -1)]
    assert rig.partition("t", 1).log.log_end_offset == 0


def test_all_other_requests_are_refused(rig: Rig) -> None:
    produce(rig, 0)
    rig.log_manager.fail("the disk is gone")
    assert fetched(rig.ask(fetch_request(), 12)) == 56
    listing = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])]
    )
    assert rig.ask(listing, 7).topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    deleting = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(offset=1)])], timeout_ms=1000
    )
    assert rig.ask(deleting, 2).topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(BrokerError, match="the disk is gone"):
        rig.replica_manager.append_internal(TopicPartition("t", 0), batch("x"), rig.clock.wall_ms())


def test_waiting_requests_are_completed_with_the_error(rig: Rig) -> None:
    waiting = rig.send(fetch_request(), 12)
    assert not waiting.is_there
    rig.files.faults.append(Fault("append", "t-1/00000000000000000000.log"))
    assert produce(rig, 1) == [(56, -1)]
    assert fetched(waiting.value) == 56


def test_acks_zero_closes_the_connection(rig: Rig) -> None:
    rig.files.faults.append(Fault("append", ".log"))
    with pytest.raises(CloseConnection, match="KAFKA_STORAGE_ERROR"):
        produce(rig, 0, acks=0)


def test_failed_internal_append_raises_56(rig: Rig) -> None:
    rig.files.faults.append(Fault("append", ".log"))
    with pytest.raises(BrokerError) as caught:
        rig.replica_manager.append_internal(TopicPartition("t", 0), batch("x"), rig.clock.wall_ms())
    assert caught.value.code == 56


def test_failed_read_takes_the_directory_offline(rig: Rig) -> None:
    rig.topic("r", index_interval_bytes=1)
    for _ in range(3):
        rig.replica_manager.append_internal(TopicPartition("r", 0), batch("x"), rig.clock.wall_ms())
    rig.files.faults.append(Fault("read", ".log", times=100))
    request = fetch_request(1)
    request.topics[0].topic = "r"
    assert fetched(rig.ask(request, 12)) == 56
    assert rig.log_manager.failed is not None

"""Answers to Produce, Fetch, ListOffsets and DeleteRecords, field by field: the same on Apache's broker and ours.

Raw connections, because no client would send some of these requests. Error texts are not compared: ours say more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import NewRecord, build_batch
from tests.broker.wire import Wire
from tests.real_kafka import Kafka

NOW = int(time.time() * 1000)


def batch(count: int = 3, *, key: bytes | None = b"k", later_ms: int = 0, **options: Any) -> bytes:
    rows = [NewRecord(key, b"value-%d" % n, NOW + later_ms + n) for n in range(count)]
    return build_batch(rows, **options)


class Asker:
    """Requests about one topic of two partitions."""

    def __init__(self, kafka: Kafka, **configs: Any) -> None:
        self.kafka = kafka
        self.topic = kafka.new_topic(2, prefix="semantics", **configs)
        self.wire = Wire(kafka.bootstrap_servers)
        deadline = time.monotonic() + 20
        while any(one.error_code for one in self.fetch((0, 0), (1, 0), max_wait_ms=0)[0].responses[0].partitions):
            assert time.monotonic() < deadline, "Apache's broker makes the logs after it has named their leader"

    def produce(self, records: bytes, version: int = 9, acks: int = -1, topic: str | None = None) -> tuple[int, int]:
        """Return the error and the base offset in partition 0."""
        data = [PartitionProduceData(records=records)]
        request = ProduceRequest(
            acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic or self.topic, partition_data=data)]
        )
        [one] = self.wire.ask(request, version).responses[0].partition_responses
        return one.error_code, one.base_offset

    def fetch_request(
        self, *wanted: tuple[int, int], topic: str = "", more: dict[str, int] | None = None, **options: Any
    ) -> FetchRequest:
        partitions = [
            FetchPartition(**{"partition": at, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **(more or {})})
            for at, offset in wanted
        ]
        topics = [FetchTopic(topic=topic or self.topic, partitions=partitions)] if wanted else []
        return FetchRequest(topics=topics, **{"min_bytes": 1, "max_wait_ms": 300, **options})

    def fetch(self, *wanted: tuple[int, int], **options: Any) -> tuple[Any, float]:
        """Return the response (v12) and the seconds it took."""
        began = time.monotonic()
        return self.wire.ask(self.fetch_request(*wanted, **options), 12), time.monotonic() - began

    def row(self, *wanted: tuple[int, int], **options: Any) -> tuple[Any, ...]:
        """Return error, high watermark, stable offset, start, aborted transactions and bytes of the only partition."""
        [topic] = self.fetch(*wanted, **options)[0].responses
        [one] = topic.partitions
        offsets = one.high_watermark, one.last_stable_offset, one.log_start_offset
        return one.error_code, *offsets, one.aborted_transactions, len(one.records)

    def offsets(self, *timestamps: int, version: int = 11) -> list[tuple[int, int, int]]:
        """Return error, offset and timestamp of each partition."""
        found = []
        for timestamp in timestamps:
            wanted = ListOffsetsPartition(timestamp=timestamp)
            topics = [ListOffsetsTopic(name=self.topic, partitions=[wanted])]
            [one] = self.wire.ask(ListOffsetsRequest(replica_id=-1, topics=topics), version).topics[0].partitions
            found.append((one.error_code, one.offset, one.timestamp))
        return found

    def delete_records(self, offset: int) -> tuple[int, int]:
        wanted = DeleteRecordsTopic(name=self.topic, partitions=[DeleteRecordsPartition(offset=offset)])
        [one] = self.wire.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 2).topics[0].partitions
        return one.error_code, one.low_watermark


@pytest.fixture
def asker(any_kafka: Kafka) -> Iterator[Asker]:
    asker = Asker(any_kafka)
    with asker.wire:
        yield asker


def changed(records: bytes, at: int, byte: int) -> bytes:
    return records[:at] + bytes([byte]) + records[at + 1 :]


def test_valid_batches_are_stored_and_invalid_ones_refused(asker: Asker) -> None:
    good = batch()
    assert asker.produce(good) == (0, 0)
    assert asker.produce(good, version=3) == (0, 3)
    refused = {
        "bad CRC": asker.produce(changed(good, 70, 0xFF)),
        "magic 3": asker.produce(changed(good, 16, 3)),
        "magic 1": asker.produce(changed(good, 16, 1)),
        "two batches": asker.produce(good + good),
        "no bytes": asker.produce(b""),
        "cut": asker.produce(good[:-5]),
        "base offset 5": asker.produce(changed(good, 7, 5)),
        "transactional": asker.produce(batch(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)),
        "control": asker.produce(batch(control=True, producer_id=5, producer_epoch=0, base_sequence=0)),
        "the future": asker.produce(batch(later_ms=2 * 3_600_000)),
        "acks 2": asker.produce(good, acks=2),
        "unknown topic": asker.produce(good, topic="not-there"),
        "zstd in v6": asker.produce(batch(compression="zstd"), version=6),
        "too large": asker.produce(build_batch([NewRecord(None, bytes(1_100_000), NOW)])),
    }
    codes = {what: code for what, (code, _) in refused.items()}
    assert codes == {
        "bad CRC": 2, "magic 3": 2, "magic 1": 87, "two batches": 87, "no bytes": 87, "cut": 87, "base offset 5": 87,
        "transactional": 53, "control": 87, "the future": 32, "acks 2": 21, "unknown topic": 3, "zstd in v6": 76,
        "too large": 10,
    }  # fmt: skip
    assert {offset for _, offset in refused.values()} == {-1}
    assert asker.produce(good + b"xx") == (0, 6), "a few bytes after the batch are ignored"


def test_of_two_batches_for_one_partition_only_the_last_is_stored(asker: Asker) -> None:
    data = [PartitionProduceData(records=batch(count)) for count in (1, 3)]
    topics = [TopicProduceData(name=asker.topic, partition_data=data)]
    [topic] = asker.wire.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9).responses
    assert [(row.error_code, row.base_offset) for row in topic.partition_responses] == [(0, 0)]
    assert asker.produce(batch(1)) == (0, 3)


def test_a_compacted_topic_refuses_records_without_keys(any_kafka: Kafka) -> None:
    asker = Asker(any_kafka, cleanup_policy="compact")
    with asker.wire:
        assert asker.produce(batch(key=None)) == (87, -1)
        assert asker.produce(batch()) == (0, 0)
        assert asker.delete_records(1) == (44, -1)


def test_idempotent_producers_get_the_same_errors(asker: Asker) -> None:
    def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
        return asker.produce(batch(2, producer_id=4000, producer_epoch=epoch, base_sequence=sequence))

    assert asker.produce(batch(2)) == (0, 0)
    assert [send(0), send(0)] == [(0, 2), (0, 2)]
    assert send(9) == (45, -1)
    assert [send(sequence)[1] for sequence in (2, 4, 6, 8, 10)] == [4, 6, 8, 10, 12]
    assert send(2) == (0, 4)
    assert send(0) == (45, -1), "older than the last five"
    assert send(0, epoch=1) == (0, 14)
    assert send(12) == (47, -1)


def test_acks_0_gets_no_response(asker: Asker) -> None:
    data = [PartitionProduceData(records=batch())]
    good = ProduceRequest(acks=0, topic_data=[TopicProduceData(name=asker.topic, partition_data=data)])
    asker.wire.request(good, 9)
    assert asker.offsets(-1) == [(0, 3, -1)], "the next request is answered, so that one was not"
    bad = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="not-there", partition_data=data)])
    asker.wire.request(bad, 9)
    assert asker.wire.seconds_until_closed() < 5


def test_fetch_returns_the_same_fields(asker: Asker) -> None:
    size = len(batch())
    for _ in range(3):
        asker.produce(batch())
    nothing = (-1, -1, -1)
    assert asker.row((0, 0)) == (0, 9, 9, 0, None, 3 * size)
    assert asker.row((0, 4)) == (0, 9, 9, 0, None, 2 * size), "the whole batch around offset 4"
    assert asker.row((0, 0), isolation_level=1) == (0, 9, 9, 0, [], 3 * size)
    assert asker.row((0, 0), max_bytes=1) == asker.row((0, 0), more={"partition_max_bytes": 1})
    assert asker.row((0, 0), max_bytes=1)[5] == size
    assert asker.row((0, 10)) == asker.row((0, -1)) == (1, *nothing, None, 0)
    assert asker.row((9, 0)) == (3, *nothing, [], 0)
    assert asker.row((0, 0), more={"current_leader_epoch": 99}) == (75, *nothing, None, 0)
    assert asker.row((0, 0), more={"last_fetched_epoch": 99}) == (1, *nothing, None, 0)
    assert asker.row((0, 0), replica_id=77) == (6, *nothing, None, 0)


def test_fetch_waits_for_min_bytes_or_max_wait(asker: Asker) -> None:
    assert asker.fetch((0, 0), max_wait_ms=0)[1] < 10
    assert asker.fetch((0, 0), max_wait_ms=20_000, min_bytes=0)[1] < 10
    assert asker.fetch((0, 7), max_wait_ms=20_000)[1] < 10, "an error is returned at once"
    assert asker.fetch((9, 0), max_wait_ms=20_000)[1] < 10, "so is a topic that is not there"
    assert asker.fetch(max_wait_ms=20_000)[1] < 10
    assert 0.29 < asker.fetch((0, 0))[1] < 10
    assert 0.29 < asker.fetch((9, 0), (0, 0))[1] < 10, "but not before there is something of the others"
    asker.produce(batch())
    assert 0.29 < asker.fetch((0, 0), min_bytes=10_000)[1] < 10


def test_a_new_record_completes_a_waiting_fetch(asker: Asker) -> None:
    began = time.monotonic()
    threading.Timer(0.3, lambda: Wire(asker.kafka.bootstrap_servers).produce(asker.topic, b"x")).start()
    answer, took = asker.fetch((1, 0), (0, 0), max_wait_ms=20_000)
    assert time.monotonic() - began > 0.29
    assert took < 10
    assert [one.high_watermark for one in answer.responses[0].partitions] == [0, 1]


def test_deleting_the_topic_completes_a_waiting_fetch(asker: Asker) -> None:
    other = Wire(asker.kafka.bootstrap_servers)
    deletion = DeleteTopicsRequest(topic_names=[asker.topic], timeout_ms=5000)
    began = time.monotonic()
    threading.Timer(0.3, lambda: other.ask(deletion, 5)).start()
    answer, took = asker.fetch((0, 0), max_wait_ms=20_000)
    assert time.monotonic() - began > 0.29
    assert took < 10
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_sessions_return_only_changed_partitions(asker: Asker) -> None:
    opened, _ = asker.fetch((0, 0), (1, 0), session_epoch=0, max_wait_ms=0)
    id = opened.session_id
    assert id > 0
    asker.produce(batch())

    def go_on(epoch: int, session_id: int = id) -> tuple[int, int, list[int]]:
        answer, _ = asker.fetch(session_id=session_id, session_epoch=epoch, max_wait_ms=0)
        result = [one.partition_index for topic in answer.responses for one in topic.partitions]
        return answer.error_code, answer.session_id, result

    assert go_on(1) == (0, id, [0]), "only what changed"
    assert go_on(1) == (71, 0, [])
    assert go_on(1, session_id=id ^ 1) == (70, 0, [])
    closing, _ = asker.fetch((0, 0), session_id=id, session_epoch=-1)
    assert (closing.error_code, closing.session_id) == (0, 0)
    assert go_on(2) == (70, 0, [])


def test_offsets_by_time_after_records_were_deleted(asker: Asker) -> None:
    empty = asker.offsets(-1, -2, -3, -4, -5, -6, NOW)
    unknown, start = (0, -1, -1), (0, 0, -1)
    assert empty == [start, start, unknown, start, unknown, unknown, unknown]
    asker.produce(batch())
    asker.produce(batch(later_ms=100))
    assert asker.offsets(-1, -2, -3) == [(0, 6, -1), (0, 0, -1), (0, 5, NOW + 102)]
    assert asker.offsets(0, NOW + 1, NOW + 50, NOW + 103) == [(0, 0, NOW), (0, 1, NOW + 1), (0, 3, NOW + 100), unknown]
    assert asker.offsets(-3, version=6) == asker.offsets(-5, version=8) == asker.offsets(-7) == [(35, -1, -1)]
    assert [asker.delete_records(offset) for offset in (4, 1, 99, -2)] == [(0, 4), (0, 4), (1, -1), (1, -1)]
    assert asker.offsets(-2) == [(0, 4, -1)]
    assert asker.row((0, 0))[0] == 1
    assert asker.row((0, 4))[0] == 0
    assert asker.delete_records(-1) == (0, 6)

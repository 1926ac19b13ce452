"""A fake cluster that stores produced records, checks sequence numbers as real brokers do, and fails on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kcli.client.config import ProducerConfig
from kcli.client.connect import connect
from kcli.producer.producer import Producer
from kcli.protocol.messages.init_producer_id import InitProducerIdResponse
from kcli.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.records.batch import HEADER
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.protocol.records.record import NewRecord
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.client.fake_cluster import FakeCluster, in_the_middle
from tests.network.memory import MemoryPeer

OUT_OF_ORDER = 45


class Fault(NamedTuple):
    """The treatment of one batch instead of storing and acknowledging it."""

    error: int = 0
    stored: bool = False  # store the batch despite the fault
    hang_up: bool = False
    silent: bool = False
    new_leader: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()


class FakeLog(FakeCluster):
    """A cluster whose partitions are lists of records. Each of `faults` applies to one batch, in order."""

    def __init__(self, *addresses: str, topics: dict[str, dict[int, tuple[int, int]]] | None = None) -> None:
        super().__init__(*(addresses or ("kafka-1:9092",)))
        self.topics = topics or {"orders": {0: (1, 0)}}
        self.log: dict[TopicPartition, list[NewRecord]] = {}
        #: (producer id, epoch, first sequence number, records) of each batch that arrived.
        self.batches: list[tuple[TopicPartition, int, int, int, int]] = []
        self.faults: list[Fault] = []
        self.id_errors: list[int] = []
        self.next_producer_id = 1000
        self.largest_batch_bytes = 1 << 20
        self.append_time_ms = -1
        self._counts: dict[tuple[TopicPartition, int], list[tuple[int, int, int]]] = {}
        self.answers[ApiKey.PRODUCE] = self.produce
        self.answers[ApiKey.INIT_PRODUCER_ID] = self.init_producer_id

    def producer(self, **properties: str | int | bool) -> Producer:
        """A producer with its own client in this cluster; property names with underscores."""
        given = {name.replace("_", "."): value for name, value in properties.items()}
        config = ProducerConfig.from_properties({"bootstrap.servers": "kafka-1:9092", **given})
        client = connect(config, self.clock, selector=self.selector, resolve=self.resolve, uniform=in_the_middle)
        return Producer.from_config(config, client, in_background=False)

    def values(self, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.log.get(TopicPartition(topic, partition), [])]

    def init_producer_id(self, _peer: MemoryPeer | None, _request: Any, _version: int = -1) -> InitProducerIdResponse:
        if self.id_errors:
            return InitProducerIdResponse(error_code=self.id_errors.pop(0))
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id)

    def produce(self, peer: MemoryPeer | None, request: ProduceRequest, _version: int = -1) -> ProduceResponse | None:
        answered, responses = True, []
        for topic in request.topic_data:
            answers = []
            for data in topic.partition_data:
                fault = self.faults.pop(0) if self.faults else Fault(stored=True)
                answers.append(self._store(TopicPartition(topic.name, data.index), bytes(data.records or b""), fault))
                answered = answered and not fault.silent and not fault.hang_up
                if fault.hang_up:
                    assert peer is not None
                    peer.hang_up()
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )
        return ProduceResponse(responses=responses) if answered and request.acks else None

    def _store(self, tp: TopicPartition, data: bytes, fault: Fault) -> PartitionProduceResponse:
        header = HEADER.unpack_from(data)
        producer_id, epoch, sequence, count = header[9], header[10], header[11], header[12]
        self.batches.append((tp, producer_id, epoch, sequence, count))
        answer = PartitionProduceResponse(index=tp.partition, error_code=fault.error, error_message=fault.message)
        answer.base_offset = -1
        answer.log_append_time_ms = self.append_time_ms
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in fault.record_errors
        ]
        answer.current_leader = LeaderIdAndEpoch(leader_id=fault.new_leader, leader_epoch=9)
        if len(data) > self.largest_batch_bytes:
            answer.error_code = 10
        elif fault.stored:
            self._append(tp, data, producer_id, sequence, count, answer)
        return answer

    def _append(
        self,
        tp: TopicPartition,
        data: bytes,
        producer_id: int,
        sequence: int,
        count: int,
        answer: PartitionProduceResponse,
    ) -> None:
        log = self.log.setdefault(tp, [])
        stored = self._counts.setdefault((tp, producer_id), [])
        if producer_id >= 0:
            for first, size, offset in stored:
                if (first, size) == (sequence, count):
                    answer.base_offset = offset
                    return
            if sequence != (sum(stored[-1][:2]) if stored else 0):
                answer.error_code = OUT_OF_ORDER
                return
        answer.base_offset = len(log)
        stored.append((sequence, count, len(log)))
        (section,) = decode_sections([RecordSection(tp.topic, tp.partition, data, 0, None)])
        assert section.error is None
        log += [NewRecord(row.key, row.value, row.timestamp_ms, row.headers) for row in section.columns]


def poll_until(producer: Producer, done: Callable[[], bool]) -> None:
    """Poll the producer until `done()`."""
    for _ in range(1000):
        if done():
            return
        producer.poll(10)
    raise AssertionError(f"did not happen: {producer!r}")

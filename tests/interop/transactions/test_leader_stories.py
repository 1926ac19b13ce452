"""Stories of a partition's leader in transactions, told by raw requests to our broker and to Kafka 4.3.1.

All fields of the answers must be equal, except for producer ids, times, and the words of messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kcli.protocol.messages import add_partitions_to_txn as adding
from kcli.protocol.messages import describe_producers as describing
from kcli.protocol.messages import write_txn_markers as marking
from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.wire import Request
from tests.broker.wire import Wire
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

CLASSIC, NEW = 11, 12  # versions of Produce: the producer adds partitions itself, or the leader does
NOT_ENOUGH_REPLICAS, CONCURRENT = 19, 51
PATIENCE_S = 20.0
STORIES: list[Callable[[Teller], None]] = []


class Teller:
    """One story on one broker: its topic with two partitions, and what the broker has answered so far."""

    def __init__(self, kafka: Kafka, wire: Wire) -> None:
        self.topic = kafka.new_topic(2)
        self.answers: list[Any] = []
        self._wire = wire
        self._ids: dict[int, str] = {-1: "none"}

    def ask(self, request: Request[Any], version: int) -> Any:
        """Send a request, again while the coordinator is loading or ends a transaction."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._wire.ask(request, version)
            if getattr(answer, "error_code", 0) not in (14, 15, 16, CONCURRENT) or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def note(self, *facts: Any) -> None:
        self.answers.append(facts)

    def id_of(self, producer: int) -> str:
        return self._ids.setdefault(producer, f"producer {len(self._ids)}")

    def name(self, name: str) -> str:
        return f"{self.topic}-{name}"

    # ---- requests ----

    def init(self, name: str | None = "x", version: int = 5) -> tuple[int, int]:
        id = None if name is None else self.name(name)
        if id is not None:
            self._wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[id]), 4)
        answer = self.ask(InitProducerIdRequest(transactional_id=id, transaction_timeout_ms=600_000), version)
        self.note("init", answer.error_code, self.id_of(answer.producer_id), answer.producer_epoch)
        return answer.producer_id, answer.producer_epoch

    def add(self, producer: tuple[int, int], partition: int = 0, name: str = "x") -> None:
        request = adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name(name),
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[adding.AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._wire.ask(request, 3)
            error = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if error != CONCURRENT or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self.note("add", error)

    def produce(
        self,
        producer: tuple[int, int],
        sequence: int = 0,
        version: int = NEW,
        *,
        name: str | None = "x",
        partitions: tuple[int, ...] = (0,),
        count: int = 1,
        **options: Any,
    ) -> None:
        self.send(
            {number: batch(producer, sequence, count=count, **options) for number in partitions}, version, name=name
        )

    def send(self, batches: dict[int, bytes], version: int = NEW, *, name: str | None = "x") -> None:
        data = [PartitionProduceData(index=number, records=records) for number, records in batches.items()]
        request = ProduceRequest(
            transactional_id=None if name is None else self.name(name),
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._wire.ask(request, version)
            rows = sorted(answer.responses[0].partition_responses, key=lambda row: int(row.index))
            if all(row.error_code != NOT_ENOUGH_REPLICAS for row in rows) or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        for row in rows:
            times = row.log_append_time_ms, row.log_start_offset
            self.note("produce", row.index, row.error_code, row.base_offset, *times, len(row.record_errors))

    def end(self, producer: tuple[int, int], *, commit: bool, version: int = 5, name: str = "x") -> tuple[int, int]:
        request = EndTxnRequest(
            transactional_id=self.name(name), producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        answer = self.ask(request, version)
        following = (answer.producer_id, answer.producer_epoch) if version >= 5 else producer
        self.note("end", answer.error_code, self.id_of(following[0]), following[1])
        return following

    def mark(
        self,
        producer: tuple[int, int],
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        partition: int = 0,
    ) -> None:
        topic = marking.WritableTxnMarkerTopic(name=self.topic, partition_indexes=[partition])
        marker = marking.WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=commit,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        answer = self._wire.ask(marking.WriteTxnMarkersRequest(markers=[marker]), 2)
        [row] = answer.markers
        self.note("mark", self.id_of(row.producer_id), row.topics[0].partitions[0].error_code)

    def delete(self, upto: int) -> None:
        row = DeleteRecordsTopic(name=self.topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=upto)])
        self._wire.ask(DeleteRecordsRequest(topics=[row], timeout_ms=5000), 2)

    # ---- what can be seen ----

    def offset(self, isolation: int, which: int = -1, partition: int = 0) -> int:
        row = ListOffsetsPartition(partition_index=partition, timestamp=which)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=self.topic, partitions=[row])]
        )
        return int(self._wire.ask(request, 5).topics[0].partitions[0].offset)

    def settle(self, end: int, stable: int | None = None) -> None:
        """Wait until the markers are written: the log then ends here, and all of it, or up to `stable`, is stable."""
        deadline = time.monotonic() + PATIENCE_S
        while (self.offset(0), self.offset(1)) != (end, end if stable is None else stable):
            assert time.monotonic() < deadline, (self.offset(0), self.offset(1), end, self.answers)
            time.sleep(0.02)

    def look(self) -> None:
        """Note the producers, the offsets, and what a read_committed Fetch returns besides the records."""
        topic = describing.TopicRequest(name=self.topic, partition_indexes=[0, 1])
        answer = self._wire.ask(describing.DescribeProducersRequest(topics=[topic]), 0)
        for row in answer.topics[0].partitions:
            for one in sorted(row.active_producers, key=lambda one: int(one.producer_id)):
                epochs = one.producer_epoch, one.last_sequence, one.coordinator_epoch
                self.note(
                    "knows", row.partition_index, self.id_of(one.producer_id), *epochs, one.current_txn_start_offset
                )
        for partition in (0, 1):
            part = FetchPartition(
                partition=partition, fetch_offset=self.offset(0, -2, partition), partition_max_bytes=1 << 20
            )
            request = FetchRequest(
                max_wait_ms=0,
                isolation_level=1,
                topics=[FetchTopic(topic=self.topic, partitions=[part])],
            )
            row = self._wire.ask(request, 12).responses[0].partitions[0]
            aborted = [(self.id_of(one.producer_id), one.first_offset) for one in row.aborted_transactions or ()]
            offsets = row.high_watermark, row.last_stable_offset, row.log_start_offset
            self.note("fetch", row.error_code, *offsets, aborted, len(row.records or b""))


def batch(producer: tuple[int, int], sequence: int, *, count: int = 1, **options: Any) -> bytes:
    rows = [NewRecord(b"k", b"v%d" % number, 1_700_000_000_000) for number in range(count)]
    fields = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
    return build_batch(rows, **{**fields, "transactional": True, **options})


def story(tell: Callable[[Teller], None]) -> Callable[[Teller], None]:
    STORIES.append(tell)
    return tell


@story
def classic_producer(on: Teller) -> None:
    x = on.init(version=4)
    for version in (9, 10, CLASSIC):
        on.produce(x, version=version)  # the partition was not added
    on.add(x)
    on.produce(x, 0, CLASSIC, count=3)
    on.produce(x, 3, 9)
    on.look()
    on.end(x, commit=True, version=4)
    on.settle(5)
    on.produce(x, 4, CLASSIC)
    on.add(x)
    on.produce(x, 4, CLASSIC)
    on.end(x, commit=False, version=3)
    on.settle(7)
    on.look()


@story
def producer_with_an_epoch_per_transaction(on: Teller) -> None:
    x = on.init()
    on.produce(x, 5)  # a new producer starts at 0
    on.produce(x, 0, count=2)
    on.produce(x, 2, partitions=(0,))
    on.look()
    following = on.end(x, commit=True)
    on.produce(following, 0)  # the marker of the first transaction may be on its way
    on.produce(x, 3)  # the old epoch
    on.produce(x, 3, CLASSIC)
    on.produce(following, 2)
    following = on.end(following, commit=False)
    on.settle(6)
    on.look()


@story
def duplicates(on: Teller) -> None:
    x = on.init(version=4)
    on.add(x)
    on.produce(x, 0, CLASSIC, count=2)
    on.produce(x, 0, CLASSIC, count=2)
    on.produce(x, 0, CLASSIC, count=1)
    on.end(x, commit=True, version=4)
    on.settle(3)
    on.produce(x, 0, CLASSIC, count=2)
    on.look()


@story
def sequence_numbers_of_an_aborted_transaction_used_again(on: Teller) -> None:
    """As by librdkafka, if its application aborts before a request is sent again whose response was lost."""
    x = on.init(version=4)
    on.add(x)
    on.produce(x, 0, CLASSIC)
    on.produce(x, 1, CLASSIC, count=5)
    on.end(x, commit=False, version=4)
    on.settle(7)
    on.add(x)
    on.produce(x, 1, CLASSIC)
    on.look()
    on.produce(x, 6, CLASSIC)  # higher than the lowest one that waits for the verified transaction
    on.produce(x, 1, CLASSIC, count=5)
    on.look()
    on.end(x, commit=True, version=4)
    on.settle(8)
    on.add(x)
    on.produce(x, 6, CLASSIC)
    on.look()


@story
def pipelined_batches_after_a_refused_one(on: Teller) -> None:
    x, y = on.init(version=4), on.init("y")
    on.produce(x, 4, CLASSIC)  # the partition was not added
    on.add(x)
    on.produce(x, 5, CLASSIC)
    on.produce(x, 4, CLASSIC)
    on.produce(x, 5, CLASSIC)
    on.produce(y, 3, CLASSIC, name="y")
    on.produce(y, 1, name="y")
    on.produce(y, 0, name="y")
    on.produce(y, 1, name="y")
    on.look()


@story
def identities_that_are_not_right(on: Teller) -> None:
    x = on.init()
    for version in (CLASSIC, NEW):
        on.produce((4_711_000, 0), 0, version)  # another producer id
        on.produce((x[0], 5), 0, version)  # an epoch to come
        on.produce(x, 0, version, name="never seen")
        on.produce(x, 0, version, name=None)
    y = on.init("y")
    on.produce(y, 0, name="x")
    on.look()


@story
def batches_that_are_not_in_the_transaction(on: Teller) -> None:
    x = on.init()
    on.produce(x, 0, transactional=False)
    on.produce(x, 1)
    on.produce(x, 2, transactional=False)
    on.send({0: batch(x, 2), 1: batch(x, 0, transactional=False)})
    on.send({0: batch((-1, -1), -1)})
    on.look()


@story
def two_producers_in_a_request(on: Teller) -> None:
    x, y = on.init("x"), on.init("y")
    on.send({0: batch(x, 0), 1: batch(y, 0)})
    on.send({0: batch(x, 0), 1: batch(x, 0)})
    on.send({0: batch(x, 1), 1: batch(y, 0)})
    on.look()


@story
def epochs_that_no_producer_has(on: Teller) -> None:
    for epoch in (-3, -2, -1):
        on.produce((4_715_000, epoch), transactional=False, name=None)
    on.produce((4_715_000, 32767), transactional=False, name=None)
    on.produce((4_715_000, 32766), transactional=False, name=None)
    on.look()


@story
def idempotent_producer_beside_a_transaction(on: Teller) -> None:
    x, plain = on.init(), on.init(None)
    on.produce(x, 0)
    on.produce(plain, 0, name=None, transactional=False)
    on.produce(plain, 1, name="x", transactional=False)
    on.produce(plain, 5, name=None, transactional=False)
    on.produce(plain, 2, name=None)
    on.look()
    on.end(x, commit=False)
    on.settle(4)
    on.look()


@story
def fenced_producer(on: Teller) -> None:
    x = on.init(version=4)
    on.add(x)
    on.produce(x, 0, CLASSIC)
    z = on.init(version=4)
    on.settle(2)
    on.produce(x, 1, CLASSIC)
    on.produce(x, 1, NEW)
    on.add(x)
    on.add(z)
    on.produce(z, 1, CLASSIC)
    on.produce(z, 0, CLASSIC)
    on.look()


@story
def markers_of_an_administrator(on: Teller) -> None:
    on.init(version=4)
    x = on.init(version=4)
    on.add(x)
    on.produce(x, 0, CLASSIC)
    on.mark((x[0], x[1] - 1), commit=False)
    on.mark(x, commit=False, transaction_version=2)
    on.mark(x, commit=False, coordinator_epoch=7)
    on.look()
    on.mark(x, commit=True, coordinator_epoch=6)
    on.mark(x, commit=True, coordinator_epoch=7)
    on.produce(x, 1, CLASSIC)  # the coordinator has it in its transaction still
    on.mark((x[0], x[1] + 1), commit=False, coordinator_epoch=7, transaction_version=2)
    on.mark((x[0], x[1] + 1), commit=False, coordinator_epoch=7, transaction_version=2)
    on.produce(x, 2, CLASSIC)
    on.look()


@story
def markers_of_unknown_producers_and_partitions(on: Teller) -> None:
    on.mark((4_712_000, 3), commit=True)
    on.mark((4_712_000, 2), commit=True)
    on.mark((4_712_000, 3), commit=True, partition=9)
    on.mark((4_713_000, 3), commit=False, transaction_version=2)
    on.look()


@story
def markers_of_no_producer(on: Teller) -> None:
    """A marker without a producer id or epoch must not be written: it would end nothing, and no reader expects it."""
    for producer in ((-1, 0), (4_714_000, -1), (-1, -1)):
        on.mark(producer, commit=True)
        on.mark(producer, commit=True, partition=9)
    on.mark((4_714_000, -3), commit=True)
    on.mark((4_714_000, 0), commit=True, coordinator_epoch=-2)
    on.look()


@story
def records_deleted_within_transactions(on: Teller) -> None:
    x, y = on.init("x"), on.init("y")
    on.produce(x, 0, count=3)
    on.produce(y, 0, count=3, name="y")
    on.delete(3)
    on.look()
    on.end(x, commit=False)
    on.settle(7, stable=3)  # the next record comes after the marker
    on.produce(y, 3, name="y")
    on.delete(6)
    on.look()
    on.end(y, commit=False, name="y")
    on.settle(9)
    on.look()


@story
def interleaved_transactions(on: Teller) -> None:
    a, b, c = on.init("a"), on.init("b"), on.init("c")
    for sequence in (0, 1):
        on.produce(a, sequence, name="a")
        on.produce(b, sequence, name="b", partitions=(0, 1))
        on.produce(c, sequence, name="c")
    on.look()
    for producer, name in ((b, "b"), (c, "c"), (a, "a")):
        on.end(producer, commit=name == "c", name=name)
    on.settle(9)
    on.look()


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_our_leader_answers_as_kafkas(tell: Callable[[Teller], None], our_kafka: Kafka, real_kafka: Kafka) -> None:
    told = []
    for kafka in (our_kafka, real_kafka):
        with Wire(kafka.bootstrap_servers) as wire:
            teller = Teller(kafka, wire)
            tell(teller)
            told.append(teller.answers)
    assert told[0] == told[1]
    assert told[0]

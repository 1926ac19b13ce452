"""The producer with brokers that store, refuse, lose the leadership and disconnect."""

from __future__ import annotations

import pickle
import uuid
from array import array
from typing import Any

import pytest

from kcli.client.config import ProducerConfig
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, BrokerError, ConfigError, KcliError, TimeoutExpired
from kcli.producer.batches import Outcome, RecordMetadata
from kcli.producer.producer import Producer
from kcli.protocol.messages.produce import ProduceResponse
from kcli.protocol.records import builder
from kcli.protocol.records.record import NewRecord, NewRecords
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.client.sasl_gate import ALICE, SaslGate
from tests.network.memory import MemoryPeer
from tests.producer.fake_log import FakeLog, Fault, poll_until

ORDERS = TopicPartition("orders", 0)


def new_records(*values: str, key: bytes | None = None) -> NewRecords:
    return NewRecords.of(NewRecord(key, value.encode(), 1_600_000_000_000) for value in values)


def code_of(error: object) -> ErrorCode:
    assert isinstance(error, BrokerError)
    return error.code


def test_a_record_is_stored_with_key_value_headers_and_timestamp() -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    future = producer.send("orders", b"v", b"k", headers=[("a", b"1"), ("b", None)], timestamp_ms=1234)
    producer.flush()
    assert future.value() == RecordMetadata("orders", 0, 0, 1234)
    assert cluster.log[ORDERS] == [NewRecord(b"k", b"v", 1234, [("a", b"1"), ("b", None)])]


def test_a_record_without_timestamp_gets_the_current_time() -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    future = producer.send("orders", None)
    producer.flush()
    assert 0 <= future.value().timestamp_ms - 1_500_000_000_000 < 1000
    assert cluster.values() == [None]


def test_log_append_time_is_the_timestamp_in_the_record_metadata() -> None:
    cluster = FakeLog()
    cluster.append_time_ms = 99
    producer = cluster.producer()
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.value().timestamp_ms == 99


def test_records_wait_for_linger_ms_to_fill_a_batch() -> None:
    cluster = FakeLog()
    producer = cluster.producer(linger_ms=50)
    producer.send("orders", b"1")
    producer.send("orders", b"2")
    producer.poll(20)
    assert cluster.batches == []
    poll_until(producer, lambda: len(cluster.values()) == 2)
    assert len(cluster.batches) == 1


def test_the_key_selects_the_partition_as_in_java_unless_a_partition_is_given() -> None:
    cluster = FakeLog(topics={"orders": dict.fromkeys(range(7), (1, 0))})
    producer = cluster.producer()
    by_key = producer.send("orders", b"v", b"foobar")
    explicit = producer.send("orders", b"v", b"foobar", partition=5)
    empty = producer.send("orders", b"v", b"")
    producer.flush()
    assert [future.value().partition for future in (by_key, explicit, empty)] == [0, 5, 2]


def test_records_without_key_fill_one_partition_after_another() -> None:
    cluster = FakeLog(topics={"orders": dict.fromkeys(range(3), (1, 0))})
    producer = cluster.producer(batch_size=500)
    producer.send_many("orders", new_records(*map(str, range(120))), lambda _: None)
    producer.flush()
    sizes = [len(cluster.values(partition=p)) for p in range(3)]
    assert sum(sizes) == 120
    assert max(sizes) - min(sizes) <= max(count for *_, count in cluster.batches)


def test_records_with_and_without_key_keep_their_order_in_a_partition() -> None:
    """The documented order: what one partition gets is stored as it was sent."""
    for partitions in (1, 3):
        cluster = FakeLog(topics={"orders": dict.fromkeys(range(partitions), (1, 0))})
        producer = cluster.producer(batch_size=300)
        keys = [None, b"a", None, None, b"b", b"a", b"c", None] * 12
        mixed = [NewRecord(key, b"%03d" % n, 0) for n, key in enumerate(keys)]
        outcomes: list[Outcome] = []
        producer.send_many("orders", NewRecords.of(mixed), outcomes.append)
        producer.flush()
        stored = [cluster.values(partition=p) for p in range(partitions)]
        assert all(values == sorted(values) for values in stored)
        assert sorted(value for values in stored for value in values) == [row.value for row in mixed]
        assert sum(outcome.record_count for outcome in outcomes) == len(mixed)


def test_one_request_carries_the_batches_of_one_node() -> None:
    cluster = FakeLog("kafka-1:9092", "kafka-2:9092", topics={"orders": {0: (1, 0), 1: (2, 0), 2: (1, 0)}})
    producer = cluster.producer()
    for partition in range(3):
        producer.send("orders", b"v", partition=partition)
    producer.flush()
    asked = {
        asked.address: [data.index for topic in asked.request.topic_data for data in topic.partition_data]
        for asked in cluster.requests(ApiKey.PRODUCE)
    }
    assert asked == {"kafka-1:9092": [0, 2], "kafka-2:9092": [1]}


def test_a_request_stays_below_the_largest_size() -> None:
    cluster = FakeLog(topics={"orders": dict.fromkeys(range(4), (1, 0))})
    producer = cluster.producer(max_request_size=1000)
    for partition in range(4):
        producer.send("orders", b"x" * 400, partition=partition)
    producer.flush()
    per_request = [len(asked.request.topic_data[0].partition_data) for asked in cluster.requests(ApiKey.PRODUCE)]
    assert per_request == [2, 2]


def test_topic_names_are_sent_if_topic_ids_are_unknown() -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    producer.send("orders", b"v")
    producer.flush()
    (asked,) = cluster.requests(ApiKey.PRODUCE)
    assert asked.version == 12  # this cluster sends no topic ids
    assert asked.request.topic_data[0].topic_id == uuid.UUID(int=0)


def test_order_is_kept_over_retries() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(error=19), Fault(error=7)]
    producer = cluster.producer(batch_size=0)
    futures = [producer.send("orders", str(n).encode()) for n in range(5)]
    producer.flush()
    assert cluster.values() == [b"0", b"1", b"2", b"3", b"4"]
    assert [future.value().offset for future in futures] == [0, 1, 2, 3, 4]


def test_a_lost_response_causes_no_duplicate() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(stored=True, hang_up=True)]
    producer = cluster.producer()
    future = producer.send("orders", b"once")
    producer.flush()
    assert cluster.values() == [b"once"]
    assert future.value().offset == 0
    assert len(cluster.batches) == 2


def test_a_lost_response_causes_a_duplicate_without_idempotence() -> None:
    """The docstring of Producer documents this."""
    cluster = FakeLog()
    cluster.faults = [Fault(stored=True, hang_up=True)]
    producer = cluster.producer(enable_idempotence=False)
    producer.send("orders", b"twice")
    producer.flush()
    assert cluster.values() == [b"twice", b"twice"]
    assert [producer_id for _, producer_id, *_ in cluster.batches] == [-1, -1]


def test_a_request_without_response_is_sent_again() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(stored=True, silent=True)]
    producer = cluster.producer(request_timeout_ms=1000)
    future = producer.send("orders", b"once")
    producer.flush()
    assert cluster.values() == [b"once"]
    assert future.value().offset == 0


def test_a_flush_sleeps_while_a_broker_is_silent() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(silent=True)]
    producer = cluster.producer(request_timeout_ms=10_000, max_in_flight_requests_per_connection=1)
    producer.send("orders", b"1")
    producer.poll(0)
    producer.send("orders", b"2")
    polls = count_polls(cluster)
    producer.flush()
    assert cluster.clock.now_ms() >= 10_000
    assert len(polls) < 30


def test_a_flush_sleeps_while_no_producer_id_arrives() -> None:
    cluster = FakeLog()
    answer = cluster.answers[ApiKey.INIT_PRODUCER_ID]
    cluster.answers[ApiKey.INIT_PRODUCER_ID] = lambda *_: None
    producer = cluster.producer(request_timeout_ms=10_000)
    producer.send("orders", b"1")
    cluster.selector.at(5_000, lambda: cluster.answers.update({ApiKey.INIT_PRODUCER_ID: answer}))
    polls = count_polls(cluster)
    producer.flush()
    assert cluster.clock.now_ms() >= 10_000
    assert len(polls) < 30


def count_polls(cluster: FakeLog) -> list[float]:
    """Return a list that grows with each poll of the selector."""
    polls: list[float] = []
    poll = cluster.selector.poll
    cluster.selector.poll = lambda timeout_ms: (polls.append(timeout_ms), poll(timeout_ms))[1]  # type: ignore[method-assign, func-returns-value]
    return polls


def test_a_batch_is_sent_to_the_new_leader() -> None:
    cluster = FakeLog("kafka-1:9092", "kafka-2:9092")
    cluster.faults = [Fault(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    producer = cluster.producer()
    producer.partitions("orders")
    cluster.topics["orders"] = {0: (2, 1)}
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.succeeded
    assert [asked.address for asked in cluster.requests(ApiKey.PRODUCE)] == ["kafka-1:9092", "kafka-2:9092"]


def test_a_new_leader_in_the_response_is_used_without_backoff() -> None:
    cluster = FakeLog("kafka-1:9092", "kafka-2:9092")
    cluster.faults = [Fault(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, new_leader=2)]
    producer = cluster.producer(retry_backoff_ms=5000, retry_backoff_max_ms=5000)
    future = producer.send("orders", b"v")
    before_ms = cluster.clock.now_ms()
    producer.flush()
    assert future.succeeded
    assert cluster.clock.now_ms() - before_ms < 1000
    assert [asked.address for asked in cluster.requests(ApiKey.PRODUCE)] == ["kafka-1:9092", "kafka-2:9092"]


def test_records_wait_for_a_leader() -> None:
    cluster = FakeLog(topics={"orders": {0: (-1, 0)}})
    producer = cluster.producer()
    future = producer.send("orders", b"v", partition=0)
    cluster.selector.at(3000, lambda: cluster.topics.update(orders={0: (1, 1)}))
    producer.flush()
    assert future.succeeded
    assert 3000 <= cluster.clock.now_ms() < 10_000


def test_records_fail_after_the_delivery_timeout_with_the_reason() -> None:
    cluster = FakeLog()
    producer = cluster.producer(delivery_timeout_ms=40_000)
    producer.send("orders", b"v")
    producer.flush()
    cluster.selector.refuse("kafka-1:9092")
    cluster.selector.peers[-1].hang_up()
    started_ms = cluster.clock.now_ms()
    future = producer.send("orders", b"lost")
    producer.flush()
    assert isinstance(future.error, TimeoutExpired)
    assert "delivery.timeout.ms" in future.error.message
    assert "connection refused by kafka-1:9092" in future.error.message
    assert 40_000 <= cluster.clock.now_ms() - started_ms < 41_000


def test_records_after_a_failed_batch_that_may_be_stored_are_stored_once() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(stored=True, silent=True)] * 3
    producer = cluster.producer(request_timeout_ms=1000, delivery_timeout_ms=1500, linger_ms=0)
    doubtful = producer.send("orders", b"doubtful")
    producer.flush()
    assert isinstance(doubtful.error, TimeoutExpired)
    cluster.faults.clear()
    producer.send("orders", b"next")
    producer.flush()
    assert cluster.values() == [b"doubtful", b"next"]


def failed_after(*faults: Fault, **properties: str | int | bool) -> tuple[KcliError, FakeLog]:
    """The error of a record whose first attempts end with `faults`, and the later ones with the last of them."""
    cluster = FakeLog()
    producer = cluster.producer(request_timeout_ms=1000, delivery_timeout_ms=5000, linger_ms=0, **properties)
    producer.partitions("orders")
    cluster.faults = [*faults, *[faults[-1]] * 99]
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.error is not None
    return future.error, cluster


REFUSED, TOO_FEW = Fault(error=ErrorCode.INVALID_RECORD), Fault(error=ErrorCode.NOT_ENOUGH_REPLICAS)
LOST, UNANSWERED = Fault(stored=True, hang_up=True), Fault(stored=True, silent=True)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize(
    ("faults", "possibly_stored"),
    [
        ([LOST], True),
        ([UNANSWERED], True),
        ([Fault(error=ErrorCode.REQUEST_TIMED_OUT)], True),
        ([Fault(error=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, stored=True)], True),
        ([Fault(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, stored=True)], True),
        ([Fault(error=ErrorCode.KAFKA_STORAGE_ERROR)], True),
        ([LOST, TOO_FEW], True),
        ([UNANSWERED, REFUSED], True),
        ([TOO_FEW], False),
        ([Fault(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)], False),
        ([TOO_FEW, REFUSED], False),
        ([REFUSED], False),
    ],
)
def test_an_error_says_whether_the_record_may_be_stored(
    faults: list[Fault], possibly_stored: bool, idempotent: bool
) -> None:
    error, cluster = failed_after(*faults, enable_idempotence=idempotent)
    assert error.possibly_stored is possibly_stored
    assert pickle.loads(pickle.dumps(error)).possibly_stored is possibly_stored
    assert possibly_stored or cluster.values() == []


def test_a_record_that_was_never_sent_completely_is_not_stored() -> None:
    cluster = FakeLog()
    producer = cluster.producer(delivery_timeout_ms=40_000)
    producer.partitions("orders")
    cluster.selector.refuse("kafka-1:9092")
    cluster.selector.peers[-1].hang_up()
    future = producer.send("orders", b"v")
    producer.flush()
    assert isinstance(future.error, TimeoutExpired)
    assert not future.error.possibly_stored


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_malformed_answer_is_a_lost_one(idempotent: bool) -> None:
    """The retry finds the record with idempotence, and stores it again without."""
    cluster = FakeLog()
    malformed = [lambda: b"\0\0\0\x7f", lambda: cluster.asked[-1].correlation_id.to_bytes(4, "big")]

    def answer(peer: MemoryPeer, request: Any, version: int) -> Any:
        response = cluster.produce(peer, request, version)
        return malformed.pop()() if malformed else response

    cluster.answers[ApiKey.PRODUCE] = answer
    producer = cluster.producer(enable_idempotence=idempotent)
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.succeeded
    assert cluster.values() == [b"v"] * (1 if idempotent else 3)


def test_an_answer_without_the_partition_is_a_lost_one() -> None:
    cluster = FakeLog()
    empty = [ProduceResponse(responses=[])]

    def answer(peer: MemoryPeer, request: Any, version: int) -> Any:
        response = cluster.produce(peer, request, version)
        return empty.pop() if empty else response

    cluster.answers[ApiKey.PRODUCE] = answer
    producer = cluster.producer()
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.value().offset == 0
    assert cluster.values() == [b"v"]


def test_close_without_flush_fails_the_records_without_acknowledgement() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(stored=True, silent=True)]
    producer = cluster.producer(linger_ms=0)
    sent = producer.send("orders", b"sent")
    poll_until(producer, lambda: bool(cluster.batches))
    waiting = producer.send("orders", b"waiting")
    producer.close(flush=False)
    assert [future.error is not None and future.error.possibly_stored for future in (sent, waiting)] == [True, False]
    assert str(waiting.error) == "closed before they were sent"


def test_records_that_cannot_be_encoded_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeLog(topics={"orders": {0: (1, 0), 1: (1, 0)}})
    producer = cluster.producer(compression_type="lz4")
    futures = [producer.send("orders", value, partition=partition) for partition, value in enumerate((b"a", b"b"))]

    def compress(codec: str, payload: bytes) -> bytes:
        if b"b" in payload:
            raise ImportError("lz4")
        return original(codec, payload)

    original = builder.compress
    monkeypatch.setattr(builder, "compress", compress)
    with pytest.raises(ImportError):
        producer.flush()
    producer.close(flush=False)
    assert [str(future.error) for future in futures] == ["closed before they were sent"] * 2
    assert [future.error is not None and future.error.possibly_stored for future in futures] == [False, False]
    assert cluster.batches == []


def test_retries_are_limited_as_configured() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(error=19)] * 9
    producer = cluster.producer(retries=2)
    future = producer.send("orders", b"v")
    producer.flush()
    assert code_of(future.error) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(cluster.batches) == 3


def test_a_batch_is_sent_under_a_new_producer_id_after_unknown_producer_id() -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    producer.send("orders", b"1")
    producer.flush()
    cluster.faults = [Fault(error=ErrorCode.UNKNOWN_PRODUCER_ID)]
    producer.send("orders", b"2")
    producer.flush()
    assert cluster.values() == [b"1", b"2"]
    assert [(pid, sequence) for _, pid, _, sequence, _ in cluster.batches] == [(1001, 0), (1001, 1), (1002, 0)]


def test_the_request_for_a_producer_id_is_retried() -> None:
    cluster = FakeLog()
    cluster.id_errors = [14, 16]
    producer = cluster.producer()
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.succeeded
    assert len(cluster.requests(ApiKey.INIT_PRODUCER_ID)) == 3


def test_a_refused_producer_id_fails_the_waiting_records() -> None:
    cluster = FakeLog()
    cluster.id_errors = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    producer = cluster.producer()
    future = producer.send("orders", b"v")
    producer.flush()
    assert code_of(future.error) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert cluster.batches == []


def test_a_batch_too_large_for_the_broker_is_split_until_its_parts_fit() -> None:
    cluster = FakeLog()
    cluster.largest_batch_bytes = 300
    producer = cluster.producer()
    outcomes: list[Outcome] = []
    values = [str(n) * 20 for n in range(10)]
    producer.send_many("orders", new_records(*values), outcomes.append)
    producer.flush()
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    assert sum(outcome.record_count for outcome in outcomes) == 10
    assert cluster.values() == [value.encode() for value in values]


def test_only_the_record_too_large_for_the_broker_fails() -> None:
    cluster = FakeLog()
    cluster.largest_batch_bytes = 300
    producer = cluster.producer()
    futures = [producer.send("orders", value) for value in (b"small", b"x" * 400, b"small too")]
    producer.flush()
    assert [future.failed for future in futures] == [False, True, False]
    assert code_of(futures[1].error) == ErrorCode.MESSAGE_TOO_LARGE
    assert cluster.values() == [b"small", b"small too"]


def test_a_record_larger_than_max_request_size_fails_without_a_request() -> None:
    cluster = FakeLog()
    producer = cluster.producer(max_request_size=1000)
    outcomes: list[Outcome] = []
    producer.send_many("orders", new_records("a", "x" * 1000, "b"), outcomes.append)
    assert code_of(outcomes[0].error) == ErrorCode.MESSAGE_TOO_LARGE
    assert outcomes[0].record_count == 1
    producer.flush()
    assert cluster.values() == [b"a", b"b"]


def test_records_named_in_the_response_fail_with_their_own_error() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(error=ErrorCode.INVALID_RECORD, message="compacted topic", record_errors=((1, "no key"),))]
    producer = cluster.producer()
    futures = [producer.send("orders", b"v", b"k"), producer.send("orders", b"v")]
    producer.flush()
    assert str(futures[0].error) == "INVALID_RECORD: compacted topic (topic orders, partition 0)"
    assert str(futures[1].error) == "INVALID_RECORD: no key (topic orders, partition 0)"
    producer.send("orders", b"next")
    producer.flush()
    assert cluster.values() == [b"next"]


def test_a_record_for_an_unknown_topic_fails_and_the_topic_is_not_created() -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    future = producer.send("orderz", b"v")
    assert code_of(future.error) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not any(asked.request.allow_auto_topic_creation for asked in cluster.requests(ApiKey.METADATA))


def test_the_error_for_an_unknown_partition_names_the_known_ones() -> None:
    producer = FakeLog(topics={"orders": dict.fromkeys(range(3), (1, 0))}).producer()
    error = producer.send("orders", b"v", partition=3).error
    assert code_of(error) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "0 to 2, not 3" in str(error)


def test_a_record_with_acks_0_is_done_when_written_and_has_no_offset() -> None:
    cluster = FakeLog()
    producer = cluster.producer(acks=0)
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.value().offset == -1
    assert cluster.values() == [b"v"]
    assert cluster.requests(ApiKey.INIT_PRODUCER_ID) == []


@pytest.mark.parametrize(("acks", "asked_for"), [("0", 0), ("1", 1), ("all", -1)])
def test_requests_carry_the_configured_acks(acks: str, asked_for: int) -> None:
    cluster = FakeLog()
    producer = cluster.producer(acks=acks)
    producer.send("orders", b"v")
    producer.flush()
    assert [asked.request.acks for asked in cluster.requests(ApiKey.PRODUCE)] == [asked_for]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_can_be_read_back(codec: str) -> None:
    cluster = FakeLog()
    producer = cluster.producer(compression_type=codec)
    values = [f"the same text again and again {n}" for n in range(100)]
    producer.send_many("orders", new_records(*values), lambda _: None)
    producer.flush()
    assert cluster.values() == [value.encode() for value in values]


def test_zstd_fails_with_a_broker_that_does_not_support_it() -> None:
    cluster = FakeLog()
    cluster.versions[ApiKey.PRODUCE] = (3, 6)
    producer = cluster.producer(compression_type="zstd")
    future = producer.send("orders", b"v")
    producer.flush()
    assert future.failed
    assert cluster.batches == []


def test_send_waits_for_buffer_memory_at_most_max_block_ms() -> None:
    cluster = FakeLog()
    producer = cluster.producer(buffer_memory=500, max_block_ms=2000, batch_size=100)
    for n in range(100):
        producer.send("orders", b"x" * 100 + str(n).encode())
    producer.flush()
    assert len(cluster.values()) == 100
    cluster.faults = [Fault(silent=True)] * 99
    futures = [producer.send("orders", b"x" * 100) for _ in range(10)]
    assert isinstance(futures[-1].error, TimeoutExpired)
    assert "buffer.memory" in futures[-1].error.message


def test_records_stay_queued_when_flush_reaches_its_deadline() -> None:
    cluster = FakeLog()
    cluster.faults = [Fault(silent=True)]
    producer = cluster.producer(request_timeout_ms=5000)
    future = producer.send("orders", b"v")
    with pytest.raises(TimeoutExpired):
        producer.flush(timeout_ms=1000)
    assert not future.done
    producer.flush()
    assert future.succeeded


def test_leaving_the_with_block_flushes() -> None:
    cluster = FakeLog()
    with cluster.producer() as producer:
        producer.send("orders", b"v")
    assert cluster.values() == [b"v"]


def test_an_exception_in_the_with_block_does_not_flush() -> None:
    cluster = FakeLog()

    def failing() -> None:
        with cluster.producer() as producer:
            producer.send("orders", b"v")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert cluster.values() == []


def test_settings_are_keywords_with_kafkas_names() -> None:
    with Producer(bootstrap_servers="localhost:9092", linger_ms=7, acks="1") as producer:
        assert (producer._config.linger_ms, producer._config.acks) == (7, 1)
    config = ProducerConfig.from_properties({"bootstrap.servers": "localhost:9092", "linger.ms": 7})
    with Producer.from_config(config) as producer:
        assert producer._config.linger_ms == 7
    with pytest.raises(ConfigError, match="there is no setting linger; did you mean linger_ms"):
        Producer(bootstrap_servers="localhost:9092", linger=7)


def test_metrics_count_records_batches_and_requests() -> None:
    cluster = FakeLog()
    producer = cluster.producer(linger_ms=1000, buffer_memory=10_000)
    cluster.faults = [TOO_FEW, Fault(stored=True), REFUSED]
    producer.send_many("orders", new_records("a", "b", "c"), lambda _: None)
    waiting = producer.metrics()["producer-metrics"]
    assert waiting["buffer-available-bytes"] < waiting["buffer-total-bytes"] == 10_000
    producer.flush()
    producer.send("orders", b"refused")
    producer.flush()
    metrics = producer.metrics()["producer-metrics"]
    assert (metrics["record-send-total"], metrics["record-retry-total"], metrics["record-error-total"]) == (7, 3, 1)
    assert (metrics["records-per-request-avg"], metrics["requests-in-flight"]) == (7 / 3, 0)
    assert metrics["batch-size-max"] > 0
    assert metrics["buffer-available-bytes"] == 10_000
    assert metrics["request-total"] == len(cluster.asked)
    assert producer.metrics()["producer-node-metrics,node-id=node-1"]["response-total"] > 0


def test_a_text_value_is_refused() -> None:
    producer = FakeLog().producer()
    with pytest.raises(TypeError, match="the value of a record is bytes or None, not str"):
        producer.send("orders", "text")  # type: ignore[arg-type]


def test_a_header_name_that_cannot_be_encoded_is_refused_alone() -> None:
    producer = FakeLog().producer()
    stored = producer.send("orders", b"a")
    with pytest.raises(UnicodeEncodeError):
        producer.send("orders", b"b", headers=[("\ud800", b"")])
    producer.flush()
    assert stored.succeeded


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"value": 5}, TypeError, "the value of a record is bytes or None, not int"),
        ({"headers": [("a", "text")]}, TypeError, "the header value of a record is bytes or None, not str; encode it"),
        ({"timestamp_ms": 1.5}, TypeError, "the timestamp of a record is an int, ms since the epoch, not float"),
        ({"timestamp_ms": 1 << 63}, ValueError, "the timestamp of a record is -1 to"),
        ({"timestamp_ms": -2}, ValueError, "the timestamp of a record is -1 to"),
    ],
)
def test_a_record_that_cannot_be_encoded_is_refused_alone(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    producer = FakeLog().producer()
    stored = producer.send("orders", b"a")
    with pytest.raises(error, match=text):
        producer.send("orders", **arguments)
    producer.flush()
    assert stored.succeeded


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"headers": {"ab": b""}}, r"a list of \(name, value\), not dict; use list\(headers.items\(\)\)"),
        ({"headers": (pair for pair in [("a", b"")])}, r"a list of \(name, value\), not generator"),
        ({"headers": ["ab"]}, r"a header of a record is \(name, value\), not 'ab'"),
        ({"headers": [(b"a", b"")]}, "the name of a header is a str, not bytes"),
        ({"partition": 0.0}, "the partition of a record is an int or None, not float"),
        ({"topic": b"orders"}, "the topic of a record is a str, not bytes"),
        ({"topic": None}, "the topic of a record is a str, not NoneType"),
    ],
)
def test_an_argument_of_a_wrong_type_is_a_type_error(arguments: dict[str, Any], text: str) -> None:
    producer = FakeLog().producer()
    with pytest.raises(TypeError, match=text):
        producer.send(**{"topic": "orders", "value": b"v"} | arguments)


def test_a_record_is_stored_as_it_was_when_it_was_sent() -> None:
    """Callers reuse their buffers and lists before the record is encoded."""
    cluster = FakeLog()
    producer = cluster.producer()
    buffer, headers = bytearray(b"first"), [("a", b"1")]
    producer.send("orders", buffer, headers=headers, timestamp_ms=1)  # type: ignore[arg-type]
    producer.send_many("orders", NewRecords([buffer], 1, None, [headers]), lambda _: None)  # type: ignore[list-item]
    buffer[:] = b"later"
    headers[:] = []
    producer.send("orders", memoryview(array("H", [1, 2])), timestamp_ms=1)  # type: ignore[arg-type]
    producer.flush()
    first = NewRecord(None, b"first", 1, [("a", b"1")])
    assert cluster.log[ORDERS] == [first, first, NewRecord(None, array("H", [1, 2]).tobytes(), 1, [])]


@pytest.mark.parametrize(
    ("records", "error", "text"),
    [
        (NewRecords([b"a", "b"], 0), TypeError, "value of a record is bytes or None, not str; encode it first"),
        (NewRecords([None, 0], 0), TypeError, "the value of a record is bytes or None, not int"),
        (NewRecords([b"a", b"b"], 0, [None, "b"]), TypeError, "the key of a record is bytes or None, not str"),
        (NewRecords([b"a", b"b"], 0, [b"a"]), ValueError, "records have 2 values, but 1 keys"),
        (NewRecords([b"a", b"b"], [1]), ValueError, "records have 2 values, but 1 timestamps_ms"),
        (NewRecords([b"a", b"b"], [1, -2]), ValueError, "the timestamp of a record is -1 to"),
        (NewRecords([b"a", b"b"], [1, 1.5]), TypeError, "the timestamp of a record is an int"),
        (NewRecords([b"a"], 0, None, [[("a", "text")]]), TypeError, "the header value of a record is bytes or None"),
        (NewRecords([b"a"], 0, None, [("a", b"")]), TypeError, r"a header of a record is \(name, value\), not 'a'"),
        (NewRecords([b"a"], 0, None, [[("\ud800", b"")]]), UnicodeEncodeError, "surrogates"),
    ],
)
def test_none_of_many_records_is_accepted_if_one_cannot_be_encoded(
    records: NewRecords, error: type[Exception], text: str
) -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    stored = producer.send("orders", b"before")
    outcomes: list[Outcome] = []
    with pytest.raises(error, match=text):
        producer.send_many("orders", records, outcomes.append)
    producer.flush()
    assert stored.succeeded
    assert (outcomes, cluster.values()) == ([], [b"before"])


def test_a_failed_authentication_fails_the_records_at_once() -> None:
    cluster = FakeLog()
    gate = SaslGate(cluster.selector, cluster.versions, cluster.clock, lifetime_ms=3_000)
    producer = cluster.producer(**ALICE)
    stored = producer.send("orders", b"a")
    producer.flush()
    assert stored.succeeded
    gate.knows_alice = False
    cluster.clock.advance(2_900)
    futures = [producer.send("orders", b"b") for _ in range(3)]
    producer.flush()
    assert [type(future.error) for future in futures] == [AuthenticationError] * 3
    assert cluster.clock.now_ms() < 5_000
    assert cluster.values() == [b"a"]


def test_a_first_record_is_refused_at_once_with_wrong_credentials() -> None:
    cluster = FakeLog()
    SaslGate(cluster.selector, cluster.versions, cluster.clock).knows_alice = False
    producer = cluster.producer(**ALICE)
    assert isinstance(producer.send("orders", b"a").error, AuthenticationError)
    assert cluster.clock.now_ms() < 1_000

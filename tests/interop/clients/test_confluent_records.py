"""confluent-kafka (librdkafka 2.16): producing, reading without a group, idempotence, refusals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.interop.shapes import wait_until
from tests.limits import join
from tests.real_kafka import Kafka, OwnBroker

pytestmark = pytest.mark.slow

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOON = 1_706_702_400_000


def producer_for(kafka: Kafka, **settings: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **named})


def read(kafka: Kafka, topic: str, partition: int = 0, **settings: Any) -> list[Message]:
    """Return every message of a partition, in order, up to its end."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    own = {"group.id": "no-group", "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **own, **named})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    try:
        return list(up_to_the_end(consumer))
    finally:
        consumer.close()


def up_to_the_end(consumer: Consumer) -> Iterator[Message]:
    while True:
        message = consumer.poll(30)
        assert message is not None, "neither a message nor the end came"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return
        yield message


def test_an_idempotent_producer_writes_each_record_once_and_in_order(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=3)
    producer = producer_for(any_kafka, enable_idempotence=True, linger_ms=1, batch_num_messages=100)
    acknowledged: dict[tuple[int, int], bytes] = {}

    def stored(error: Any, message: Message) -> None:
        assert error is None, error
        acknowledged[message.partition(), message.offset()] = message.value()

    for n in range(20_000):
        producer.produce(topic, b"%d" % n, partition=n % 3, on_delivery=stored)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert len(acknowledged) == 20_000
    for partition in range(3):
        messages = read(any_kafka, topic, partition)
        assert [m.value() for m in messages] == [b"%d" % n for n in range(partition, 20_000, 3)]
        assert [m.offset() for m in messages] == list(range(len(messages)))
        assert all(acknowledged[partition, m.offset()] == m.value() for m in messages)


@pytest.mark.parametrize("codec", CODECS)
def test_keys_values_headers_and_times_round_trip(codec: str, any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(prefix=codec, retention_ms=-1)
    producer = producer_for(any_kafka, compression_type=codec, linger_ms=20, enable_idempotence=True)
    records = [
        (b"key %d" % n if n % 3 else None, b"value %d " % n * (n % 20) if n % 7 else None, [("h", b"%d" % n)] * (n % 4))
        for n in range(1_000)
    ]
    for n, (key, value, headers) in enumerate(records):
        producer.produce(topic, value, key, headers=headers, timestamp=NOON + n)
    assert producer.flush(30) == 0
    messages = read(any_kafka, topic)
    assert [(m.key(), m.value(), m.headers() or []) for m in messages] == records
    assert [m.timestamp() for m in messages] == [(1, NOON + n) for n in range(1_000)]


def test_log_append_time_is_the_brokers_clock(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(message_timestamp_type="LogAppendTime")
    producer, before = producer_for(any_kafka), int(time.time() * 1000)
    result: list[tuple[int, int]] = []
    producer.produce(topic, b"x", timestamp=NOON, on_delivery=lambda _, message: result.append(message.timestamp()))
    assert producer.flush(30) == 0
    [message] = read(any_kafka, topic)
    kind, stamp = message.timestamp()
    assert kind == 2  # TIMESTAMP_LOG_APPEND_TIME
    assert before - 1_000 <= stamp <= time.time() * 1000 + 1_000
    assert result == [(2, stamp)]


def refusal(kafka: Kafka, topic: str, value: bytes, partition: int = 0, **settings: Any) -> int:
    """Return the error code with which a produce request fails."""
    errors: list[KafkaError] = []
    producer = producer_for(kafka, message_timeout_ms=20_000, **settings)
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return int(errors[0].code())


def test_a_record_that_is_too_large_is_refused(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(max_message_bytes=1_000)
    assert refusal(any_kafka, topic, b"x" * 5_000) == KafkaError.MSG_SIZE_TOO_LARGE
    assert read(any_kafka, topic) == []


def test_a_compacted_topic_refuses_records_without_keys(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(cleanup_policy="compact")
    assert refusal(any_kafka, topic, b"x") == KafkaError.INVALID_RECORD


def test_an_unknown_partition_is_an_error(any_kafka: Kafka) -> None:
    assert refusal(any_kafka, any_kafka.new_topic(), b"x", partition=7) == KafkaError._UNKNOWN_PARTITION


def test_reading_beyond_the_end_follows_the_reset_policy(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    producer = any_kafka.ordered_producer()
    for n in range(10):
        producer.produce(topic, b"%d" % n)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": "no-group", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 1_000)])
    message = consumer.poll(30)
    assert (message.error(), message.offset()) == (None, 0)
    consumer.close()
    consumer = Consumer({**settings, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 1_000)])
    message = consumer.poll(30)
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


def test_watermarks_and_offsets_by_time(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(retention_ms=-1)
    producer = any_kafka.ordered_producer()
    for n in range(10):
        producer.produce(topic, b"%d" % n, timestamp=NOON + 1_000 * n)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": "no-group"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30) == (0, 10)
    asked = [TopicPartition(topic, 0, stamp) for stamp in (NOON + 4_500, NOON + 60_000)]
    assert [consumer.offsets_for_times([one], timeout=30)[0].offset for one in asked] == [5, -1]
    consumer.close()


def test_read_committed_readers_get_new_records_at_once(any_kafka: Kafka) -> None:
    """read_committed without transactions returns every record, and a new record wakes waiting readers."""
    topic = any_kafka.new_topic(partitions=2)
    seen: list[list[bytes]] = [[], []]
    stop = threading.Event()

    def follow(partition: int) -> None:
        own = {"group.id": "no-group", "isolation.level": "read_committed", "fetch.wait.max.ms": 5_000}
        consumer = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, **own})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                seen[partition].append(message.value())
        consumer.close()

    followers = [threading.Thread(target=follow, args=(partition,), daemon=True) for partition in range(2)]
    for follower in followers:
        follower.start()
    producer = producer_for(any_kafka, enable_idempotence=True, linger_ms=0)
    for n in range(1_000):
        producer.produce(topic, b"%d" % n, partition=n % 2)
        producer.poll(0.001)
    assert producer.flush(30) == 0
    try:
        wait_until(lambda: sum(map(len, seen)) == 1_000, "both followers to see everything")
    finally:
        stop.set()
        for follower in followers:
            join(follower)
    assert seen == [[b"%d" % n for n in range(partition, 1_000, 2)] for partition in range(2)]


def test_an_idempotent_producer_survives_a_broker_kill(any_own_kafka: Callable[..., OwnBroker]) -> None:
    """Every acknowledged record is stored once, and in order."""
    kafka = any_own_kafka()
    topic = kafka.create_topic("t")
    producer = producer_for(
        kafka, enable_idempotence=True, linger_ms=1, batch_num_messages=50, reconnect_backoff_max_ms=200
    )
    failed: list[Any] = []

    def stored(error: Any, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for n in range(6_000):
        producer.produce(topic, b"%d" % n, on_delivery=stored)
        producer.poll(0)
        if n == 3_000:
            producer.flush(0.02)  # some are stored, some are on their way
            kafka.kill()
            kafka.start()
    assert producer.flush(120) == 0
    assert failed == []
    messages = read(kafka, topic)
    assert [m.value() for m in messages] == [b"%d" % n for n in range(6_000)]
    assert [m.offset() for m in messages] == list(range(6_000))

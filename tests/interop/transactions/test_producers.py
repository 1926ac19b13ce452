"""Transactions of foreign producers on our broker and on Apache's: commit, abort, fencing, timeout, offsets.

Java's producer uses transactions of version 2 (KIP-890), whose partitions are added by their leaders. librdkafka 2.16,
kafka-python, aiokafka and kafkajs add them first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.interop.transactions.clients import CLIENTS, Client, ClientError
from tests.limits import Limit
from tests.real_kafka import Kafka, read_until_equal

pytestmark = pytest.mark.slow

FENCED = {"ProducerFencedException", "InvalidProducerEpochException", "ProducerFencedError", "ProducerFenced"}
FENCED |= {"_FENCED", "INVALID_PRODUCER_EPOCH"}  # of librdkafka and kafkajs


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, any_kafka: Kafka) -> Iterator[Client]:
    client = Client(request.param, any_kafka)
    yield client
    client.close()


@pytest.fixture
def start(client: Client, any_kafka: Kafka) -> Callable[..., None]:
    """`start(name, transactional_id, **settings)` creates a producer and fences others with its id."""

    def start(name: str, transactional_id: str, **settings: str) -> None:
        own = {"bootstrap.servers": any_kafka.bootstrap_servers, "transactional.id": transactional_id}
        client("producer", name, settings={**own, **{key.replace("_", "."): value for key, value in settings.items()}})
        client("init", name)

    return start


def write(client: Client, topic: str, value: str, name: str = "p", partitions: int = 2) -> None:
    for partition in range(partitions):
        client("send", name, topic=topic, partition=partition, value=value)
    client("flush", name)


def read(kafka: Kafka, topic: str, isolation: str = "read_committed", partitions: int = 2) -> list[list[str]]:
    """Return the values of each partition up to the end that this isolation level shows."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values: list[list[str]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    limit = Limit(f"the ends of {topic} with {isolation}")
    while len(ended) < partitions:
        limit.check()
        for message in consumer.consume(100, 0.05):
            if message.error() is None:
                values[message.partition()].append(message.value().decode())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
    consumer.close()
    return values


def assert_committed(kafka: Kafka, topic: str, expected: list[list[str]]) -> None:
    """Check what read_committed returns: the end of a transaction is answered before its markers are written."""
    assert read_until_equal(expected, lambda: read(kafka, topic)) == expected


def committed(kafka: Kafka, group: str, topic: str) -> int:
    """Return the committed offset of partition 0; it waits for pending ones."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    found: int = consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset
    consumer.close()
    return found


def until(condition: Callable[[], Any], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.05)


def test_aborted_records_are_invisible_to_committed_readers(
    client: Client, start: Callable[..., None], any_kafka: Kafka
) -> None:
    topic = any_kafka.new_topic(2)
    start("p", topic)
    for number in range(10):  # without a pause: the next transaction meets the markers of the one before
        client("begin")
        write(client, topic, str(number))
        client("abort" if number % 3 == 1 else "commit")
    client("close")

    assert_committed(any_kafka, topic, [["0", "2", "3", "5", "6", "8", "9"]] * 2)
    assert read(any_kafka, topic, "read_uncommitted") == [[str(number) for number in range(10)]] * 2


def test_a_second_instance_aborts_and_fences_the_first(
    client: Client, start: Callable[..., None], any_kafka: Kafka
) -> None:
    topic = any_kafka.new_topic(2)
    start("first", topic)
    client("begin", "first")
    write(client, topic, "of the first", "first")
    start("second", topic)

    with pytest.raises(ClientError) as fenced:
        client("commit", "first")
    assert fenced.value.name in FENCED
    client("begin", "second")
    write(client, topic, "of the second", "second")
    client("commit", "second")
    assert_committed(any_kafka, topic, [["of the second"]] * 2)
    for name in ("first", "second"):
        client("close", name)


def test_a_transaction_that_takes_too_long_is_aborted(
    client: Client, start: Callable[..., None], any_kafka: Kafka
) -> None:
    topic = any_kafka.new_topic(2)
    start("slow", topic, transaction_timeout_ms="1000")
    client("begin", "slow")
    write(client, topic, "late", "slow")
    producer = any_kafka.ordered_producer(topic)
    for partition in range(2):
        producer.produce(topic, "after it", partition=partition)
    assert producer.flush(30) == 0
    until(lambda: read(any_kafka, topic) == [["after it"]] * 2, "the abort of the late transaction")

    with pytest.raises(ClientError):
        client("commit", "slow")
    client("close", "slow")
    start("next", topic)
    client("begin", "next")
    write(client, topic, "in time", "next")
    client("commit", "next")
    client("close", "next")
    assert_committed(any_kafka, topic, [["after it", "in time"]] * 2)


def test_offsets_are_committed_with_their_transaction_only(
    client: Client, start: Callable[..., None], any_kafka: Kafka
) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    start("p", topic)
    for end, offset, expected in (("abort", 7, -1001), ("commit", 8, 8), ("abort", 9, 8)):
        client("begin")
        write(client, topic, f"{end} {offset}")
        client("send_offsets", topic=topic, partition=0, offset=offset, group=group)
        client(end)
        assert committed(any_kafka, group, topic) == expected
    client("begin")
    client("send_offsets", topic=topic, partition=0, offset=10, group=group)  # offsets and no records
    client("commit")
    client("close")

    assert committed(any_kafka, group, topic) == 10
    assert_committed(any_kafka, topic, [["commit 8"]] * 2)

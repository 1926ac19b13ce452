"""Topics whose last visible record is not at their end: control batches, gaps, deleted heads, aborted transactions.

Each function creates such a topic with one partition on a real broker and returns its name and the values that a reader
must see.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.real_kafka import Kafka


class Shape(NamedTuple):
    topic: str
    visible: list[bytes]


def empty(kafka: Kafka) -> Shape:
    return Shape(kafka.new_topic(prefix="empty"), [])


def ending_in_markers(kafka: Kafka) -> Shape:
    """Three transactions of one record each: every second offset is a control record, and so is the last."""
    topic = kafka.new_topic(prefix="markers")
    values = [b"committed %d" % n for n in range(3)]
    producer = transactional(kafka)
    for value in values:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction()
    wait_until_decided(kafka, topic, 6)
    return Shape(topic, values)


def aborted_at_the_end(kafka: Kafka) -> Shape:
    """Committed, aborted, committed, aborted; `visible` is what read_committed returns."""
    topic = kafka.new_topic(prefix="aborted")
    producer = transactional(kafka)
    for n in range(4):
        producer.begin_transaction()
        for i in range(3):
            producer.produce(topic, b"%d.%d" % (n, i))
        producer.flush()  # or librdkafka would not even send what is to be aborted
        (producer.abort_transaction if n % 2 else producer.commit_transaction)()
    wait_until_decided(kafka, topic, 16)
    return Shape(topic, [b"%d.%d" % (n, i) for n in (0, 2) for i in range(3)])


def head_deleted(kafka: Kafka) -> Shape:
    topic = kafka.new_topic(prefix="headless")
    values = [b"%d" % n for n in range(100)]
    produce(kafka, topic, values)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 60)]).values():
        assert deleted.result(30).low_watermark == 60
    return Shape(topic, values[60:])


def compacted_with_holes(kafka: Kafka) -> Shape:
    """Twenty rounds of the same ten keys and one new key, each round in its own segment; compaction removes most
    records.

    The last round is in the active segment, which the cleaner does not touch.
    """
    topic = kafka.new_topic(
        prefix="compacted",
        cleanup_policy="compact",
        segment_ms=1000,
        min_cleanable_dirty_ratio=0,
        max_compaction_lag_ms=1000,
        delete_retention_ms=0,
    )
    producer = kafka.ordered_producer()
    start = int(time.time() * 1000) - 3_600_000
    for n in range(20):  # a segment is rolled by the time of its records, so no one has to wait
        for key in range(10):
            producer.produce(topic, b"%d.%d" % (key, n), key=b"%d" % key, timestamp=start + n * 60_000 + key)
        producer.produce(topic, b"new.%d" % n, key=b"new %d" % n, timestamp=start + n * 60_000 + 10)
        producer.flush(30)
    rounds = [[b"%d.%d" % (key, n) for key in range(10)] if n >= 18 else [] for n in range(20)]
    left = [value for n in range(20) for value in (*rounds[n], b"new.%d" % n)]
    wait_until(lambda: read_values(kafka, topic) == left, "the topic to be compacted")
    return Shape(topic, left)


def transactional(kafka: Kafka) -> Producer:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.new_name("tx")}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


def wait_until_decided(kafka: Kafka, topic: str, *ends: int) -> None:
    """Wait until the partitions have these ends for read_committed: control records are written shortly after the
    commit.
    """
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(len(ends))}

    def is_decided() -> bool:
        answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=30)
        return all(answers[tp].result(30).offset == ends[tp.partition] for tp in asked)

    wait_until(is_decided, f"the markers of {topic}")


def produce(kafka: Kafka, topic: str, values: list[bytes], **settings: Any) -> None:
    """Write values in order to a topic of one partition, all acknowledged."""
    producer = kafka.ordered_producer(**settings)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def read_values(kafka: Kafka, topic: str) -> list[bytes]:
    """Return what librdkafka reads in partition 0, from the beginning to its current end."""
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"nothing came from {topic}"
        if message.error():
            consumer.close()
            return values
        values.append(message.value())


def wait_until(condition: Any, what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.1)

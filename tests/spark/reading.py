"""A topic as rows, read by librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.real_kafka import Kafka

Row = tuple[int, int, "bytes | None", "bytes | None", list[tuple[str, "bytes | None"]]]


def rows_of_topic(kafka: Kafka, topic: str) -> list[Row]:
    """Return (partition, timestamp, key, value, headers) of all records, by partition and offset."""
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, -2) for partition in partitions])
    found: list[tuple[int, int, Row]] = []
    at_end = 0
    while at_end < len(partitions):
        message = consumer.poll(30)
        assert message is not None, f"nothing came from {topic}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end += 1
            continue
        headers = list(message.headers() or [])
        row = (message.partition(), message.timestamp()[1], message.key(), message.value(), headers)
        found.append((message.partition(), message.offset(), row))
    consumer.close()
    return [row for _, _, row in sorted(found, key=lambda it: it[:2])]

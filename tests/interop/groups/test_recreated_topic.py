"""A topic that is deleted and created again while it is read: its readers start at the start of the new topic.

A position belongs to a topic id (KIP-516). librdkafka is the referee for what a member with auto.offset.reset=earliest
reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.errors import TopicRecreated
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.real_kafka import Kafka

OLD, NEW = [f"old-{number}" for number in range(10)], [f"new-{number}" for number in range(3)]


class KcliReader:
    """A `Consumer` of the library."""

    def __init__(self, kafka: Kafka, group: str | None, **properties: str) -> None:
        known = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        known |= {"group.id": group} if group else {}
        named = {name.replace("_", "."): value for name, value in properties.items()}
        self.consumer = Consumer.from_config(ConsumerConfig.from_properties({**known, **named}))

    def read(self, count: int, timeout_s: float = 30) -> list[str]:
        values: list[str] = []
        deadline = time.monotonic() + timeout_s
        while len(values) < count and time.monotonic() < deadline:
            for columns in self.consumer.poll(timeout_ms=500).values():
                values += [record.value.decode() for record in columns]
        return values

    def close(self) -> None:
        self.consumer.close()


class LibrdkafkaReader:
    """confluent-kafka's Consumer."""

    def __init__(self, kafka: Kafka, group: str, **properties: str) -> None:
        from confluent_kafka import Consumer as Other

        named = {name.replace("_", "."): value for name, value in properties.items()}
        quick = {"topic.metadata.refresh.interval.ms": 1000, "log_level": 0}
        known = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest", "group.id": group}
        self.consumer = Other({**known, **quick, **named})

    def read(self, count: int, timeout_s: float = 30) -> list[str]:
        values: list[str] = []
        deadline = time.monotonic() + timeout_s
        while len(values) < count and time.monotonic() < deadline:
            message = self.consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
        return values

    def close(self) -> None:
        self.consumer.close()


def produce(kafka: Kafka, topic: str, values: list[str]) -> None:
    producer = kafka.ordered_producer()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.flush()


def recreate(kafka: Kafka, topic: str) -> None:
    """Delete the topic and create it again, with the records NEW."""
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    produce(kafka, topic, NEW)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("reader_type", [KcliReader, LibrdkafkaReader])
def test_a_member_reads_the_new_topic_from_its_start(
    any_kafka: Kafka, protocol: str, reader_type: Callable[..., Any]
) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, OLD)
    reader = reader_type(any_kafka, any_kafka.new_name("g"), group_protocol=protocol)
    try:
        reader.consumer.subscribe([topic])
        assert reader.read(len(OLD)) == OLD
        recreate(any_kafka, topic)
        assert reader.read(len(NEW)) == NEW
    finally:
        reader.close()


def test_an_assigned_partition_is_read_from_the_start_of_the_new_topic(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, OLD)
    reader = KcliReader(any_kafka, None)
    try:
        tp = TopicPartition(topic, 0)
        reader.consumer.assign([tp])
        assert reader.read(len(OLD)) == OLD
        recreate(any_kafka, topic)
        assert reader.read(len(NEW)) == NEW
        assert reader.consumer.take_resets()[tp].offset == len(OLD)
    finally:
        reader.close()


def test_records_of_the_old_topic_are_never_taken_for_those_of_the_new_one(any_kafka: Kafka) -> None:
    """The positions are equal: with offsets alone the reader could not distinguish the topics."""
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, OLD[: len(NEW)])
    reader = KcliReader(any_kafka, None)
    try:
        reader.consumer.assign([TopicPartition(topic, 0)])
        assert reader.read(len(NEW)) == OLD[: len(NEW)]
        recreate(any_kafka, topic)
        assert reader.read(len(NEW)) == NEW
    finally:
        reader.close()


def test_without_a_reset_policy_the_error_names_the_topic_until_the_caller_seeks(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, OLD)
    reader = KcliReader(any_kafka, None, auto_offset_reset="none")
    try:
        tp = TopicPartition(topic, 0)
        reader.consumer.assign([tp])
        reader.consumer.seek(tp, 0)
        assert reader.read(len(OLD)) == OLD
        recreate(any_kafka, topic)
        for _ in range(2):
            with pytest.raises(TopicRecreated, match=f"{topic} was deleted and created again"):
                reader.read(1)
        reader.consumer.seek(tp, 1)
        assert reader.read(len(NEW) - 1) == NEW[1:]
    finally:
        reader.close()


@pytest.mark.parametrize("automatic", ["true", "false"])
def test_a_position_in_the_old_topic_is_not_committed_to_the_new_one(any_kafka: Kafka, automatic: str) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    tp = TopicPartition(topic, 0)
    produce(any_kafka, topic, OLD)
    # Without a poll after the deletion the consumer does not learn of it: the broker must refuse the old id.
    reader = KcliReader(any_kafka, group, enable_auto_commit=automatic)
    try:
        reader.consumer.subscribe([topic])
        assert reader.read(len(OLD)) == OLD
        recreate(any_kafka, topic)
        if automatic == "false":
            with pytest.raises(Exception, match="UNKNOWN_TOPIC_ID"):
                reader.consumer.commit()
    finally:
        reader.close()
    follower = KcliReader(any_kafka, group)
    try:
        assert follower.consumer.committed([tp]).get(tp) in (None, OffsetAndMetadata(-1))
        follower.consumer.subscribe([topic])
        assert follower.read(len(NEW)) == NEW
    finally:
        follower.close()

"""Reads with `to_end=True`: paused partitions, and transactions whose markers are not written yet."""

from __future__ import annotations

from itertools import islice

import pytest

from kcli import Consumer, Producer, TopicPartition
from tests.real_kafka import Kafka


@pytest.fixture
def topic(any_kafka: Kafka) -> str:
    """A topic of two partitions with the values 0 to 4, each in both."""
    name = any_kafka.new_topic(2, prefix="to-end")
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        for number in range(5):
            for partition in (0, 1):
                producer.send(name, b"%d" % number, partition=partition)
    return name


@pytest.fixture
def consumer(any_kafka: Kafka, topic: str) -> Consumer:
    return Consumer(topic, bootstrap_servers=any_kafka.bootstrap_servers, auto_offset_reset="earliest")


# --- paused partitions


@pytest.mark.parametrize("polled", [False, True])
def test_paused_partitions_do_not_count(consumer: Consumer, topic: str, polled: bool) -> None:
    paused = TopicPartition(topic, 1)
    with consumer:
        if polled:
            assert consumer.position(paused) == 0
        consumer.pause([paused])
        assert [record.partition for record in consumer.records(to_end=True)] == [0] * 5
        consumer.pause(consumer.assignment)
        assert list(consumer.records(to_end=True)) == [], "all partitions are paused"
        consumer.resume(consumer.assignment)
        assert [record.partition for record in consumer.records(to_end=True)] == [1] * 5


def test_a_partition_that_is_resumed_meanwhile_counts_again(consumer: Consumer, topic: str) -> None:
    paused = TopicPartition(topic, 1)
    with consumer:
        consumer.pause([paused])
        read = []
        for record in consumer.records(to_end=True):
            read.append(record.partition)
            if len(read) == 5:
                consumer.resume([paused])
        assert read == [0] * 5 + [1] * 5


def test_a_partition_that_is_paused_meanwhile_returns_no_further_record(consumer: Consumer, topic: str) -> None:
    with consumer:
        for record in consumer.records(to_end=True):
            if record.offset == 2:
                consumer.pause([TopicPartition(topic, record.partition)])
            assert record.offset <= 2
        positions = {tp.partition: consumer.position(tp) for tp in consumer.assignment}
        assert positions == {0: 3, 1: 3}
        consumer.resume(consumer.assignment)
        assert sorted(record.offset for record in islice(consumer, 4)) == [3, 3, 4, 4]


def test_no_further_columns_of_a_paused_partition_are_returned(consumer: Consumer, topic: str) -> None:
    with consumer:
        first: TopicPartition | None = None
        for tp, _ in consumer.columns(to_end=True):
            assert first is None
            first = tp
            consumer.pause(consumer.assignment)
        assert first is not None
        other = TopicPartition(topic, 1 - first.partition)
        assert (consumer.position(first), consumer.position(other)) == (5, 0)

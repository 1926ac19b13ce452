"""Deserializers, interceptors, max.poll.records and by_duration of a consumer, on both brokers, by Java's rules."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

from kcli import Consumer, OffsetAndMetadata, SerializationError, TopicPartition
from kcli.errors import ConfigError
from tests.real_kafka import Kafka

HOUR_MS = 3_600_000


def topic_of(kafka: Kafka, *records: tuple[bytes | None, int], prefix: str = "callables") -> TopicPartition:
    """Return a new partition with these values and timestamps, written by librdkafka."""
    topic = kafka.new_topic(1, prefix=prefix)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value, timestamp_ms in records:
        producer.produce(topic, value, timestamp=timestamp_ms, partition=0)
    assert producer.flush(30) == 0
    return TopicPartition(topic, 0)


@contextmanager
def consumer_of(kafka: Kafka, tp: TopicPartition, **arguments: Any) -> Iterator[Consumer]:
    given = {"auto_offset_reset": "earliest", **arguments}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **given) as consumer:
        consumer.assign([tp])
        yield consumer


def test_a_failed_deserializer_names_the_record_which_a_seek_skips(any_kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    tp = topic_of(any_kafka, (b"1", now), (None, now), (b"{", now), (b"2", now))
    with consumer_of(any_kafka, tp, value_deserializer=json.loads) as consumer:
        values = []
        with pytest.raises(SerializationError, match=f"the value of the record at offset 2 of {tp}") as caught:
            values.extend(record.value for record in consumer.records(to_end=True))
        assert values == [1, None]
        assert caught.value.evidence == {"topic": tp.topic, "partition": 0, "offset": 2, "field": "value"}
        assert isinstance(caught.value.__cause__, json.JSONDecodeError)
        assert consumer.position(tp) == 2
        with pytest.raises(SerializationError):
            next(consumer.records(to_end=True))
        consumer.seek(tp, consumer.position(tp) + 1)
        assert [record.value for record in consumer.records(to_end=True)] == [2]


def test_max_poll_records_bounds_each_poll_and_the_position_follows(any_kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    tp = topic_of(any_kafka, *((b"%d" % number, now) for number in range(10)))
    with consumer_of(any_kafka, tp, max_poll_records=4) as consumer:
        sizes, positions = [], []
        while sum(sizes) < 10:
            sizes += [len(columns) for columns in consumer.poll(10_000).values()]
            positions.append(consumer.position(tp))
        assert (sizes, positions) == ([4, 4, 2], [4, 8, 10])
        consumer.seek(tp, 3)
        consumer.poll(10_000)
        consumer.seek(tp, 1)
        assert [it.offsets.tolist() for it in consumer.poll(10_000).values()] == [[1, 2, 3, 4]]


def test_by_duration_starts_at_the_first_younger_record_or_at_the_end(any_kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    tp = topic_of(any_kafka, (b"old", now - 3 * HOUR_MS), (b"young", now - HOUR_MS), (b"new", now))
    with consumer_of(any_kafka, tp, auto_offset_reset="by_duration:PT2H") as consumer:
        assert [record.value for record in consumer.records(to_end=True)] == [b"young", b"new"]
    old = topic_of(any_kafka, (b"old", now - 3 * HOUR_MS), prefix="old")
    with consumer_of(any_kafka, old, auto_offset_reset="by_duration:PT2H") as consumer:
        assert consumer.position(old) == 1


def test_on_consume_may_replace_a_poll_and_on_commit_sees_what_is_stored(any_kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    tp = topic_of(any_kafka, (b"a", now), (b"b", now))
    commits: list[Any] = []
    interceptors = {
        "on_consume": lambda records: {tp: it.take(it.offsets > 0) for tp, it in records.items()},
        "on_commit": commits.append,
    }
    with consumer_of(any_kafka, tp, group_id=f"g-{tp.topic}", enable_auto_commit=False, **interceptors) as consumer:
        assert [record.value for record in consumer.records(to_end=True)] == [b"b"]
        consumer.commit()
        consumer.commit_async({tp: OffsetAndMetadata(1)})
        consumer.commit({tp: OffsetAndMetadata(2)})
    assert [offsets[tp].offset for offsets in commits] == [2, 1, 2]


def test_exceptions_of_interceptors_are_logged_and_ignored(any_kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    tp = topic_of(any_kafka, (b"a", int(time.time() * 1000)))

    def fail(_: object) -> None:
        raise ValueError("broken")

    with caplog.at_level(logging.WARNING, "kcli"):
        settings = {"group_id": f"g-{tp.topic}", "enable_auto_commit": False}
        with consumer_of(any_kafka, tp, on_consume=fail, on_commit=fail, **settings) as consumer:
            assert [record.value for record in consumer.records(to_end=True)] == [b"a"]
            consumer.commit()
            assert consumer.committed([tp]) == {tp: OffsetAndMetadata(1, 0)}
    names = [record.getMessage().split(" has failed")[0] for record in caplog.records if record.exc_info]
    assert names == ["on_consume", "on_commit"]


def test_names_of_java_classes_are_refused_with_a_hint_at_the_callables() -> None:
    with pytest.raises(ConfigError, match="value_deserializer: a str is not valid; use a function"):
        Consumer(value_deserializer="org.apache.kafka.common.serialization.StringDeserializer")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"interceptor_classes has no effect in kcli: .*on_consume, on_commit"):
        Consumer(interceptor_classes="com.example.Audit")

"""Serializers and interceptors of a producer as Python callables, by the rules of Java's ProducerInterceptor."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kcli.errors import ConfigError, KcliError, SerializationError
from kcli.producer.batches import RecordMetadata
from kcli.producer.callables import ProducerRecord, SendCallables
from kcli.producer.producer import Producer
from tests.producer.fake_log import FakeLog


def producer_with(cluster: FakeLog, **callables: Any) -> Producer:
    producer = cluster.producer()
    given = SendCallables(**callables)
    return Producer.from_config(producer._config, producer._client, callables=given, in_background=False)


def test_a_serializer_makes_the_bytes_of_keys_and_values_and_leaves_nulls() -> None:
    cluster = FakeLog()
    encode = lambda value: json.dumps(value).encode()  # noqa: E731
    producer = producer_with(cluster, key_serializer=str.encode, value_serializer=encode)
    producer.send("orders", {"amount": 3}, "k")
    producer.send("orders", None, "k")
    producer.flush()
    stored = [(record.key, record.value) for records in cluster.log.values() for record in records]
    assert stored == [(b"k", b'{"amount": 3}'), (b"k", None)]


def test_an_exception_of_a_serializer_names_the_field_and_sends_nothing() -> None:
    cluster, seen = FakeLog(), list[tuple[RecordMetadata, KcliError | None]]()
    producer = producer_with(
        cluster, value_serializer=lambda value: value.encode(), on_ack=lambda *given: seen.append(given)
    )
    with pytest.raises(SerializationError, match="the value of a record for orders cannot be serialized: Attrib") as it:
        producer.send("orders", 3)
    assert isinstance(it.value.__cause__, AttributeError)
    assert seen == [(RecordMetadata("orders", -1, -1, -1), it.value)]
    producer.flush()
    assert cluster.values() == []


def test_on_send_may_replace_a_record_and_on_ack_sees_its_place_before_the_future() -> None:
    cluster, seen = FakeLog(), list[Any]()
    producer = producer_with(
        cluster,
        on_send=lambda record: record._replace(headers=[("trace", b"1")], value=record.value + b"!"),
        on_ack=lambda metadata, error: seen.append((metadata.offset, error, future.done)),
    )
    future = producer.send("orders", b"v")
    producer.flush()
    assert seen == [(0, None, False)]
    (record,) = (record for records in cluster.log.values() for record in records)
    assert (record.value, record.headers) == (b"v!", [("trace", b"1")])


def test_exceptions_of_interceptors_are_logged_and_the_record_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeLog()

    def fail(*_: object) -> None:
        raise ValueError("broken")

    producer = producer_with(cluster, on_send=fail, on_ack=fail)
    with caplog.at_level(logging.WARNING, "kcli"):
        future = producer.send("orders", b"v")
        producer.flush()
    assert future.value().offset == 0
    assert [record.getMessage().split(" has")[0] for record in caplog.records] == ["on_send", "on_ack"]
    assert all(record.exc_info and "broken" in str(record.exc_info[1]) for record in caplog.records)


def test_on_ack_sees_a_record_that_fails_before_it_is_sent() -> None:
    cluster, seen = FakeLog(), list[Any]()
    producer = producer_with(cluster, on_ack=lambda metadata, error: seen.append((metadata[:3], error)))
    future = producer.send("orders", b"v", partition=99)
    assert seen == [(("orders", 99, -1), future.error)]
    assert future.error is not None


def test_the_name_of_a_java_class_is_refused_with_the_name_of_the_argument() -> None:
    with pytest.raises(ConfigError, match="value_serializer: a str is not valid; use a function"):
        Producer(value_serializer="org.apache.kafka.common.serialization.StringSerializer")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"interceptor_classes has no effect in kcli: .*on_send or on_ack"):
        Producer(interceptor_classes="com.example.Audit")


def test_a_record_of_on_send_has_the_arguments_of_send() -> None:
    cluster, seen = FakeLog(), list[ProducerRecord]()
    producer = producer_with(cluster, on_send=lambda record: seen.append(record))
    producer.send("orders", b"v", b"k", partition=0, headers=[("a", b"1")], timestamp_ms=5)
    assert seen == [ProducerRecord("orders", b"v", b"k", 0, [("a", b"1")], 5)]

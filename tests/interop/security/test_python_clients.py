"""kafka-python and confluent-kafka on secured embedded brokers: whole records in order, and renewed sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer, Producer

from kcli.broker.testing.embedded import EmbeddedBroker

USERS = {"alice": 'secret of alice, ="1"', "bob": "secret of bob"}
RECORDS = 3000
VALUE = b"x" * 900
SECURITIES = [
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ("SASL_SSL", "SCRAM-SHA-256"),
    ("SASL_SSL", "PLAIN"),
    ("SSL", None),
]


@pytest.fixture(params=SECURITIES, ids=[f"{security}-{mechanism}" for security, mechanism in SECURITIES])
def secured(request: pytest.FixtureRequest) -> Iterator[tuple[EmbeddedBroker, str | None]]:
    security, mechanism = request.param
    with EmbeddedBroker(security=security, users=USERS, group_initial_rebalance_delay_ms=0) as broker:
        broker.create_topic("orders", 1)
        yield broker, mechanism


def kafka_python(broker: EmbeddedBroker, mechanism: str | None, folder: Path) -> dict[str, Any]:
    """Return the settings of kafka-python, which takes files."""
    found = broker.client_properties("librdkafka", "alice", mechanism)
    settings: dict[str, Any] = {"bootstrap_servers": broker.address, "security_protocol": found["security.protocol"]}
    for name, setting in (("ca", "cafile"), ("certificate", "certfile"), ("key", "keyfile")):
        if pem := found.get(f"ssl.{name}.pem"):
            (folder / name).write_text(pem)
            settings[f"ssl_{setting}"] = str(folder / name)
    if mechanism:
        login = {"sasl_plain_username": found["sasl.username"], "sasl_plain_password": found["sasl.password"]}
        settings |= {"sasl_mechanism": mechanism, **login}
    return settings


def test_kafka_python_writes_and_reads(secured: tuple[EmbeddedBroker, str | None], tmp_path: Path) -> None:
    broker, mechanism = secured
    settings = kafka_python(broker, mechanism, tmp_path)
    with closing(kafka.KafkaProducer(**settings)) as producer:
        for number in range(RECORDS):
            producer.send("orders", VALUE, key=str(number).encode())
        producer.flush(30)
    group = {"group_id": "readers", "auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    with closing(kafka.KafkaConsumer("orders", **settings, **group)) as consumer:
        keys = []
        for record in consumer:
            assert record.value == VALUE
            keys.append(int(record.key))
            if len(keys) == RECORDS:
                break
    assert keys == list(range(RECORDS))


def test_confluent_kafka_writes_and_reads(secured: tuple[EmbeddedBroker, str | None]) -> None:
    broker, mechanism = secured
    settings = broker.client_properties("librdkafka", "bob", mechanism)
    producer = Producer(settings)
    for number in range(RECORDS):
        producer.produce("orders", VALUE, key=str(number))
    assert producer.flush(30) == 0
    with closing(Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["orders"])
        keys: list[int] = []
        deadline = time.monotonic() + 30
        while len(keys) < RECORDS:
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, 1):
                assert message.error() is None
                assert message.value() == VALUE
                keys.append(int(message.key()))
    assert keys == list(range(RECORDS))


def test_confluent_kafka_renews_its_session_on_the_same_connection() -> None:
    with EmbeddedBroker(security="SASL_PLAINTEXT", users=USERS, connections_max_reauth_ms=1500) as broker:
        broker.create_topic("orders")
        settings = broker.client_properties("librdkafka", "alice", "SCRAM-SHA-256")
        producer = Producer({**settings, "linger.ms": 0})
        deadline = time.monotonic() + 60
        connections: set[str] = set()
        handshakes = sent = 0
        while handshakes < 4:  # the first login, and three renewals
            assert time.monotonic() < deadline
            producer.produce("orders", str(sent).encode(), partition=0)
            sent += 1
            assert producer.flush(10) == 0
            produced = [one.connection for one in broker.requests if one.api == "Produce"]
            connections.update(produced)
            handshakes = sum(one.api == "SaslHandshake" and one.connection in connections for one in broker.requests)
            time.sleep(0.02)
        assert len(connections) == 1
        end = broker.call(lambda inner: [p.log.log_end_offset for p in inner.replica_manager.partitions.values()])
        assert end == [sent]

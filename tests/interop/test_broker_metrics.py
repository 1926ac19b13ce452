"""Metrics of the broker for a known load, beside the JMX of Apache Kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.real_kafka import SMALL_JVM, Kafka, KafkaNode, free_ports

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

COUNTED = re.compile(
    r"kafka\.server:type=BrokerTopicMetrics,name=\w+,topic=t|"
    r"kafka\.network:type=RequestMetrics,name=(RequestsPerSec|ErrorsPerSec),request=Produce,.*"
)
JMX_VALUE = re.compile(r"^(kafka\..*):Count=(\d+)$", re.MULTILINE)


def load(broker: Kafka) -> None:
    """Append five records, one by one, have two refused, and read the five."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 100_000, "client.id": "load", "retries": 0}
    )
    refused: list[str] = []

    def done(error: Any, message: Any) -> None:
        if error is not None:
            refused.append(error.name())

    too_late = int(time.time() * 1000) + 7_200_000
    records: list[dict[str, Any]] = [{"value": b"x" * 100} for _ in range(5)]
    for record in [*records, {"value": b"x" * 5000}, {"value": b"x", "timestamp": too_late}]:
        producer.produce("t", **record, partition=0, on_delivery=done)
        assert producer.flush(30) == 0
    assert refused == ["MSG_SIZE_TOO_LARGE", "INVALID_TIMESTAMP"]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "fetch.wait.max.ms": 5000})
    consumer.assign([TopicPartition("t", 0, 0)])
    assert len(consumer.consume(5, 30)) == 5
    consumer.close()


def counts(found: dict[str, float]) -> dict[str, float]:
    """Return the counts that depend on the load only: without zeros, and without fetches, which depend on time."""
    return {
        name: count
        for name, count in found.items()
        if count and COUNTED.fullmatch(name) and "TotalFetchRequests" not in name
    }


@pytest.fixture
def apache(kafka_jars: Path, tmp_path: Path) -> Iterator[tuple[KafkaNode, str]]:
    """A broker of Apache Kafka with JMX, and the URL of that."""
    [port] = free_ports(1)
    flags = [f"port={port}", f"rmi.port={port}", "authenticate=false", "ssl=false", "host=127.0.0.1"]
    jvm = (*SMALL_JVM, "-Djava.rmi.server.hostname=127.0.0.1", "-Dcom.sun.management.jmxremote")
    node = KafkaNode(
        tmp_path / "kafka", kafka_jars, jvm=(*jvm, *(f"-Dcom.sun.management.jmxremote.{flag}" for flag in flags))
    )
    try:
        node.start()
        yield node, f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    finally:
        node.kill()


def test_counts_are_those_of_apache_kafka(apache: tuple[KafkaNode, str]) -> None:
    node, url = apache
    node.create_topic("t", **{"max.message.bytes": 1000})
    load(node)
    printed = node.tool("JmxTool", "--jmx-url", url, "--one-time", "--report-format", "properties").stdout
    theirs = counts({name: float(count) for name, count in JMX_VALUE.findall(printed)})

    ours = EmbeddedBroker()
    with ours:
        ours.create_topic("t", configs={"max_message_bytes": 1000})
        load(Kafka(ours.address, None))
        own = counts({name: values["Count"] for name, values in ours.metrics().items() if "Count" in values})
    assert own == theirs
    assert own["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t"] == 5

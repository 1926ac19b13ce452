"""A broker with its controller in one process continues a directory of Apache Kafka, whose brokers join it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kcli
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.wire import Wire
from tests.limits import Limit
from tests.preloaded import KcliProcess
from tests.real_kafka import KafkaNode
from tests.real_kafka_cluster import BrokerOnly

pytestmark = pytest.mark.real_kafka

SETTINGS = {"broker.session.timeout.ms": "9000", "default.replication.factor": "1"}


class InTurn(KafkaNode):
    """Node 1, broker and controller, by Apache Kafka or by kcli: the same server.properties, directory and ports."""

    is_ours = False

    def launch(self) -> None:
        if not self.is_ours:
            super().launch()
            return
        command = ["broker", "run", "--properties", str(self.config_file)]
        with self.log_file.open("ab") as log, open(os.devnull) as nothing:
            self._process = KcliProcess(command, stdin=nothing.fileno(), stdout=log.fileno(), stderr=log.fileno())


def write(node: KafkaNode, topic: str, value: bytes) -> None:
    with kcli.Producer(bootstrap_servers=node.bootstrap_servers) as producer:
        producer.send(topic, value, partition=0)
        producer.flush()


def values(node: KafkaNode, topic: str) -> list[bytes | None]:
    with kcli.Consumer(bootstrap_servers=node.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        tp = kcli.TopicPartition(topic, 0)
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        found: list[bytes | None] = []
        limit = Limit(f"{end} records of {topic}")
        while consumer.position(tp) < end:
            limit.check()
            found += [record.value for records in consumer.poll(1000).values() for record in records]
        return found


def in_sync(node: KafkaNode, topic: str) -> list[int]:
    with Wire(node.bootstrap_servers) as wire:
        for one in wire.ask(MetadataRequest(topics=None), 12).topics:
            if one.name == topic:
                return sorted(one.partitions[0].isr_nodes)
    return []


def retention_of(node: KafkaNode, topic: str) -> str | None:
    asked = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=["retention.ms"])
    with Wire(node.bootstrap_servers) as wire:
        [row] = wire.ask(DescribeConfigsRequest(resources=[asked]), 4).results
    return row.configs[0].value


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met within 30 s"
        time.sleep(0.1)


def test_a_directory_of_apache_kafka_is_continued_and_joined_by_it(tmp_path: Path, kafka_jars: Path) -> None:
    node = InTurn(tmp_path / "node-1", kafka_jars, settings=SETTINGS)
    other = BrokerOnly(tmp_path / "node-2", kafka_jars, 2, f"127.0.0.1:{node.ports['CONTROLLER']}", SETTINGS)
    try:
        node.start()
        node.create_topic("before", retention_ms=123_456_789)
        write(node, "before", b"by Apache")
        assert node.stop() == 143

        node.is_ours = True
        node.start()
        assert "without a controller" not in node.log_file.read_text()
        assert retention_of(node, "before") == "123456789"
        write(node, "before", b"by kcli")
        assert values(node, "before") == [b"by Apache", b"by kcli"]

        other.format()
        other.launch()
        other.wait_until_ready()
        create = CreatableTopic(name="both", num_partitions=1, replication_factor=2)
        with Wire(other.bootstrap_servers) as wire:
            assert wire.ask(CreateTopicsRequest(topics=[create], timeout_ms=10_000), 7).topics[0].error_code == 0
        write(node, "both", b"copied")
        until(lambda: in_sync(node, "both") == [1, 2])
    finally:
        for one in (other, node):
            one.kill()

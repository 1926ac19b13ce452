"""Kafka's performance tools at full speed: no record is refused or lost. tests/bench uses their figures."""

from __future__ import annotations

import pytest

from tests.real_kafka import Kafka

COUNT = 100_000


@pytest.mark.parametrize("properties", [("acks=1",), ("acks=all", "compression.type=lz4", "linger.ms=5")])
def test_the_consumer_tool_reads_what_the_producer_tool_writes(properties: tuple[str, ...], any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=3)
    servers = ("--bootstrap-server", any_kafka.bootstrap_servers, "--topic", topic)
    settings = [word for given in properties for word in ("--command-property", given)]
    load = ("--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
    sent = any_kafka.tool("ProducerPerformance", *servers, *load, *settings)
    assert sent.stdout.splitlines()[-1].startswith(f"{COUNT} records sent")
    assert "Exception" not in sent.stdout + sent.stderr
    ends = any_kafka.tool("GetOffsetShell", *servers).stdout.splitlines()
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends) == COUNT
    read = any_kafka.tool("ConsumerPerformance", *servers, "--num-records", str(COUNT), "--timeout", "60000")
    heading, values = (line.split(", ") for line in read.stdout.splitlines()[-2:])
    assert int(dict(zip(heading, values, strict=True))["data.consumed.in.nMsg"]) == COUNT

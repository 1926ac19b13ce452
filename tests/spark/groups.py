"""Helpers for tests of commits to groups: records, streams, committed offsets, and the output of the CLI."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.cli.app import run
from kcli.cli.environment import Environment
from kcli.client.config import ConsumerConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata
from tests.real_kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fill(kafka: Kafka, topic: str, counts: list[int]) -> None:
    """Write more records to each partition."""
    producer = kafka.ordered_producer()
    for partition, count in enumerate(counts):
        for number in range(count):
            producer.produce(topic, value=str(number).encode(), partition=partition)
    assert producer.flush(30) == 0


def topic_with(kafka: Kafka, *counts: int) -> str:
    """Create a topic with these numbers of records in its partitions."""
    topic = kafka.new_topic(len(counts))
    fill(kafka, topic, list(counts))
    return topic


def source_options(kafka: Kafka, topic: str, **more: str) -> dict[str, str]:
    """Return options with which kcli and the connector read this topic from its start."""
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    } | more


def stream(
    spark: SparkSession, options: dict[str, str], checkpoint: Path, *, format: str = "kcli", every: str | None = None
) -> Any:
    """Start a query that discards its rows; it ends at the present log ends, or triggers periodically."""
    writer = spark.readStream.format(format).options(**options).load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)).start()


def committed(kafka: Kafka, group: str) -> dict[int, tuple[int, str]]:
    """Return offset and metadata by partition of a group that reads one topic."""
    with closing(connect(ConsumerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))) as client:
        found = committed_offsets(client, [group], client.clock.now_ms() + 30_000).values[group]
    return {tp.partition: (it.offset, it.metadata) for tp, it in found.items() if isinstance(it, OffsetAndMetadata)}


def wait_for_commit(kafka: Kafka, group: str, offsets: list[int], timeout_s: float = 20) -> None:
    """Wait until the group has committed these offsets."""
    deadline = time.monotonic() + timeout_s
    while (found := [offset for _, (offset, _) in sorted(committed(kafka, group).items())]) != offsets:
        assert time.monotonic() < deadline, f"group {group} has {found}, not {offsets}"
        time.sleep(0.05)


def described(kafka: Kafka, group: str) -> list[dict[str, Any]]:
    """Return the partitions in the output of `kcli group describe --output json`."""
    out, err = io.StringIO(), io.StringIO()
    env = Environment(io.StringIO(), out, err, {})
    command = ["group", "describe", group, "--bootstrap-server", kafka.bootstrap_servers, "--output", "json"]
    assert run(command, env) == 0, err.getvalue()
    [item] = json.loads(out.getvalue())["items"]
    found: list[dict[str, Any]] = item["partitions"]
    return found


@contextmanager
def member(kafka: Kafka, group: str, topic: str, client_id: str) -> Iterator[None]:
    """Run a live member of the group, with the reference client."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "client.id": client_id}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline, f"no assignment for {client_id}"
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()

"""Output of Kafka's own tools about topics and settings: identical for the embedded broker and Apache Kafka."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tests.real_kafka import Kafka, read_until_equal

pytestmark = pytest.mark.slow

NAME = "tools-tell.the_same"


def printed(kafka: Kafka, tool: str, *arguments: str) -> list[str]:
    """Return the output of a tool, without the parts that are specific to each broker."""
    done = kafka.tool(tool, "--bootstrap-server", kafka.bootstrap_servers, *arguments, check=False)
    text = re.sub(r"TopicId: \S+", "TopicId: ID", done.stdout).replace(kafka.bootstrap_servers, "ADDRESS")
    return [f"exit status {done.returncode}", *text.splitlines()]


def _comparing(
    ours: Kafka, apaches: Kafka, shown: Callable[..., list[str]] = printed
) -> tuple[Callable[..., str], Callable[..., str]]:
    """Return two functions that run a tool on both brokers, compare all of its output, and return it: for a change,
    which is made once, and for a reading, which is repeated until Apache's broker has applied the changes before it.
    """

    def changed(tool: str, *arguments: str) -> str:
        output = shown(ours, tool, *arguments)
        assert output == shown(apaches, tool, *arguments)
        return "\n".join(output)

    def read(tool: str, *arguments: str) -> str:
        output = shown(ours, tool, *arguments)
        assert output == read_until_equal(output, lambda: shown(apaches, tool, *arguments))
        return "\n".join(output)

    return changed, read


def test_kafka_tools_print_the_same_for_both_brokers(our_kafka: Kafka, real_kafka: Kafka) -> None:
    changed, read = _comparing(our_kafka, real_kafka)
    topic, on_topic = ("--topic", NAME), ("--entity-type", "topics", "--entity-name", NAME)
    assert "WARNING: Due to limitations in metric names" in changed(
        "TopicCommand", "--create", *topic, "--partitions", "2", "--config", "retention.ms=1000"
    )
    assert "PartitionCount: 2" in read("TopicCommand", "--describe", *topic)
    assert f"Topic '{NAME}' already exists." in changed("TopicCommand", "--create", *topic)
    changed("TopicCommand", "--alter", *topic, "--partitions", "3")
    changed("ConfigCommand", "--alter", *on_topic, "--add-config", "segment.ms=5000,cleanup.policy=compact")
    described = read("TopicCommand", "--describe", *topic)
    for setting in ("min.insync.replicas=1", "cleanup.policy=compact", "segment.ms=5000", "retention.ms=1000"):
        assert setting in described
    assert read("ConfigCommand", "--describe", *on_topic, "--all").count("synonyms=") == 33
    assert "min.insync.replicas=1" in read("ConfigCommand", "--describe", "--entity-type", "brokers")
    changed("ConfigCommand", "--alter", *on_topic, "--delete-config", "segment.ms")
    assert "segment.ms" not in read("ConfigCommand", "--describe", *on_topic)
    assert "exit status 1" in read("TopicCommand", "--describe", "--topic", "nope")
    changed("TopicCommand", "--delete", *topic)
    assert "exit status 1" in read("TopicCommand", "--describe", *topic)
    assert "exit status 1" in changed("TopicCommand", "--delete", *topic)


def test_kcat_prints_the_same_for_both_brokers(our_kafka: Kafka, real_kafka: Kafka, kcat: str) -> None:
    def listed(kafka: Kafka) -> str:
        name = kafka.new_topic(3)
        command = [kcat, "-b", kafka.bootstrap_servers, "-L", "-t", name]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        return text.replace(name, "NAME").replace(kafka.bootstrap_servers, "ADDRESS")

    ours = listed(our_kafka)
    assert ours == listed(real_kafka)
    assert "partition 2, leader 1, replicas: 1, isrs: 1" in ours


def test_kafka_tools_of_administrators_print_the_same_for_both_brokers(
    our_kafka: Kafka, real_kafka: Kafka, tmp_path: Path
) -> None:
    """Features, elections, reassignments, quotas and client metrics, as kafka-features.sh and the others show them."""
    topic, user, metrics = (f"tools-{kind}-{uuid4().hex[:6]}" for kind in ("topic", "user", "metrics"))
    moves = tmp_path / "moves.json"
    moves.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [1]}], "version": 1}))
    for kafka in (our_kafka, real_kafka):
        kafka.create_topic(topic)

    def shown(kafka: Kafka, tool: str, *arguments: str) -> list[str]:
        lines = [line.partition("Epoch: ")[0] for line in printed(kafka, tool, *arguments)]
        others = ("share.version",) if kafka is our_kafka else ("share.version", "streams.version")
        return [line for line in lines if not any(name in line for name in others)]

    changed, read = _comparing(our_kafka, real_kafka, shown)
    assert "FinalizedVersionLevel: 4.3-IV0" in read("FeatureCommand", "describe")
    upgrade = ("upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in changed("FeatureCommand", *upgrade)
    assert "already elected" in changed(
        "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0"
    )
    assert "is completed" in read(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--verify", "--reassignment-json-file", str(moves)
    )
    entity = ("--entity-type", "users", "--entity-name", user)
    changed("ConfigCommand", "--alter", *entity, "--add-config", "producer_byte_rate=1000000")
    assert "producer_byte_rate=1000000.0" in read("ConfigCommand", "--describe", *entity)
    named = ("--name", metrics)
    changed(
        "org.apache.kafka.tools.ClientMetricsCommand", "--alter", *named, "--metrics", "a.,b", "--match", "client_id=x"
    )
    assert "match=client_id=x" in read("org.apache.kafka.tools.ClientMetricsCommand", "--describe", *named)

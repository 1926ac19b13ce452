"""Kafka's tools for topics, settings, offsets and log directories."""

from __future__ import annotations

import json

import pytest

from tests.interop.shapes import produce, wait_until
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow


def tool(kafka: Kafka, name: str, *arguments: str, check: bool = True) -> str:
    done = kafka.tool(name, "--bootstrap-server", kafka.bootstrap_servers, *arguments, check=check)
    return done.stdout + done.stderr


def test_a_topic_is_created_described_changed_and_deleted(any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    shape = ("--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=600000")
    assert f"Created topic {name}" in tool(any_kafka, "TopicCommand", "--create", "--topic", name, *shape)
    assert "already exists" in tool(any_kafka, "TopicCommand", "--create", "--topic", name, check=False)
    any_kafka.wait_for_topic(name, 2)  # the tool asks the broker whether there is such a topic to alter
    tool(any_kafka, "TopicCommand", "--alter", "--topic", name, "--partitions", "3")
    wait_until(
        lambda: "PartitionCount: 3" in tool(any_kafka, "TopicCommand", "--describe", "--topic", name),
        "three partitions",
    )
    described = tool(any_kafka, "TopicCommand", "--describe", "--topic", name)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=600000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 3
    assert name in tool(any_kafka, "TopicCommand", "--list").splitlines()
    tool(any_kafka, "TopicCommand", "--delete", "--topic", name)
    wait_until(
        lambda: "does not exist" in tool(any_kafka, "TopicCommand", "--describe", "--topic", name, check=False),
        "the topic to be gone",
    )


def test_settings_of_topic_and_broker_are_described_and_changed(any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    on_topic = ("--entity-type", "topics", "--entity-name", name)
    tool(
        any_kafka,
        "ConfigCommand",
        "--alter",
        *on_topic,
        "--add-config",
        "retention.ms=99999,cleanup.policy=[compact,delete]",
    )

    def dynamic() -> str:
        return tool(any_kafka, "ConfigCommand", "--describe", *on_topic)

    wait_until(lambda: "cleanup.policy" in dynamic(), "the setting to be seen, or the tool refuses to delete it")
    tool(any_kafka, "ConfigCommand", "--alter", *on_topic, "--delete-config", "cleanup.policy")
    wait_until(
        lambda: "retention.ms" in (seen := dynamic()) and "cleanup.policy" not in seen, "the settings to be seen"
    )
    assert "retention.ms=99999 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=99999" in dynamic()
    everything = tool(any_kafka, "ConfigCommand", "--describe", *on_topic, "--all")
    assert (
        "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in everything
    )
    refused = tool(any_kafka, "ConfigCommand", "--alter", *on_topic, "--add-config", "retention.ms=many", check=False)
    assert "InvalidConfigurationException" in refused
    broker = tool(any_kafka, "ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "num.partitions=4 sensitive=false" in broker


def test_offsets_are_listed_records_deleted_and_sizes_shown(any_kafka: Kafka, tmp_path: object) -> None:
    name = any_kafka.new_topic(partitions=2)
    produce(any_kafka, name, [b"x" * 100] * 50, partitioner="consistent")
    ends = dict(line.rsplit(":", 1) for line in tool(any_kafka, "GetOffsetShell", "--topic", name).splitlines())
    assert sum(map(int, ends.values())) == 50
    full = next(int(where.split(":")[1]) for where, end in ends.items() if int(end))
    end = int(ends[f"{name}:{full}"])
    plan = f"{tmp_path}/plan.json"
    with open(plan, "w") as file:
        json.dump({"version": 1, "partitions": [{"topic": name, "partition": full, "offset": end - 1}]}, file)
    assert f"low_watermark: {end - 1}" in tool(any_kafka, "DeleteRecordsCommand", "--offset-json-file", plan)
    earliest = tool(any_kafka, "GetOffsetShell", "--topic", name, "--time", "earliest")
    assert f"{name}:{full}:{end - 1}" in earliest.splitlines()
    result = tool(any_kafka, "LogDirsCommand", "--describe", "--topic-list", name)
    [broker] = json.loads(next(line for line in result.splitlines() if line.startswith("{")))["brokers"]
    sizes = {one["partition"]: one["size"] for one in broker["logDirs"][0]["partitions"]}
    assert 100 * end < sizes[f"{name}-{full}"] < 200 * end


def test_the_cluster_and_its_api_versions_are_described(any_kafka: Kafka) -> None:
    at = ("--bootstrap-server", any_kafka.bootstrap_servers)
    assert "Cluster ID: " in any_kafka.tool("ClusterTool", "cluster-id", *at).stdout
    spoken = tool(any_kafka, "BrokerApiVersionsCommand")
    assert any_kafka.bootstrap_servers in spoken
    for api in ("Produce(0)", "Fetch(1)", "JoinGroup(11)", "ApiVersions(18)", "DescribeTopicPartitions(75)"):
        [line] = [line for line in spoken.splitlines() if line.strip().startswith(f"{api}: ")]
        assert "usable" in line

"""`kcli topic` and `kcli cluster` on both brokers, checked with its own tools and with librdkafka."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.cli.fake import Result, run_kcli
from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka


def kcli(kafka: Kafka, *argv: str, **environment: Any) -> Result:
    return run_kcli(*argv, "-b", kafka.bootstrap_servers, **environment)


def items(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result.err
    return json.loads(result.out)["items"]  # type: ignore[no-any-return]


def describe_with_kafkas_own_tool(kafka: Kafka, topic: str) -> str:
    tool = kafka.tool("TopicCommand", "--bootstrap-server", kafka.bootstrap_servers, "--describe", "--topic", topic)
    return tool.stdout


def test_a_topic_is_created_as_asked(any_kafka: Kafka) -> None:
    name = any_kafka.new_name("made")
    asked = ["-p", "3", "-r", "1", "-c", "cleanup.policy=compact", "-c", "retention.ms=600000"]
    [made] = items(kcli(any_kafka, "topic", "create", name, *asked, "--output", "json"))
    assert (made["status"], made["partitions"], made["replication"]) == ("created", 3, 1)
    any_kafka.wait_for_topic(name, 3)

    result = describe_with_kafkas_own_tool(any_kafka, name)
    assert f"TopicId: {made['topic_id']}" in result
    assert "PartitionCount: 3" in result
    assert "cleanup.policy=compact" in result
    assert "retention.ms=600000" in result


def test_a_topic_that_is_there_is_a_failure_unless_told_otherwise(any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    again = kcli(any_kafka, "topic", "create", name)
    assert again.status == 1
    assert "TOPIC_ALREADY_EXISTS" in again.text
    assert kcli(any_kafka, "topic", "create", name, "--if-not-exists").status == 0


def test_a_dry_run_creates_nothing(any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    assert kcli(any_kafka, "topic", "create", name, "--dry-run").status == 0
    assert kcli(any_kafka, "topic", "create", name, "-r", "99", "--dry-run").status == 1
    assert name not in kcli(any_kafka, "topic", "list").text.splitlines()


def test_topics_are_listed_and_described_as_kafka_has_them(any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(2, cleanup_policy="compact")
    assert name in kcli(any_kafka, "topic", "list").text.splitlines()
    [listed] = [i for i in items(kcli(any_kafka, "topic", "list", "--output", "json")) if i["topic"] == name]
    assert (listed["partitions"], listed["replication"], listed["internal"]) == (2, 1, False)
    assert f"TopicId: {listed['topic_id']}" in describe_with_kafkas_own_tool(any_kafka, name)

    [described] = items(kcli(any_kafka, "topic", "describe", name, "--configs", "--output", "json"))
    assert [(p["partition"], p["leader"], p["replicas"], p["isr"]) for p in described["partitions"]] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert {c["name"]: c["value"] for c in described["configs"]} == {"cleanup.policy": "compact"}
    [whole] = items(kcli(any_kafka, "topic", "describe", name, "--all-configs", "--output", "json"))
    assert {"retention.ms", "segment.bytes"} < {c["name"] for c in whole["configs"]}


def test_offsets_count_what_was_produced(any_kafka: Kafka, kcat: str) -> None:
    name = any_kafka.new_topic(2)
    to_partition_1 = [kcat, "-P", "-b", any_kafka.bootstrap_servers, "-t", name, "-p", "1"]
    subprocess.run(to_partition_1, input=b"a\nb\nc\n", check=True, timeout=120)
    [described] = items(kcli(any_kafka, "topic", "describe", name, "--offsets", "--output", "json"))
    assert [(p["start_offset"], p["end_offset"], p["records"]) for p in described["partitions"]] == [
        (0, 0, 0),
        (0, 3, 3),
    ]


def test_a_mistyped_topic_is_status_3_and_never_created(any_kafka: Kafka) -> None:
    name = any_kafka.new_name("mistyped")
    result = kcli(any_kafka, "topic", "describe", name)
    assert result.status == 3
    assert "UNKNOWN_TOPIC_OR_PARTITION" in result.err
    assert name not in kcli(any_kafka, "topic", "list").text.splitlines()


def test_a_topic_is_deleted_with_execute(any_kafka: Kafka, kcat: str) -> None:
    name = any_kafka.new_topic(3)
    subprocess.run(
        [kcat, "-P", "-b", any_kafka.bootstrap_servers, "-t", name], input=b"a\nb\n", check=True, timeout=120
    )
    planned = kcli(any_kafka, "topic", "delete", name, "--output", "json")
    assert planned.status == 0
    assert [(it["topic"], it["status"], it["partitions"], it["records"]) for it in items(planned)] == [
        (name, "would-be-deleted", 3, 2)
    ]
    assert name in kcli(any_kafka, "topic", "list").text.splitlines()

    deleted = kcli(any_kafka, "topic", "delete", name, "--execute")
    assert deleted.status == 0
    wait_until(lambda: name not in kcli(any_kafka, "topic", "list").text.splitlines(), "the topic to be gone")
    assert kcli(any_kafka, "topic", "delete", name, "--execute").status == 3
    assert kcli(any_kafka, "topic", "delete", name, "--yes", "--if-exists").status == 0


def test_the_cluster_describes_itself(any_kafka: Kafka) -> None:
    [cluster] = items(kcli(any_kafka, "cluster", "describe", "--output", "json"))
    host, port = any_kafka.bootstrap_servers.split(":")
    [broker] = cluster["brokers"]
    assert (broker["node"], broker["host"], broker["port"], broker["controller"]) == (1, host, int(port), True)
    tool = any_kafka.tool("ClusterTool", "cluster-id", "--bootstrap-server", any_kafka.bootstrap_servers)
    assert cluster["cluster_id"] in tool.stdout


def test_api_versions_are_those_that_kafkas_own_tool_tells(any_kafka: Kafka) -> None:
    [node] = items(kcli(any_kafka, "cluster", "api-versions", "--output", "json"))
    result = any_kafka.tool(
        "org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", any_kafka.bootstrap_servers
    ).stdout
    for api in node["apis"]:
        if api["broker"] is not None:
            lowest, highest = api["broker"]["min"], api["broker"]["max"]
            versions = f"{lowest} to {highest}" if lowest != highest else f"{lowest}"
            assert f"{api['api']}({api['key']}): {versions} " in result
            assert api["kcli"] is None or api["used"] == min(api["kcli"]["max"], highest)


def test_the_entry_point_works_as_a_process(any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    command = [sys.executable, "-m", "kcli", "topic", "list", "-X", f"bootstrap.servers={any_kafka.bootstrap_servers}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert name in done.stdout.splitlines()

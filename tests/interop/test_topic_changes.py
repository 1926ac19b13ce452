"""`kcli topic alter`, `undo` and `truncate` on Apache's broker and ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.cli.fake import Result, run_kcli
from tests.interop.groups.explaining import admin as admin_of
from tests.interop.groups.explaining import commit, fill
from tests.real_kafka import Kafka, read_until_equal


def run(kafka: Kafka, folder: Path, *argv: str) -> Result:
    environ = {"XDG_STATE_HOME": str(folder)}
    return run_kcli(*argv, "-b", kafka.bootstrap_servers, "--output", "json", environ=environ)


def items(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.text)["items"]
    return found


def settings(kafka: Kafka, topic: str) -> dict[str, str]:
    """Return the settings of the topic itself, as another client reads them."""
    resource, admin = ConfigResource(ResourceType.TOPIC, topic), admin_of(kafka)
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: it.value for name, it in found.items() if it.source == 1}


def test_partitions_and_settings_are_altered_and_undone(any_kafka: Kafka, tmp_path: Path) -> None:
    topic = any_kafka.new_topic(retention_ms="7000000", max_message_bytes="5000000")
    change = ["topic", "alter", topic, "-p", "3", "-c", "retention.ms=9000000", "-c", "cleanup.policy=compact,delete"]
    change += ["--delete-config", "max.message.bytes", "--delete-config", "flush.ms"]

    planned = {it["name"]: (it["status"], it["old"], it["new"]) for it in items(run(any_kafka, tmp_path, *change))}

    assert planned == {
        "partitions": ("would-be-altered", "1", "3"),
        "retention.ms": ("would-be-altered", "7000000", "9000000"),
        "cleanup.policy": ("would-be-altered", "delete", "compact,delete"),
        "max.message.bytes": ("would-be-altered", "5000000", "1048588"),
        "flush.ms": ("unchanged", "9223372036854775807", "9223372036854775807"),
    }
    assert settings(any_kafka, topic) == {"retention.ms": "7000000", "max.message.bytes": "5000000"}

    done = run(any_kafka, tmp_path, *change, "--execute")

    assert {it["status"] for it in items(done)} == {"altered", "unchanged"}
    changed = {"retention.ms": "9000000", "cleanup.policy": "compact,delete"}
    assert read_until_equal(changed, lambda: settings(any_kafka, topic)) == changed
    client = admin_of(any_kafka)
    assert read_until_equal(3, lambda: len(client.list_topics(topic, 30).topics[topic].partitions)) == 3

    undo = done.err.rpartition("kcli ")[2].split()
    undone = {it["name"]: (it["old"], it["new"]) for it in items(run(any_kafka, tmp_path, *undo))}

    assert undone == {
        "retention.ms": ("9000000", "7000000"),
        "cleanup.policy": ("compact,delete", "delete"),
        "max.message.bytes": ("1048588", "5000000"),
    }
    before = {"retention.ms": "7000000", "max.message.bytes": "5000000"}
    assert read_until_equal(before, lambda: settings(any_kafka, topic)) == before


def test_a_deleted_retention_is_inherited_in_its_own_unit(any_kafka: Kafka, tmp_path: Path) -> None:
    """Brokers have log.retention.hours for the setting retention.ms of topics."""
    topic = any_kafka.new_topic(retention_ms="7000000")
    (row,) = items(run(any_kafka, tmp_path, "topic", "alter", topic, "--delete-config", "retention.ms"))
    (done,) = items(run(any_kafka, tmp_path, "topic", "alter", topic, "--delete-config", "retention.ms", "--execute"))
    read_until_equal({}, lambda: settings(any_kafka, topic))
    (after,) = items(run(any_kafka, tmp_path, "topic", "alter", topic, "--delete-config", "retention.ms"))
    assert done["status"] == "altered"
    assert row["new"] in (None, after["old"])
    assert after["old"] == "604800000"


@pytest.mark.parametrize("change", [("-c", "retention.ms=soon"), ("-c", "no.such.setting=1"), ("-p", "1")])
def test_what_the_broker_refuses_is_refused_in_the_plan(
    any_kafka: Kafka, tmp_path: Path, change: tuple[str, str]
) -> None:
    topic = any_kafka.new_topic(2)
    result = run(any_kafka, tmp_path, "topic", "alter", topic, "-c", "flush.ms=9", *change, "--execute")
    statuses = {it["name"]: it["status"] for it in json.loads(result.text)["items"]}
    name = "partitions" if change[0] == "-p" else change[1].partition("=")[0]
    assert statuses == {"flush.ms": "not-altered", name: "failed"}
    assert result.status in (1, 4)
    assert settings(any_kafka, topic) == {}


def test_records_are_deleted_and_their_groups_are_named(any_kafka: Kafka, tmp_path: Path) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 10, 1: 10})
    commit(any_kafka, group, topic, {0: 2, 1: 9})
    change = ("topic", "truncate", topic, "--before", "-3")

    planned = items(run(any_kafka, tmp_path, *change))
    assert [(it["start_offset"], it["new_start"], it["records"], it["unread_by"]) for it in planned] == [
        (0, 7, 7, {group: 5}),
        (0, 7, 7, {}),
    ]
    done = items(run(any_kafka, tmp_path, *change, "--execute"))
    assert [it["status"] for it in done] == ["truncated", "truncated"]

    consumer = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": "w"})
    bounds = [consumer.get_watermark_offsets(At(topic, number), timeout=30) for number in (0, 1)]
    consumer.close()
    assert bounds == [(7, 10), (7, 10)]

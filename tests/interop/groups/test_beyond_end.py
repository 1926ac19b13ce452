"""Committed offsets after the log end: the lag is unknown in every report. Apache's tool shows a negative lag there."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from tests.cli.fake import Result, run_kcli
from tests.interop.groups.explaining import commit, fill
from tests.real_kafka import Kafka


def kcli(kafka: Kafka, *argv: str) -> Result:
    return run_kcli(*argv, "-b", kafka.bootstrap_servers)


@pytest.fixture(scope="module")
def group(any_kafka: Kafka) -> str:
    """A group with 1000 committed of 10 in partition 0, and 4 of 10 in partition 1."""
    topic, name = any_kafka.new_topic(2), any_kafka.new_name("beyond")
    fill(any_kafka, topic, {0: 10, 1: 10})
    commit(any_kafka, name, topic, {0: 1000, 1: 4})
    return name


def test_the_lag_is_unknown_and_a_note_has_the_reason(any_kafka: Kafka, group: str) -> None:
    shown = kcli(any_kafka, "group", "lag", group, "-O", "json")
    (item,) = json.loads(shown.text)["items"]
    assert (item["lag"], item["unknown"], item["beyond_end"]) == (6, 1, 1)
    assert f"kcli: note: {group}: the committed offset of 1 partition is after the log end" in shown.err

    described = kcli(any_kafka, "group", "describe", group, "-O", "json")
    first, second = json.loads(described.text)["items"][0]["partitions"]
    assert (first["committed"], first["end"], first["lag"], first["time_lag_ms"]) == (1000, 10, None, None)
    assert first["time_lag_note"] == "beyond end"
    assert second["lag"] == 6
    table = kcli(any_kafka, "group", "describe", group)
    assert "; unknown in 1" in table.err
    assert "TIME-LAG - in 1 row: the committed offset is after the log end, so the lag is unknown" in table.err


def test_compat_has_the_negative_lag_of_apaches_tool(any_kafka: Kafka, group: str) -> None:
    servers = ("--bootstrap-server", any_kafka.bootstrap_servers)
    shown = run_kcli("compat", "consumer-groups", *servers, "--describe", "--group", group)
    assert [line.split()[5] for line in shown.text.splitlines() if line.startswith(group)] == ["-990", "6"]


@pytest.mark.parametrize(
    ("condition", "status"),
    [("lag>100", 1), ("age>1h", 1), ("lag>5", 6), ("unknown>0", 6), ("beyond-end>0", 6), ("beyond-end>1", 0)],
)
def test_a_condition_on_the_lag_is_not_known_to_be_false(
    any_kafka: Kafka, group: str, condition: str, status: int
) -> None:
    shown = kcli(any_kafka, "group", "lag", group, "--fail-if", condition)
    assert shown.status == status, shown.err
    if status == 1:
        assert f"unknown whether {condition}" in shown.err
        assert "the committed offset of 1 partition is after the log end" in shown.err


def test_a_wait_for_the_end_of_the_lag_does_not_end(any_kafka: Kafka) -> None:
    topic, name = any_kafka.new_topic(), any_kafka.new_name("beyond")
    fill(any_kafka, topic, {0: 10})
    commit(any_kafka, name, topic, {0: 1000})
    waited = kcli(any_kafka, "group", "wait", name, "--until", "lag<=0", "--timeout", "2", "-O", "json")
    (item,) = json.loads(waited.text)["items"]
    assert (waited.status, item["reached"], item["lag"]) == (5, False, None)
    assert "lag is 0 or more; the committed offset of 1 partition is after the log end" in waited.err


def test_openmetrics_has_a_gauge_and_no_lag(any_kafka: Kafka, group: str) -> None:
    lines = kcli(any_kafka, "group", "lag", group, "-O", "openmetrics", "--cluster-name", "c").text.splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    labels = f'{{cluster_name="c",group="{group}"}}'
    assert float(samples[f"kcli_group_beyond_end_partitions{labels}"]) == 1
    assert float(samples[f"kcli_group_unknown_partitions{labels}"]) == 1
    assert [key for key in samples if key.startswith("kafka_consumergroup_group_lag{") and 'partition="0"' in key] == []


def test_a_commit_between_the_last_stable_offset_and_the_log_end_has_no_lag(any_kafka: Kafka) -> None:
    topic, name = any_kafka.new_topic(), any_kafka.new_name("stable")
    fill(any_kafka, topic, {0: 10})
    producer = Producer({"bootstrap.servers": any_kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    commit(any_kafka, name, topic, {0: 11})

    shown = kcli(any_kafka, "group", "lag", name, "--isolation-level", "read_committed", "-O", "json")
    (item,) = json.loads(shown.text)["items"]
    assert (item["lag"], item["unknown"], item["beyond_end"]) == (0, 0, 0)
    commit(any_kafka, name, topic, {0: 12})
    shown = kcli(any_kafka, "group", "lag", name, "--isolation-level", "read_committed", "-O", "json")
    (item,) = json.loads(shown.text)["items"]
    assert (item["lag"], item["unknown"], item["beyond_end"]) == (None, 1, 1)
    producer.abort_transaction(30)

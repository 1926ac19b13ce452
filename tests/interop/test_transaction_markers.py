"""`kcli consume --control` on real Kafka: the markers that a foreign transactional producer caused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cli.fake import run_kcli
from tests.interop.shapes import transactional, wait_until_decided
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

NOW_MS = int(time.time() * 1000)


def markers(kafka: Kafka, topic: str, *options: str) -> list[dict[str, Any]]:
    argv = (
        "consume",
        topic,
        "-b",
        kafka.bootstrap_servers,
        "-o",
        "start",
        "-e",
        "--control",
        "--output",
        "jsonl",
        "-q",
    )
    run = run_kcli(*argv, *options)
    assert (run.status, run.err) == (0, "")
    return [json.loads(line) for line in run.text.splitlines()]


def test_each_marker_says_how_a_transaction_ended_and_whose_it_was(real_kafka: Kafka) -> None:
    topic = real_kafka.new_topic(2)
    producer = transactional(real_kafka)
    for commit in (True, False, True):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"a record", partition=partition)
        assert producer.flush(30) == 0  # an abort drops records that were not sent
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    second = transactional(real_kafka)
    second.begin_transaction()
    second.produce(topic, b"another", partition=1)
    second.commit_transaction(30)
    wait_until_decided(real_kafka, topic, 6, 8)
    found = markers(real_kafka, topic, "--merge")
    by_partition = [[it for it in found if it["partition"] == partition] for partition in range(2)]
    assert [[it["key"] for it in its] for its in by_partition] == [
        ["commit", "abort", "commit"],
        ["commit", "abort", "commit", "commit"],
    ]
    assert [it["offset"] for it in by_partition[1]] == [1, 3, 5, 7]
    says = [json.loads(it["value"]) for it in by_partition[1]]
    assert [it["type"] for it in says] == [it["key"] for it in by_partition[1]]
    assert len({it["producer_id"] for it in says[:3]}) == 1
    assert says[3]["producer_id"] not in (-1, says[0]["producer_id"])
    # With transactions of version 2, each transaction raises the epoch of its producer (KIP-890).
    epochs = [it["producer_epoch"] for it in says[:3]]
    assert epochs == sorted(epochs)
    assert epochs[0] >= 0
    assert all(it["coordinator_epoch"] >= 0 for it in says)
    assert [it["timestamp"] for it in found] == sorted(it["timestamp"] for it in found)
    assert {it["timestamp_type"] for it in found} == {"create"}
    assert len(markers(real_kafka, topic, "--key", "abort", "-p", "1")) == 1
    committed = markers(real_kafka, topic, "--isolation-level", "read_committed")
    assert sorted(map(json.dumps, committed)) == sorted(map(json.dumps, found))


def test_the_last_records_are_counted_without_markers_and_aborted_records(real_kafka: Kafka) -> None:
    topic = real_kafka.new_topic(2)
    producer = transactional(real_kafka)
    for number in range(8):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=NOW_MS + number)
        assert producer.flush(30) == 0
        (producer.commit_transaction if number % 4 < 2 else producer.abort_transaction)(30)
    wait_until_decided(real_kafka, topic, 8, 8)
    argv = ("consume", topic, "-b", real_kafka.bootstrap_servers, "-e", "-q", "-f", "%s ")
    assert run_kcli(*argv, "--tail", "3").out == b"5 6 7 "
    assert run_kcli(*argv, "--tail", "3", "--isolation-level", "read_committed").out == b"1 4 5 "
    assert run_kcli(*argv, "--tail", "99", "--isolation-level", "read_committed").out == b"0 1 4 5 "
    assert run_kcli(*argv, "--tail", "3", "-p", "1").out == b"3 5 7 "
    assert len(run_kcli(*argv, "--tail", "3", "--control").out.split(b"} ")) == 4

"""`kcli group explain` is right about the logs of a group: transactions and leaders, on Apache's brokers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cli.fake import run_kcli
from tests.interop.groups.explaining import admin, commit, explained, fill, write_unknown_transaction
from tests.interop.shapes import wait_until_decided
from tests.real_kafka import Kafka
from tests.real_kafka_cluster import KafkaCluster

pytestmark = pytest.mark.slow


def test_a_transaction_that_holds_the_last_stable_offset_is_found(real_kafka: Kafka) -> None:
    topic, group, name = real_kafka.new_topic(), real_kafka.new_name("g"), real_kafka.new_name("tx")
    fill(real_kafka, topic, {0: 4})
    producer = Producer({"bootstrap.servers": real_kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    before = time.monotonic()
    producer.begin_transaction()
    producer.produce(topic, b"pinned", partition=0)
    producer.flush(30)
    begun = time.monotonic()
    fill(real_kafka, topic, {0: 3})
    commit(real_kafka, group, topic, {0: 4})

    asked = time.monotonic()
    found = explained(real_kafka, group)["open-transaction"]
    answered = time.monotonic()

    assert found["severity"] == "problem"
    assert f"transactional id {name}) has been open for" in found["evidence"]
    assert (
        "It starts at offset 4; the last stable offset stays at 4, 4 offsets before the end of the log."
        in found["evidence"]
    )
    left = re.search(r"aborts the transaction in (\d+)s\.", found["advice"])
    assert left is not None, found["advice"]
    assert 59 - (answered - before) <= int(left[1]) <= 60 - (asked - begun)  # whole seconds of the producer's 60
    told = producers_told(real_kafka, topic)
    assert f"producer {told['ProducerId']} (epoch {told['ProducerEpoch']}," in found["evidence"]

    producer.commit_transaction(30)
    wait_until_decided(real_kafka, topic, 9)
    assert "open-transaction" not in explained(real_kafka, group)


def producers_told(kafka: Kafka, topic: str) -> dict[str, str]:
    """Return the one producer with an open transaction, as Apache's tool reports it."""
    arguments = (
        "--bootstrap-server",
        kafka.bootstrap_servers,
        "describe-producers",
        "--topic",
        topic,
        "--partition",
        "0",
    )
    lines = kafka.tool("TransactionsCommand", *arguments).stdout.splitlines()
    rows = [dict(zip(lines[0].split(), line.split(), strict=True)) for line in lines[1:] if line.strip()]
    (found,) = [row for row in rows if row["CurrentTransactionStartOffset"] == "4"]
    return found


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Two nodes that do not ask the coordinator whether a transaction is open, as all brokers before 3.6."""
    careless = {"transaction.partition.verification.enable": "false"}
    kafka = KafkaCluster(tmp_path_factory.mktemp("cluster"), kafka_jars, settings=careless)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()


@pytest.mark.real_kafka
def test_the_advice_for_a_hanging_transaction_ends_it(cluster: KafkaCluster) -> None:
    topic, group = cluster.create_placed_topic("payments", [[1]]), "accounting"
    fill(cluster, topic, {0: 2})
    producer_id = write_unknown_transaction(cluster, topic)
    commit(cluster, group, topic, {0: 2})

    found = explained(cluster, group)["open-transaction"]

    assert found["severity"] == "problem"
    assert f"producer {producer_id} (epoch 0) has been open for at least" in found["evidence"]
    advised = re.search(r"kcli (transaction abort .*)\.$", found["advice"])
    assert advised is not None
    assert "No coordinator knows this transaction" in found["advice"]
    where = ("-b", cluster.bootstrap_servers)
    hanging = run_kcli("transaction", "hanging", *where, "-O", "jsonl")
    assert (hanging.status, json.loads(hanging.out)["producer_id"]) == (6, producer_id)
    assert run_kcli(*advised[1].split(), *where).status == 0
    assert run_kcli("transaction", "hanging", *where).status == 0
    assert "open-transaction" not in explained(cluster, group)


@pytest.mark.real_kafka
def test_a_partition_without_a_leader_is_found(cluster: KafkaCluster) -> None:
    topic, group = cluster.create_placed_topic("orders", [[1], [2]]), "billing"
    fill(cluster, topic, {0: 3, 1: 3})
    commit(cluster, group, topic, {0: 3, 1: 1})
    assert set(explained(cluster, group)) == {"no-members"}

    cluster.nodes[2].kill()
    deadline = time.monotonic() + 30
    while cluster_leader(cluster, topic, 1) != -1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = explained(cluster, group)

    assert found["leaderless"]["subject"] == "orders-1"
    assert "Replicas: broker 2;" in found["leaderless"]["evidence"]
    assert "offline: broker 2." in found["leaderless"]["evidence"]
    assert "unreadable" not in found


def cluster_leader(kafka: Kafka, topic: str, partition: int) -> int:
    metadata = admin(kafka).list_topics(topic, timeout=10)
    leader: int = metadata.topics[topic].partitions[partition].leader
    return leader

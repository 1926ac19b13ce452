"""`kcli cluster check` on Apache's brokers: nothing on a healthy cluster of three nodes, and each staged fault."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kcli.admin.health.partition_faults import FAULTS
from tests.cli.fake import run_kcli
from tests.interop.groups.explaining import write_unknown_transaction
from tests.real_kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

SETTINGS = {
    "default.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
    "transaction.partition.verification.enable": "false",  # otherwise brokers refuse a hanging transaction
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
}
UNEVEN_MB = 24


@pytest.fixture
def cluster(kafka_jars: Path, tmp_path: Path) -> Iterator[KafkaCluster]:
    kafka = KafkaCluster(tmp_path / "cluster", kafka_jars, 3, SETTINGS, [[1, 2, 3]] * 2)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()


def check(kafka: KafkaCluster, *argv: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the status and the findings. The space on the disk of this machine is not a fault of the cluster."""
    result = run_kcli(
        *("cluster", "check", "-b", kafka.bootstrap_servers, "--disk-floor", "8", "--output", "json"),
        *("--ignore", "disk-nearly-full", *argv),
    )
    return result.status, json.loads(result.text)["items"]


def described_faults(kafka: KafkaCluster) -> dict[str, list[str]]:
    """Return the partitions by fault, as `topic describe --unhealthy` shows them; `cluster describe` agrees."""
    result = run_kcli("topic", "describe", "--unhealthy", "-b", kafka.bootstrap_servers, "-O", "json")
    assert result.status == 0
    found: dict[str, list[str]] = {fault: [] for fault in FAULTS}
    for topic in json.loads(result.text)["items"]:
        for partition in topic["partitions"]:
            for fault in partition["faults"]:
                found[fault].append(f"{topic['topic']}-{partition['partition']}")
    result = run_kcli("cluster", "describe", "-b", kafka.bootstrap_servers, "-O", "json")
    assert result.status == 0
    [cluster] = json.loads(result.text)["items"]
    assert {it["fault"]: it["names"] for it in cluster["faults"]} == {
        name: some for name, some in found.items() if some
    }
    return found


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def admin_of(kafka: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def isr(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)


def is_in_sync(admin: AdminClient, broker: int) -> bool:
    """Return whether a broker is in sync in all of its partitions that have a leader."""
    partitions = [it for topic in admin.list_topics(timeout=10).topics.values() for it in topic.partitions.values()]
    return all(broker in it.isrs for it in partitions if broker in it.replicas and it.leader >= 0)


def test_each_staged_fault_is_found_and_none_on_a_healthy_cluster(cluster: KafkaCluster) -> None:
    admin = admin_of(cluster)
    cluster.create_placed_topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "tx", "acks": "all"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(30):
        producer.produce("orders", b"x" * 100, partition=number % 3)
    producer.commit_transaction(30)
    wait_until(lambda: all(is_in_sync(admin, broker) for broker in (1, 2, 3)), "a topic is not replicated")
    assert check(cluster) == (0, [])
    assert not any(described_faults(cluster).values())

    # Faults that need no broker to be down.
    cluster.create_placed_topic("alone", [[3]])
    cluster.create_placed_topic("careless", [[1, 2, 3]], unclean_leader_election_enable="true")
    cluster.create_placed_topic("strict", [[1, 3]], min_insync_replicas="2")
    cluster.create_placed_topic("stuck", [[3, 2]])
    cluster.create_placed_topic("payments", [[1, 2]])
    cluster.create_placed_topic("large", [[1]])
    write_unknown_transaction(cluster, "payments")
    filler = Producer({"bootstrap.servers": cluster.nodes[1].bootstrap_servers, "acks": 1})
    for _ in range(UNEVEN_MB):
        filler.produce("large", bytes(900_000))
    assert filler.flush(60) == 0
    entry = ConfigEntry("message.max.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "2", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)

    # Broker 2 leaves and returns with other API versions; meanwhile the only replica that is in sync is killed.
    second = cluster.nodes[2]
    second.stop()
    wait_until(lambda: isr(admin, "stuck") == [3], "broker 2 is still in sync")
    cluster.nodes[3].kill()
    with second.config_file.open("a") as settings:
        settings.write("unstable.api.versions.enable=true\n")
    second.launch()
    second.wait_until_ready()
    wait_until(lambda: is_in_sync(admin, 2), "broker 2 is not in sync")
    wait_until(lambda: admin.list_topics("stuck", timeout=10).topics["stuck"].partitions[0].leader == -1, "a leader")

    status, found = check(cluster, "--fail-on", "problem")
    assert status == 6
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for finding in found:
        by_kind.setdefault(finding["finding"], []).append(finding)
    subjects = {kind: [finding["subject"] for finding in findings] for kind, findings in by_kind.items()}
    assert subjects == {
        "broker-offline": ["broker 3"],
        "offline": ["alone-0"],
        "leaderless": ["stuck-0"],
        "under-min-isr": ["strict-0"],
        "under-replicated": ["broker 3"],
        "not-preferred-leader": ["broker 2"],
        "hanging-transaction": ["payments-0"],
        "uneven-disk": ["broker 1"],
        "unlike-versions": subjects["unlike-versions"],
        "unlike-settings": ["message.max.bytes"],
        "single-replica": ["topics alone, large"],
        "unclean-election": ["topic careless"],
    }
    assert subjects["unlike-versions"] in (["broker 1"], ["broker 2"])  # one of each: there is no majority
    (leader,) = by_kind["not-preferred-leader"]
    assert "that broker 1 leads: " in leader["evidence"]
    assert "orders-1" in leader["evidence"]
    (uneven,) = by_kind["uneven-disk"]
    assert "broker 1: 2" in uneven["evidence"]
    (hanging,) = by_kind["hanging-transaction"]
    assert "kcli transaction abort --topic payments --partition 0 --start-offset 0 --execute." in hanging["advice"]
    described = described_faults(cluster)
    assert {name: described[name] for name in FAULTS[:3]} == {
        "offline": ["alone-0"],
        "leaderless": ["stuck-0"],
        "under-min-isr": ["strict-0"],
    }
    assert {"careless-0", "orders-0", "orders-1", "orders-2", "strict-0"} <= set(described["under-replicated"])
    assert not {"alone-0", "stuck-0", "payments-0", "large-0"} & set(described["under-replicated"])

"""Findings about a cluster, from inventories that are made of literals."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.admin.cluster import Broker, NodeVersions, VersionRange
from kcli.admin.configs import Setting
from kcli.admin.explain.findings import Finding, exceeds
from kcli.admin.health.check import KINDS, facts_for, find_faults
from kcli.admin.health.inventory import (
    DISKS,
    TOPIC_SETTINGS,
    TOPICS,
    TRANSACTIONS,
    VERSIONS,
    Failure,
    Inventory,
    LogDir,
)
from kcli.admin.logs.open_transactions import OpenTransaction
from kcli.client.metadata import PartitionInfo, TopicInfo
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, TimeoutExpired
from kcli.structs import TopicPartition

NOW_MS = 1_700_000_000_000
GB = 10**9


def brokers(*fenced: int, count: int = 3) -> tuple[Broker, ...]:
    return tuple(Broker(n, f"kafka-{n}", 9092, None, n in fenced) for n in range(1, count + 1))


def topics(**partitions: list[PartitionInfo]) -> dict[str, TopicInfo]:
    """Return topics; the partitions of each are numbered in order."""
    return {
        name: TopicInfo(name, partitions={n: p._replace(topic=name, partition=n) for n, p in enumerate(of_topic)})
        for name, of_topic in partitions.items()
    }


def replicas(*nodes: int, leader: int | None = None, isr: tuple[int, ...] | None = None) -> PartitionInfo:
    return PartitionInfo("", 0, nodes[0] if leader is None else leader, 4, nodes, nodes if isr is None else isr)


def faults(
    of_topics: dict[str, TopicInfo] | None = None, registered: tuple[Broker, ...] | None = None, **facts: Any
) -> dict[str, Finding]:
    """Return the findings by kind."""
    seen = Inventory(NOW_MS, registered or brokers(), of_topics or {}, **facts)
    return {finding.kind: finding for finding in find_faults(seen)}


def test_a_healthy_cluster_has_no_findings() -> None:
    version = NodeVersions({0: VersionRange(0, 9)}, {"metadata.version": VersionRange(7, 30)})
    found = faults(
        topics(orders=[replicas(1, 2, 3), replicas(2, 3, 1)]),
        topic_settings={"orders": {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}},
        broker_settings={n: {"node.id": Setting("node.id", str(n), "static-broker")} for n in (1, 2, 3)},
        versions=dict.fromkeys((1, 2, 3), version),
        log_dirs={n: (LogDir("/data", n * 10 * GB // 8 + 10 * GB, 100 * GB, 50 * GB),) for n in (1, 2, 3)},
    )
    assert found == {}


def test_a_partition_without_a_live_replica_is_offline() -> None:
    found = faults(topics(orders=[replicas(1), replicas(3, leader=-1), replicas(3, leader=-1)]), brokers(3))
    assert found["offline"].severity == "problem"
    assert found["offline"].subject == "orders partitions 1-2"
    assert found["offline"].evidence == "No leader, and no live replica. Replicas: broker 3."
    assert found["offline"].advice.startswith("Start broker 3.")
    assert "leaderless" not in found


def test_a_partition_whose_live_replicas_are_not_in_sync_is_leaderless() -> None:
    found = faults(topics(orders=[replicas(3, 2, leader=-1, isr=(3,))]), brokers(3))
    assert found["leaderless"].subject == "orders-0"
    assert found["leaderless"].evidence == (
        "No leader, although broker 2 with a replica is live: no live replica is in sync. In sync: broker 3; down: "
        "broker 3."
    )
    assert found["leaderless"].advice.startswith("Start broker 3.")
    assert "offline" not in found
    assert "under-replicated" not in found


def test_a_live_broker_with_a_failed_disk_has_no_live_replica() -> None:
    found = faults(topics(orders=[replicas(3, leader=-1)._replace(offline=(3,))]))
    assert found["offline"].subject == "orders-0"


def test_lagging_replicas_are_one_finding_for_each_set_of_brokers() -> None:
    seen = Inventory(
        NOW_MS,
        brokers(3),
        topics(a=[replicas(1, 2, 3, isr=(1, 2))] * 2, b=[replicas(2, 3, isr=(2,)), replicas(1, 2, isr=(1,))]),
    )
    found = [finding for finding in find_faults(seen) if finding.kind == "under-replicated"]
    assert [(it.subject, it.evidence) for it in found] == [
        ("broker 2", "Not in sync in 1 partition of 1 topic: b-1; broker 2 is live but behind the leader."),
        ("broker 3", "Not in sync in 3 partitions of 2 topics: a partitions 0-1, b-0; broker 3 is down."),
    ]
    assert found[1].advice == "Start broker 3."


@pytest.mark.parametrize(
    ("isr", "setting", "is_under"),
    [((1,), "2", True), ((1, 2), "2", False), ((1,), "1", False), ((1, 2), "3", True), ((1,), "", False)],
)
def test_fewer_replicas_in_sync_than_required(isr: tuple[int, ...], setting: str, is_under: bool) -> None:
    settings = {"orders": {"min.insync.replicas": setting}}
    found = faults(topics(orders=[replicas(1, 2, 3, isr=isr)]), topic_settings=settings)
    assert ("under-min-isr" in found) is is_under
    if is_under:
        assert f"min.insync.replicas is {setting}." in found["under-min-isr"].evidence


def test_the_required_number_of_replicas_is_limited_by_the_number_of_replicas() -> None:
    assert "under-min-isr" not in faults(
        topics(orders=[replicas(1)]), topic_settings={"orders": {"min.insync.replicas": "2"}}
    )


def test_leaders_off_their_preferred_node_count_only_where_it_could_lead() -> None:
    found = faults(
        topics(
            moved=[replicas(2, 1, leader=1), replicas(2, 3, leader=3)],
            behind=[replicas(2, 1, leader=1, isr=(1,))],
            down=[replicas(3, 1, leader=1, isr=(1,))],
        )
    )
    assert found["not-preferred-leader"].subject == "broker 2"
    assert found["not-preferred-leader"].evidence == (
        "It is the preferred leader of 2 partitions of 1 topic that brokers 1, 3 lead: moved partitions 0-1."
    )


def test_brokers_that_are_fenced_unknown_or_silent() -> None:
    silent = {2: TimeoutExpired("no answer", node=2)}
    seen = Inventory(NOW_MS, brokers(3), topics(orders=[replicas(1, 3, 4, isr=(1,))]), unreachable=silent)
    found = [finding for finding in find_faults(seen) if finding.kind.startswith("broker-")]
    assert [(it.kind, it.subject) for it in found] == [
        ("broker-offline", "broker 3"),
        ("broker-offline", "broker 4"),
        ("broker-unreachable", "broker 2"),
    ]
    assert found[0].evidence == (
        "Broker 3 (kafka-3:9092) is registered but fenced: it does not serve clients. It holds replicas of 1 partition."
    )
    assert "which the cluster does not list" in found[1].evidence
    assert seen.errors == list(silent.values())


def test_a_fenced_broker_without_replicas_is_a_warning() -> None:
    assert faults(registered=brokers(3))["broker-offline"].severity == "warning"


def test_a_failed_directory_and_a_full_volume() -> None:
    failed = LogDir("/data/b", 0, error=BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
    found = faults(log_dirs={1: (LogDir("/data/a", 70 * GB, 100 * GB, 4 * GB), failed)})
    assert "The directory /data/b is offline: KAFKA_STORAGE_ERROR" in found["log-dir-offline"].evidence
    assert found["disk-nearly-full"].severity == "problem"
    assert "/data/a has 4,000.0 MB of 100,000.0 MB left (4.0%)" in found["disk-nearly-full"].evidence
    assert "uneven-disk" not in found


@pytest.mark.parametrize(
    ("sizes", "uneven"),
    [
        ((10, 10, 40), ["broker 3"]),
        ((10, 11, 12), []),
        ((20, 20, 5), ["broker 3"]),
        ((0, 0, 1), []),
        ((7,), []),
        ((0, 0), []),
    ],
)
def test_uneven_disks_are_those_far_from_the_mean(sizes: tuple[int, ...], uneven: list[str]) -> None:
    dirs = {n: (LogDir("/data", size * GB),) for n, size in enumerate(sizes, 1)}
    found = find_faults(Inventory(NOW_MS, brokers(), {}, log_dirs=dirs), disk_floor=2 * GB)
    assert [it.subject for it in found if it.kind == "uneven-disk"] == uneven


def test_uneven_directories_of_one_broker() -> None:
    found = faults(log_dirs={1: (LogDir("/a", 100 * GB), LogDir("/b", 99 * GB), LogDir("/c", 10 * GB))})
    assert found["uneven-disk"].subject == "broker 1 /c"


def test_a_hanging_transaction_has_the_command_that_ends_it() -> None:
    hanging = OpenTransaction(TopicPartition("pay", 3), 7, 2, 40, NOW_MS - 3_600_000, hanging=True)
    found = faults(transactions=(hanging,))["hanging-transaction"]
    assert found.subject == "pay-3"
    assert "producer 7 (epoch 2) is open since its last write 1h00m ago, and no coordinator knows it" in found.evidence
    assert found.advice == ("Abort it: kcli transaction abort --topic pay --partition 3 --start-offset 40 --execute.")


def test_the_command_for_a_hanging_transaction_quotes_the_topic() -> None:
    hanging = OpenTransaction(TopicPartition("pay; rm -r x", 3), 7, 2, 40, NOW_MS, hanging=True)
    advice = faults(transactions=(hanging,))["hanging-transaction"].advice
    assert "kcli transaction abort --topic 'pay; rm -r x' --partition 3" in advice


def test_a_transaction_that_may_be_hidden_is_to_be_checked_before_it_is_aborted() -> None:
    hanging = OpenTransaction(TopicPartition("pay", 3), 7, 2, 40, NOW_MS, hanging=True)
    found = faults(transactions=(hanging,), restricted=True)["hanging-transaction"]
    assert found.advice.startswith("Check with a principal that may describe all transactional ids.")


@pytest.mark.parametrize(("started_ago_ms", "kinds"), [(100_000, []), (200_000, ["overdue-transaction"])])
def test_a_known_transaction_is_reported_after_its_timeout(started_ago_ms: int, kinds: list[str]) -> None:
    known = OpenTransaction(
        TopicPartition("pay", 0), 7, 2, 40, NOW_MS, "tx", "Ongoing", NOW_MS - started_ago_ms, timeout_ms=60_000
    )
    assert list(faults(transactions=(known,))) == kinds


def test_brokers_whose_versions_differ_from_most() -> None:
    usual = NodeVersions({22: VersionRange(0, 5), 3: VersionRange(0, 12)}, {})
    newer = NodeVersions({22: VersionRange(0, 6), 3: VersionRange(0, 12)}, {"share.version": VersionRange(0, 1)})
    found = faults(versions={1: usual, 2: newer, 3: usual})["unlike-versions"]
    assert found.subject == "broker 2"
    assert found.evidence == (
        "API versions and features differ from those of brokers 1, 3: InitProducerId 0-6 instead of 0-5; "
        "share.version 0-1 instead of none."
    )


def settings(name: str, *values: str | None, source: str = "static-broker", **more: Any) -> dict[int, Any]:
    return {n: {name: Setting(name, value, source, **more)} for n, value in enumerate(values, 1)}


def test_settings_that_differ_between_brokers() -> None:
    found = faults(broker_settings=settings("message.max.bytes", "1000", "2000", "1000"))["unlike-settings"]
    assert found.subject == "message.max.bytes"
    assert found.evidence == (
        "The brokers have different values: 1000 on brokers 1, 3 (static-broker); 2000 on broker 2 (static-broker)."
    )


@pytest.mark.parametrize(
    "of_brokers",
    [
        settings("message.max.bytes", "1", "2", source="default"),  # versions differ, and with them the defaults
        settings("ssl.keystore.password", None, "x", sensitive=True),
        settings("advertised.listeners", "a", "b"),
        settings("log.dirs", "a", "b"),
        settings("listener.name.internal.ssl.keystore.location", "a", "b"),
        settings("broker.rack", "a", "b"),
    ],
)
def test_settings_that_belong_to_one_broker_are_not_compared(of_brokers: dict[int, Any]) -> None:
    assert faults(broker_settings=of_brokers) == {}


def test_topics_with_one_replica() -> None:
    of_topics = topics(single=[replicas(1)], mixed=[replicas(1, 2), replicas(2)], good=[replicas(1, 2)])
    assert faults(of_topics)["single-replica"].subject == "topics mixed, single"
    assert faults(topics(single=[replicas(1)]), brokers(count=1)) == {}, "one broker can hold one replica only"


def test_topics_that_allow_unclean_elections() -> None:
    settings = {"careless": {"unclean.leader.election.enable": "true"}, "careful": {}}
    assert faults(topic_settings=settings)["unclean-election"].subject == "topic careless"


def test_missing_facts_are_reported_once_for_each_fact() -> None:
    denied = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, request="DescribeLogDirs")
    failures = (*(Failure(DISKS, f"broker {n}", denied) for n in (1, 2)), Failure(VERSIONS, "", denied))
    seen = Inventory(NOW_MS, brokers(), {}, failures=failures)
    found = find_faults(seen)
    assert [(it.kind, it.subject) for it in found] == [("unchecked", "log directories"), ("unchecked", "API versions")]
    assert found[0].evidence.startswith("2 requests failed: CLUSTER_AUTHORIZATION_FAILED")
    assert "(broker 1, broker 2)" in found[0].evidence
    assert seen.errors == [denied] * 3


def test_ignored_findings_need_no_facts() -> None:
    assert facts_for(()) >= {DISKS, TRANSACTIONS}
    assert DISKS not in facts_for(("log-dir-offline", "disk-nearly-full", "uneven-disk"))
    assert TOPIC_SETTINGS in facts_for(("under-min-isr",))
    assert TOPICS in facts_for(tuple(set(KINDS) - {"offline"}))
    hanging = OpenTransaction(TopicPartition("pay", 3), 7, 2, 40, NOW_MS, hanging=True)
    assert find_faults(Inventory(NOW_MS, (), {}, transactions=(hanging,)), ignore=("hanging-transaction",)) == []


@pytest.mark.parametrize(
    ("fail_on", "exceeded"),
    [((), False), (("problem",), False), (("warning",), True), (("note",), True), (("uneven-disk",), True)],
)
def test_the_threshold_is_a_severity_or_a_kind(fail_on: tuple[str, ...], exceeded: bool) -> None:
    findings = [Finding("uneven-disk", "warning", "broker 1", "", "")]
    assert exceeds(findings, fail_on) is exceeded
    assert not exceeds([], fail_on)

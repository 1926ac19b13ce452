"""`Admin` on the embedded broker: everything that the commands decide, without the command line."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.admin.client import Admin
from kcli.admin.offsets.offset_plan import FromOffsets
from kcli.admin.plan import PlanRefused
from kcli.admin.topic_changes.alterations import Wanted
from kcli.assignors.forecast import Changes
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, NotFound, Refused, TimeoutExpired
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.producer.producer import Producer
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.limits import Limit

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A topic `orders` with 2 partitions and 3 records; a group `billing` with committed offset 1 in partition 0."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as serving:
        serving.create_topic("orders", 2)
        with Producer(bootstrap_servers=serving.address) as producer:
            for partition in (0, 0, 1):
                producer.send("orders", b"record", partition=partition)
        with Admin(serving.address) as admin:
            committed = FromOffsets({("billing", T0): OffsetAndMetadata(1)}, "the test")
            admin.apply(admin.plan_reset(["billing"], committed), folder=tmp_path / "setup")
        yield serving


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(broker.address, timeout_ms=10_000) as admin:
        yield admin


def test_topics_are_created_described_and_deleted(admin: Admin) -> None:
    assert admin.create_topic("bills", 3).partitions == 3
    assert [topic.name for topic in admin.list_topics() if not topic.name.startswith("__")] == ["bills", "orders"]
    described = admin.describe_topics("orders", "none")
    assert sorted(described.values["orders"].partitions) == [0, 1]
    assert isinstance(described.errors["none"], BrokerError)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic("bills")
    plan = admin.plan_topic_deletion("bills", "none")
    assert [(row.key, row.old and row.old.records) for row in plan.rows] == [("bills", 0), ("none", None)]
    deleted = admin.delete_topics(plan)
    assert (list(deleted.values), list(deleted.errors)) == (["bills"], ["none"])
    assert len(admin.describe_cluster().brokers) == 1


def test_topics_are_altered_and_restored(admin: Admin, tmp_path: Path) -> None:
    plan = admin.plan_alterations({"orders": Wanted(3, {"retention.ms": "9"})})
    done = admin.alter(plan, folder=tmp_path)
    assert done.values == {("orders", "partitions"): "3", ("orders", "retention.ms"): "9"}
    with pytest.raises(Refused, match="has changed since the plan"):
        admin.alter(plan, folder=tmp_path)
    undo = admin.plan_setting_undo(folder=tmp_path)
    assert [(row.name, row.action, row.old) for row in undo.rows] == [("retention.ms", "delete", "9")]
    assert admin.alter(undo, folder=tmp_path).errors == {}
    by_id = admin.plan_setting_undo(sorted(path.stem for path in tmp_path.glob("*.json"))[-1], folder=tmp_path)
    assert [(row.name, row.new) for row in by_id.changes] == [("retention.ms", "9")]
    refused = admin.plan_alterations({"orders": Wanted(2), "none": Wanted(2)})
    assert [type(row.error) for row in refused.rows] == [Refused, BrokerError]
    with pytest.raises(Refused, match="cannot be removed"):
        admin.alter(refused, folder=tmp_path)


def test_records_are_truncated(admin: Admin) -> None:
    plan = admin.plan_truncation({"orders": [0]}, LOG_END)
    assert [(row.tp, row.records, row.unread) for row in plan.rows] == [(T0, 2, {"billing": 1})]
    assert admin.truncate(plan).values == {T0: 2}
    admin.delete_topics(admin.plan_topic_deletion("orders"))
    admin.create_topic("orders", 2)
    with pytest.raises(Refused, match="was deleted and recreated since the plan"):
        admin.truncate(plan)


def test_faults_of_the_cluster_are_found(admin: Admin) -> None:
    disk = ("disk-nearly-full",)  # the disk of the machine that runs the test is not a fault of the broker
    assert admin.check_cluster(ignore=disk) == []
    admin.create_topic("careless", configs={"unclean.leader.election.enable": "true"})
    assert [finding.kind for finding in admin.check_cluster(ignore=disk)] == ["unclean-election"]


def test_groups_are_listed_described_and_measured(admin: Admin) -> None:
    assert list(admin.list_groups().listed) == ["billing"]
    assert list(admin.list_groups(match="^b", topic="orders", states=["empty"]).listed) == ["billing"]
    assert list(admin.list_groups(match="x").listed) == []
    assert admin.describe_groups("billing").values["billing"].state == "Empty"
    (row,) = admin.group_lag("billing", time_lag=True).values["billing"].partitions
    assert (row.tp, row.committed, row.lag, row.time_lag_ms is None) == (T0, OffsetAndMetadata(1), 1, False)
    with pytest.raises(ConfigError, match="isolation_level: 'committed' is not valid"):
        admin.group_lag("billing", isolation_level="committed")
    with pytest.raises(ConfigError, match="not a valid regular expression"):
        admin.list_groups(match="(")


def test_a_wait_returns_the_state_that_was_reached(broker: EmbeddedBroker) -> None:
    with Admin(broker.address, timeout_ms=300) as admin:
        assert admin.wait_for_group("billing", "empty").reached
        result = admin.wait_for_group("billing", "lag<=0", interval_ms=50)
        assert (result.reached, result.lag, result.values) == (False, 1, "lag is 1")
        with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
            admin.wait_for_group("none", "empty")


def test_findings_explain_a_group_without_members(admin: Admin) -> None:
    (finding,) = admin.explain_groups("billing", interval_ms=10).values["billing"]
    assert (finding.severity, finding.kind) == ("problem", "no-members")


def test_offsets_are_reset_and_the_reset_is_undone(admin: Admin, tmp_path: Path) -> None:
    plan = admin.plan_reset(["billing"], LOG_START, topics={"orders": None})
    assert [(row.tp, row.action, row.new and row.new.offset) for row in plan.rows] == [(T0, "move", 0), (T1, "move", 0)]
    applied = admin.apply(plan, folder=tmp_path)
    assert not applied.errors
    assert list(admin.snapshots(folder=tmp_path).values) == [applied.snapshot_id]
    assert admin.export_offsets("billing").offsets == {
        ("billing", T0): OffsetAndMetadata(0),
        ("billing", T1): OffsetAndMetadata(0),
    }
    assert not admin.undo(folder=tmp_path).errors
    assert admin.export_offsets().offsets == {("billing", T0): OffsetAndMetadata(1)}
    assert admin.export_offsets(match="^bill", topics={"orders": [0]}).groups == ["billing"]


def test_a_refused_row_prevents_the_whole_plan(admin: Admin, tmp_path: Path) -> None:
    plan = admin.plan_reset(["billing"], Place.offset(70))
    assert [row.action for row in plan.refused] == ["refuse", "refuse"]
    with pytest.raises(PlanRefused):
        admin.apply(plan, folder=tmp_path)
    skipping = admin.plan_reset(["billing"], Place.offset(2), if_out_of_range="skip")
    assert [row.action for row in skipping.rows] == ["move", "skip"]


def test_offsets_are_copied_and_deleted(admin: Admin, tmp_path: Path) -> None:
    assert not admin.apply(admin.plan_copy("billing", "audit"), folder=tmp_path).errors
    assert not admin.apply(admin.plan_delete("billing", {"orders": [0]}), folder=tmp_path).errors
    assert admin.export_offsets("audit").offsets == {("audit", T0): OffsetAndMetadata(1)}
    with pytest.raises(NotFound, match="group audit has no committed offsets in orders:1"):
        admin.plan_delete("audit", {"orders": [1]})
    with pytest.raises(ConfigError, match="cannot copy group audit to itself"):
        admin.plan_copy("audit", "audit")


def test_groups_are_deleted_with_their_offsets_and_restored(admin: Admin, tmp_path: Path) -> None:
    (row,) = admin.plan_group_deletion("billing").rows
    assert (row.error, row.old and len(row.old.partitions)) == (None, 1)
    results = admin.delete_groups("billing", "none", folder=tmp_path)
    assert list(results.values) == ["billing"]
    assert results.errors["none"].code is ErrorCode.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]
    assert list(admin.list_groups().listed) == []
    assert not admin.undo(folder=tmp_path).errors
    assert admin.export_offsets("billing").offsets == {("billing", T0): OffsetAndMetadata(1)}


def test_members_are_removed_and_the_next_assignment_is_forecast(broker: EmbeddedBroker, admin: Admin) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "readers",
            "group.instance.id": "reader-1",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 30_000,
        }
    )
    consumer.subscribe(["orders"])
    try:
        limit = Limit("the assignment of the member")
        while not consumer.assignment():
            limit.check()
            consumer.poll(0.05)
        live = admin.assignment("readers")
        assert [member.owned for member in live.members] == [(T0, T1)]
        comparison = admin.forecast("readers", changes=Changes(more=1))
        assert [move.partition for move in comparison.moved] == [T1]
        with pytest.warns(DeprecationWarning, match=r"Admin\.forecast"):
            assert admin.foresee("readers", "sticky").moves == []
        (row,) = admin.plan_member_removal("readers", instances=["reader-1"]).rows
        assert row.old is not None
        removed = admin.remove_members("readers", [row.old])
        assert (list(removed.values), removed.errors) == ([row.key], {})
    finally:
        consumer.close()
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.assignment("none")


def test_the_timeout_of_a_call_is_a_setting_too() -> None:
    """Kafka's default.api.timeout.ms; an explicit timeout_ms takes precedence, as a timeout of a call does in Java."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for admin in (
            Admin(address, default_api_timeout_ms=50),
            Admin(address, timeout_ms=50, default_api_timeout_ms=60_000),
        ):
            began_s = time.monotonic()
            with admin, pytest.raises(TimeoutExpired):
                admin.list_topics()
            assert 0.05 <= time.monotonic() - began_s < 10


def test_settings_are_checked_before_a_connection_is_made() -> None:
    with pytest.raises(ConfigError, match="there is no setting clientid; did you mean client_id"):
        Admin(clientid="x")
    with pytest.raises(ConfigError, match="timeout_ms: 0 is not valid"):
        Admin(timeout_ms=0)
    with Admin("127.0.0.1:1") as admin:
        assert repr(admin) == "<Admin 127.0.0.1:1>"

"""`kcli group explain` is right about members: every cause is staged with members of other clients.

On our broker and on Apache's; KIP-848 groups on Apache's only.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from tests.interop.groups.explaining import admin, commit, explained, fill, until_found
from tests.interop.groups.members import MemberProcess, confluent_member, kcat_member
from tests.limits import Limit
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

LONG = {"session_timeout_ms": 45_000, "max_poll_interval_ms": 60_000}


def test_a_rebalance_that_waits_for_a_busy_member_is_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(4), any_kafka.new_name("g")
    with (
        confluent_member(any_kafka, group, topic, client_id="well", **LONG) as well,
        confluent_member(any_kafka, group, topic, client_id="stuck", **LONG) as stuck,
    ):
        stuck.wait_assigned(2)
        well.wait_assigned(2)
        stuck.pause()
        with confluent_member(any_kafka, group, topic, client_id="new", **LONG):
            found = until_found(any_kafka, group, "rebalancing")
            limit = Limit("the reason of the rebalance")
            while found["rebalancing"]["severity"] != "problem" or "Newly" not in found["rebalancing"]["evidence"]:
                limit.check()
                found = until_found(any_kafka, group, "rebalancing")
        evidence = found["rebalancing"]["evidence"]
        assert "rebalancing at both observations" in evidence
        before, _, newly = evidence.partition("Newly joined")
        assert "stuck-" in before
        assert "new-" in newly
        stuck.kill()


def test_idle_members_and_unowned_partitions_are_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(1), any_kafka.new_name("g")
    how = {"topic_metadata_refresh_interval_ms": 600_000, "metadata_max_age_ms": 600_000}
    with confluent_member(any_kafka, group, topic, **how), confluent_member(any_kafka, group, topic, **how):
        found = until_found(any_kafka, group, "idle-member")
        assert "has 1 partition, and 2 members share them" in found["idle-member"]["evidence"]

        client = admin(any_kafka)
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        found = until_found(any_kafka, group, "unassigned")
        assert found["unassigned"]["subject"] == f"{topic}-1"


def test_a_silent_member_and_one_that_never_commits_are_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 5, 1: 5})
    commit(any_kafka, group, topic, {0: 1})
    with confluent_member(any_kafka, group, topic, commit="none", client_id="mute") as mute:
        mute.wait_assigned(2)
        found = until_found(any_kafka, group, "never-committed")
    assert found["never-committed"]["subject"] == f"{topic}-1"
    assert found["silent-member"]["subject"].startswith("mute-")


def test_static_members_that_have_gone_are_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 3, 1: 3})
    with (
        confluent_member(any_kafka, group, topic, instance_id="pod-0") as first,
        confluent_member(any_kafka, group, topic, instance_id="pod-1", session_timeout_ms=12_000) as second,
    ):
        first.wait_assigned(1)
        second.wait_assigned(1)
        fill(any_kafka, topic, {0: 3, 1: 3})
        first.wait_records(1)
        second.wait_records(1)
        second.kill()
        fill(any_kafka, topic, {0: 3, 1: 3})
        first.wait(lambda: 9 in first.committed().values(), "its commit of all that it has")

        found = until_found(any_kafka, group, "static-member-gone")
        assert found["static-member-gone"]["subject"].startswith("pod-1 (static)")
        assert "committed nothing" in found["static-member-gone"]["evidence"]
        assert "silent-member" not in found  # the other one goes on

        found = explained(any_kafka, group, 20)  # its session of 12 s ends in between, also on a broker that is late
        assert "no longer a member" in found["static-member-gone"]["evidence"]


def test_two_deployments_under_one_group_id_are_found(any_kafka: Kafka) -> None:
    topics, group = [any_kafka.new_topic(), any_kafka.new_topic()], any_kafka.new_name("g")
    with confluent_member(any_kafka, group, topics[:1]), kcat_member(any_kafka, group, topics):
        found = until_found(any_kafka, group, "mixed-subscriptions")
    assert "1 member: " in found["mixed-subscriptions"]["evidence"]


# KIP-848 groups


def stable_pair(kafka: Kafka, group: str, topic: str, **second: Any) -> tuple[MemberProcess, MemberProcess]:
    """Return two members with one partition each, the first of them of the KIP-848 protocol."""
    one = confluent_member(kafka, group, topic, protocol="consumer", client_id="one")
    one.wait_assigned(2)
    two = confluent_member(kafka, group, topic, **second)
    two.wait_assigned(1)
    one.wait_assigned(1)
    return one, two


def test_mixed_protocols_are_found(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    one, two = stable_pair(real_kafka, group, topic, client_id="old")
    with one, two:
        found = until_found(real_kafka, group, "mixed-protocols")
    assert "Classic: old" in found["mixed-protocols"]["evidence"]


def test_a_closed_static_kip848_member_is_found(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    fill(real_kafka, topic, {0: 1, 1: 1})
    one, two = stable_pair(real_kafka, group, topic, protocol="consumer", instance_id="pod-9")
    with one, two:
        two.leave()
        found = until_found(real_kafka, group, "static-member-gone")
    assert found["static-member-gone"]["severity"] == "problem"
    assert "keeps" in found["static-member-gone"]["evidence"]
    assert found["static-member-gone"]["subject"].startswith("pod-9 (static)")


def test_a_kip848_member_that_does_not_revoke_is_found(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    with confluent_member(real_kafka, group, topic, protocol="consumer", client_id="holder") as holder:
        holder.wait_assigned(2)
        holder.pause()
        with confluent_member(real_kafka, group, topic, protocol="consumer", client_id="waiter"):
            found = until_found(real_kafka, group, "rebalancing")
            limit = Limit("the reason of the rebalance")
            while found["rebalancing"]["severity"] != "problem" or "waiter" not in found["rebalancing"]["evidence"]:
                limit.check()
                found = until_found(real_kafka, group, "rebalancing")
        assert "holder (" in found["rebalancing"]["evidence"]
        holder.kill()

"""Conversions between classic and consumer groups (KIP-848): settings, limits, restarts and failed appends."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.broker.group import requests
from tests.broker.group.consumer_groups_harness import ConsumerGroupsHarness, Member
from tests.broker.group.harness import ask
from tests.broker.group.scenarios_migration import ClassicMember, partitions, subscription

TOPIC, GROUP = "orders", "readers"


def harness_with(policy: str, **settings: str) -> ConsumerGroupsHarness:
    harness = ConsumerGroupsHarness(
        group_consumer_migration_policy=policy, group_consumer_assignment_interval_ms="0", **settings
    )
    harness.create_topic(TOPIC, 4)
    return harness


def classic(harness: Any, member_id: str, **fields: Any) -> ClassicMember:
    return ClassicMember(harness, member_id, GROUP, TOPIC, **fields)


def classic_group(harness: ConsumerGroupsHarness) -> ClassicMember:
    """Return the only member of a Stable classic group, with all partitions."""
    member = classic(harness, "")
    member.member_id = requests.request_member_id(member.connection, GROUP)
    assert member.join().error_code == 0
    given = encode_assignment(Assignment(assigned_partitions=[TopicPartitions(topic=TOPIC, partitions=[0, 1, 2, 3])]))
    assert member.sync(assignments={member.member_id: given}).error_code == 0
    return member


def consumer_group(harness: ConsumerGroupsHarness) -> Member:
    member = Member(harness, "a")
    assert member.join([TOPIC]).error_code == 0
    return member


def state_of(harness: ConsumerGroupsHarness) -> str:
    return ask(harness.connect(), DescribeGroupsRequest(groups=[GROUP])).groups[0].group_state


@pytest.mark.parametrize(
    ("policy", "code"), [("disabled", 69), ("downgrade", 69), ("UPGRADE", 0), ("upgrade", 0), ("bidirectional", 0)]
)
def test_the_policy_allows_a_consumer_member_in_a_classic_group(policy: str, code: int) -> None:
    harness = harness_with(policy)
    old = classic_group(harness)
    answer = Member(harness, "a").join([TOPIC])
    assert answer.error_code == code
    assert old.beat() == (27 if code == 0 else 0)
    assert ("disabled" in (answer.error_message or "")) == bool(code)


@pytest.mark.parametrize(("policy", "code"), [("disabled", 23), ("upgrade", 0), ("downgrade", 0), ("bidirectional", 0)])
def test_the_policy_allows_a_classic_member_in_a_consumer_group(policy: str, code: int) -> None:
    harness = harness_with(policy)
    consumer_group(harness)
    assert classic(harness, "c").join().error_code == code


@pytest.mark.parametrize(("policy", "state"), [("upgrade", "Dead"), ("downgrade", "PreparingRebalance")])
def test_the_policy_allows_a_group_to_become_classic(policy: str, state: str) -> None:
    harness = harness_with(policy)
    new, old = consumer_group(harness), classic(harness, "c")
    old.joined()
    new.leave()
    assert state_of(harness) == state
    if policy == "upgrade":
        assert old.beat() == 27, "what the other has left is free"


def test_an_empty_group_changes_whatever_the_policy_says() -> None:
    harness = harness_with("disabled")
    consumer_group(harness).leave()
    member_id, _ = requests.form_group_of_one(harness.connect(), GROUP)
    assert state_of(harness) == "Stable"
    ask(harness.connect(), requests.leave(GROUP, member_id))
    assert Member(harness, "a").join([TOPIC]).error_code == 0


def test_a_group_that_is_too_large_is_not_converted() -> None:
    harness = harness_with("bidirectional", group_max_size="1", group_consumer_max_size="3")
    new = consumer_group(harness)
    members = [classic(harness, name) for name in ("c", "d")]
    for member in members:
        assert member.join().error_code == 0
    assert classic(harness, "e").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    new.leave()
    assert state_of(harness) == "Dead"


def test_a_group_in_its_first_join_phase_is_converted() -> None:
    """It has not chosen a protocol yet. The answers to its parked requests ask for another join."""
    harness = harness_with("bidirectional", group_initial_rebalance_delay_ms="3000")
    waiting = classic(harness, "")
    waiting.member_id = requests.request_member_id(waiting.connection, GROUP)
    waiting.connection.send(requests.join(GROUP, waiting.member_id, protocols=(("range", subscription(TOPIC)),)))
    assert waiting.connection.is_waiting()
    new = Member(harness, "a")
    assert new.join([TOPIC]).error_code == 0
    assert waiting.connection.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(waiting.joined()[TOPIC]) == 2


@pytest.mark.parametrize("stage", ["upgraded", "joined", "downgraded"])
def test_a_restart_restores_a_group_at_each_stage_of_its_migration(stage: str) -> None:
    harness = harness_with("bidirectional")
    old = classic_group(harness)
    new = Member(harness, "a")
    new.join([TOPIC])
    if stage != "upgraded":
        old.joined(owned={TOPIC: [0, 1, 2, 3]})
    if stage == "downgraded":
        new.leave()
    facts = harness.groups.facts(GROUP)

    harness.restart()
    old.connection, new.connection = harness.connect(), harness.connect()

    if stage == "downgraded":
        assert harness.state(GROUP) == "Stable", "the rebalance is not stored, as in Kafka"
        assert partitions(old.sync().assignment) == {TOPIC: [0, 1, 2, 3]} or old.join().error_code == 0
    else:
        assert harness.groups.facts(GROUP) == facts
        assert old.beat() == 27
        assert new.beat().error_code == 0


def test_a_failed_append_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from kcli.error_codes import ErrorCode

    harness = harness_with("bidirectional")
    old = classic_group(harness)
    monkeypatch.setattr(harness.offsets, "store_records", lambda *_: ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert Member(harness, "a").join([TOPIC]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert old.beat() == 0
    monkeypatch.undo()
    new = Member(harness, "a")
    new.join([TOPIC])
    old.joined(owned={})
    monkeypatch.setattr(harness.offsets, "store_records", lambda *_: ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert new.leave().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(harness) == "Dead"
    assert classic(harness, "d").join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_broker_may_serve_classic_groups_only() -> None:
    harness = ConsumerGroupsHarness(group_coordinator_rebalance_protocols="classic")
    assert Member(harness, "a").join([]).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert requests.form_group_of_one(harness.connect(), GROUP)

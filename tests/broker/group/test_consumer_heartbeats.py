"""Heartbeats of consumer groups (KIP-848): joining, sharing of partitions, leaving, and what a restart keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode
from tests.broker.group.consumer_groups_harness import ConsumerGroupsHarness, Member
from tests.limits import Limit


@pytest.fixture
def harness() -> ConsumerGroupsHarness:
    harness = ConsumerGroupsHarness()
    harness.create_topic("orders", 4)
    return harness


def test_the_first_member_gets_all_partitions_at_epoch_two(harness: ConsumerGroupsHarness) -> None:
    answer = Member(harness, "a").join(["orders"])

    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5000)
    assert harness.partitions(answer) == {"orders": [0, 1, 2, 3]}


def test_a_second_member_waits_until_the_first_has_revoked(harness: ConsumerGroupsHarness) -> None:
    first, second = Member(harness, "a"), Member(harness, "b")
    first.join(["orders"])
    harness.pause(1000)

    answer = second.join(["orders"])
    assert (answer.member_epoch, harness.partitions(answer)) == (3, {})

    shrunk = first.beat()
    assert (shrunk.member_epoch, len(harness.partitions(shrunk)["orders"])) == (2, 2)
    assert harness.partitions(second.beat()) is None  # still waits
    assert first.beat(owns=shrunk).member_epoch == 3
    assert len(harness.partitions(second.beat())["orders"]) == 2


def test_the_target_assignment_changes_at_most_once_a_second(harness: ConsumerGroupsHarness) -> None:
    Member(harness, "a").join(["orders"])
    second = Member(harness, "b")

    answer = second.join(["orders"])
    assert (answer.member_epoch, harness.partitions(answer)) == (2, {})

    harness.pause(1000)
    assert second.beat().member_epoch == 3


def test_a_group_goes_on_after_a_restart(harness: ConsumerGroupsHarness) -> None:
    member = Member(harness, "a")
    member.join(["orders"])

    harness.restart()

    answer = member.beat()
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)


def test_a_silent_member_loses_its_partitions_after_its_session(harness: ConsumerGroupsHarness) -> None:
    first, second = Member(harness, "a"), Member(harness, "b")
    first.join(["orders"])
    harness.pause(40_000)
    second.join(["orders"])

    harness.pause(5_000)

    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(harness.partitions(second.beat())["orders"]) == 4


def test_a_new_partition_is_assigned_at_the_next_heartbeat(harness: ConsumerGroupsHarness) -> None:
    member = Member(harness, "a")
    member.join(["orders"])
    harness.pause(1000)

    harness.create_partitions("orders", 5)

    assert harness.partitions(member.beat()) == {"orders": [0, 1, 2, 3, 4]}


def test_a_change_of_topics_is_noticed_again_after_a_failed_append(harness: ConsumerGroupsHarness) -> None:
    member = Member(harness, "a")
    member.join(["orders"])
    harness.pause(1000)
    harness.create_partitions("orders", 5)
    harness.replicas.failure = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.beat().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    harness.replicas.failure = None
    assert harness.partitions(member.beat()) == {"orders": [0, 1, 2, 3, 4]}


def test_a_failed_append_changes_nothing(harness: ConsumerGroupsHarness) -> None:
    member = Member(harness, "a")
    member.join(["orders"])
    harness.replicas.failure = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert Member(harness, "b").join(["orders"]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.leave().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    harness.replicas.failure = None
    assert (member.beat().error_code, member.beat().member_epoch) == (0, 2)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def test_kcli_reads_with_the_consumer_protocol(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", 2)
    properties = {"bootstrap.servers": broker.address, "group.id": "readers", "group.protocol": "consumer"}
    with Consumer.from_config(ConsumerConfig.from_properties(properties)) as consumer:
        consumer.subscribe(["orders"])
        limit = Limit("the assignment of both partitions")
        while len(consumer.assignment) < 2:
            limit.check()
            consumer.poll(100)
        consumer.commit()
        assert broker.call(lambda one: one.groups.facts("readers").state) == "Stable"
    assert broker.call(lambda one: one.groups.facts("readers").state) == "Empty"

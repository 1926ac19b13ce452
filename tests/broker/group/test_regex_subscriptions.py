"""Regular expressions of members: when they are resolved again, and for whom (KIP-848)."""

from __future__ import annotations

import pytest

from kcli.protocol.acls import ResourceType
from tests.broker.group.consumer_groups_harness import ConsumerGroupsHarness, Member

MIN_REFRESH_MS = 10_000
ALL = {"orders-1", "orders-2"}


@pytest.fixture
def harness() -> ConsumerGroupsHarness:
    harness = ConsumerGroupsHarness(group_consumer_assignment_interval_ms="0")
    harness.create_topic("orders-1", 1)
    harness.create_topic("payments", 1)
    return harness


def subscribed(harness: ConsumerGroupsHarness, regex: str = "orders-.*", member_id: str = "a") -> Member:
    """Return a member whose expression is resolved."""
    member = Member(harness, member_id)
    assert member.join(None, subscribed_topic_regex=regex).error_code == 0
    harness.pause(1)
    member.beat()
    return member


def topics_of(harness: ConsumerGroupsHarness, regex: str = "orders-.*") -> frozenset[str]:
    return harness.groups.consumer_group("readers").resolved_regexes[regex].topics


def test_new_topics_are_found_ten_seconds_after_the_last_look(harness: ConsumerGroupsHarness) -> None:
    member = subscribed(harness)
    harness.create_topic("orders-2", 1)
    harness.pause(MIN_REFRESH_MS - 1000)
    member.beat()
    harness.pause(1)
    assert topics_of(harness) == {"orders-1"}

    harness.pause(2000)
    member.beat()
    harness.pause(1)
    assert topics_of(harness) == ALL
    assert len(harness.partitions(member.beat()) or ()) == 2


def test_without_new_topics_the_expressions_are_resolved_each_ten_minutes(harness: ConsumerGroupsHarness) -> None:
    member = subscribed(harness)
    group = harness.groups.consumer_group("readers")
    first = group.resolved_regexes["orders-.*"]
    for _ in range(20):
        harness.pause(29_000)
        member.beat()
    harness.pause(1)
    assert group.resolved_regexes["orders-.*"] == first

    harness.pause(20_000)
    member.beat()
    harness.pause(1)
    assert group.resolved_regexes["orders-.*"].timestamp_ms > first.timestamp_ms
    assert group.group_epoch == 2, "the same topics are no change"


def test_a_second_expression_waits_for_the_interval_but_not_for_new_topics(harness: ConsumerGroupsHarness) -> None:
    subscribed(harness)
    late = Member(harness, "b")
    assert late.join(None, subscribed_topic_regex="pay.*").error_code == 0
    harness.pause(1)
    assert "pay.*" not in harness.groups.consumer_group("readers").resolved_regexes

    harness.pause(MIN_REFRESH_MS + 1)
    late.beat()
    harness.pause(1)
    assert topics_of(harness, "pay.*") == {"payments"}


def test_an_expression_is_forgotten_with_its_last_member(harness: ConsumerGroupsHarness) -> None:
    first, second = subscribed(harness), subscribed(harness, member_id="b")
    first.leave()
    assert topics_of(harness) == {"orders-1"}
    second.leave()
    assert harness.groups.consumer_group("readers").resolved_regexes == {}
    harness.restart()
    assert harness.groups.consumer_group("readers").resolved_regexes == {}


def test_topics_that_the_member_may_not_describe_do_not_match(
    harness: ConsumerGroupsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create_topic("orders-2", 1)

    def allows(client: object, operation: object, resource_type: ResourceType, name: str) -> bool:
        return resource_type is not ResourceType.TOPIC or name != "orders-2"

    monkeypatch.setattr(harness.broker.authorizer, "allows", allows, raising=False)
    subscribed(harness)
    assert topics_of(harness) == {"orders-1"}


def test_nothing_is_resolved_for_a_group_that_is_gone(harness: ConsumerGroupsHarness) -> None:
    member = Member(harness, "a")
    member.join(None, subscribed_topic_regex="orders-.*")
    harness.groups.unload("readers")
    harness.pause(1)
    assert harness.groups.group_ids() == []

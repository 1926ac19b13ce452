"""Expiry of offsets (KIP-211) by the group's state, its subscriptions and the start of the retention period."""

from __future__ import annotations

import pytest

from kcli.broker.group.expiry import CommittedOffset, GroupFacts, expired_offsets, is_subscribed
from kcli.structs import TopicPartition
from tests.broker.group.store_harness import clicks, orders

NOW_MS, RETENTION_MS = 10_000, 1000
LATE, EARLY = NOW_MS - RETENTION_MS, NOW_MS - RETENTION_MS + 1  # just expired, and not yet


def expired(group: GroupFacts, **committed_at: int) -> list[str]:
    """Return the topics whose offset, committed at this time, expires."""
    partitions = {"orders": orders(0), "clicks": clicks(0)}
    offsets = {partitions[name]: CommittedOffset(1, commit_timestamp_ms=at) for name, at in committed_at.items()}
    return [partition.topic for partition in expired_offsets(offsets, group, NOW_MS, RETENTION_MS)]


@pytest.mark.parametrize("protocol_type", [None, ""])
def test_offsets_of_a_simple_group_expire_after_their_commit(protocol_type: str | None) -> None:
    group = GroupFacts("Empty", protocol_type, None, state_timestamp_ms=NOW_MS)

    assert expired(group, orders=LATE, clicks=EARLY) == ["orders"]


def test_offsets_of_an_empty_group_expire_after_its_last_member_left() -> None:
    assert expired(GroupFacts("Empty", "consumer", frozenset(), EARLY), orders=0, clicks=EARLY) == []
    assert expired(GroupFacts("Empty", "consumer", frozenset(), LATE), orders=0, clicks=NOW_MS) == ["orders", "clicks"]
    assert expired(GroupFacts("Empty", "connect", None, LATE), orders=0) == ["orders"]


def test_offsets_of_an_empty_group_without_a_state_time_expire_after_their_commit() -> None:
    group = GroupFacts("Empty", "consumer", frozenset(), state_timestamp_ms=-1)

    assert expired(group, orders=LATE, clicks=EARLY) == ["orders"]


def test_unsubscribed_topics_of_a_stable_consumer_group_expire() -> None:
    group = GroupFacts("Stable", "consumer", frozenset({"orders"}), state_timestamp_ms=0)

    assert expired(group, orders=0, clicks=LATE) == ["clicks"]
    assert expired(group, orders=0, clicks=EARLY) == []


@pytest.mark.parametrize(
    "group",
    [
        GroupFacts("PreparingRebalance", "consumer", frozenset(), 0),
        GroupFacts("CompletingRebalance", "consumer", frozenset(), 0),
        GroupFacts("Dead", "consumer", frozenset(), 0),
        GroupFacts("Stable", "consumer", None, 0),  # unreadable subscriptions may contain any topic
        GroupFacts("Stable", "connect", None, 0),
    ],
)
def test_nothing_expires_while_subscriptions_are_unknown(group: GroupFacts) -> None:
    assert expired(group, orders=0, clicks=0) == []


def test_retention_of_the_commit_overrides_the_brokers() -> None:
    group = GroupFacts("Empty", "consumer", frozenset(), state_timestamp_ms=0)
    offsets = {
        orders(0): CommittedOffset(1, commit_timestamp_ms=0, expire_timestamp_ms=NOW_MS),
        orders(1): CommittedOffset(1, commit_timestamp_ms=0, expire_timestamp_ms=NOW_MS + 1),
    }

    assert expired_offsets(offsets, group, NOW_MS, RETENTION_MS) == [orders(0)]


def test_consumer_group_with_unknown_subscriptions_subscribes_to_every_topic() -> None:
    assert is_subscribed(GroupFacts("Stable", "consumer", None), "orders")
    assert not is_subscribed(GroupFacts("Stable", "connect", None), "orders")
    assert not is_subscribed(GroupFacts("Empty", None, None), "orders")
    assert is_subscribed(GroupFacts("Stable", "consumer", frozenset({"orders"})), "orders")
    assert not is_subscribed(GroupFacts("Stable", "consumer", frozenset({"orders"})), "clicks")


@pytest.mark.parametrize("state", ["Stable", "Assigning", "Reconciling"])
def test_a_consumer_group_keeps_the_offsets_of_its_topics_in_any_state(state: str) -> None:
    group = GroupFacts(state, "consumer", frozenset({"orders"}))
    read, former = TopicPartition("orders", 0), TopicPartition("clicks", 0)
    offsets = {partition: CommittedOffset(1, commit_timestamp_ms=0) for partition in (read, former)}

    assert expired_offsets(offsets, group, 1000, 1000) == [former]

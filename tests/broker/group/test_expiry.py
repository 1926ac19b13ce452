"""Which offsets expire (KIP-211): by the state of the group, who reads the topic, and when it counts from."""

from __future__ import annotations

import pytest

from kcli.broker.group.expiry import CommittedOffset, GroupFacts, expired_offsets, is_subscribed
from tests.broker.group.offsets_lab import clicks, orders

NOW_MS, RETENTION_MS = 10_000, 1000
LATE, EARLY = NOW_MS - RETENTION_MS, NOW_MS - RETENTION_MS + 1  # just over, and not yet


def expired(group: GroupFacts, **committed_at: int) -> list[str]:
    """The names of the topics whose offset expires, committed at these times."""
    partitions = {"orders": orders(0), "clicks": clicks(0)}
    offsets = {partitions[name]: CommittedOffset(1, commit_timestamp_ms=at) for name, at in committed_at.items()}
    return [partition.topic for partition in expired_offsets(offsets, group, NOW_MS, RETENTION_MS)]


@pytest.mark.parametrize("protocol_type", [None, ""])
def test_a_simple_group_loses_each_offset_after_its_own_commit(protocol_type: str | None) -> None:
    group = GroupFacts("Empty", protocol_type, None, state_timestamp_ms=NOW_MS)

    assert expired(group, orders=LATE, clicks=EARLY) == ["orders"]


def test_an_empty_group_loses_all_offsets_after_its_last_member_left() -> None:
    assert expired(GroupFacts("Empty", "consumer", frozenset(), EARLY), orders=0, clicks=EARLY) == []
    assert expired(GroupFacts("Empty", "consumer", frozenset(), LATE), orders=0, clicks=NOW_MS) == ["orders", "clicks"]
    assert expired(GroupFacts("Empty", "connect", None, LATE), orders=0) == ["orders"]


def test_an_empty_group_that_does_not_know_since_when_counts_from_each_commit() -> None:
    group = GroupFacts("Empty", "consumer", frozenset(), state_timestamp_ms=-1)

    assert expired(group, orders=LATE, clicks=EARLY) == ["orders"]


def test_a_stable_group_of_consumers_loses_what_nobody_reads() -> None:
    group = GroupFacts("Stable", "consumer", frozenset({"orders"}), state_timestamp_ms=0)

    assert expired(group, orders=0, clicks=LATE) == ["clicks"]
    assert expired(group, orders=0, clicks=EARLY) == []


@pytest.mark.parametrize(
    "group",
    [
        GroupFacts("PreparingRebalance", "consumer", frozenset(), 0),
        GroupFacts("CompletingRebalance", "consumer", frozenset(), 0),
        GroupFacts("Dead", "consumer", frozenset(), 0),
        GroupFacts("Stable", "consumer", None, 0),  # subscriptions that cannot be read may be of anything
        GroupFacts("Stable", "connect", None, 0),
    ],
)
def test_nothing_expires_where_it_is_not_known_who_reads_what(group: GroupFacts) -> None:
    assert expired(group, orders=0, clicks=0) == []


def test_a_retention_of_its_own_decides_alone() -> None:
    group = GroupFacts("Empty", "consumer", frozenset(), state_timestamp_ms=0)
    offsets = {
        orders(0): CommittedOffset(1, commit_timestamp_ms=0, expire_timestamp_ms=NOW_MS),
        orders(1): CommittedOffset(1, commit_timestamp_ms=0, expire_timestamp_ms=NOW_MS + 1),
    }

    assert expired_offsets(offsets, group, NOW_MS, RETENTION_MS) == [orders(0)]


def test_consumers_whose_subscriptions_are_not_known_read_everything() -> None:
    assert is_subscribed(GroupFacts("Stable", "consumer", None), "orders")
    assert not is_subscribed(GroupFacts("Stable", "connect", None), "orders")
    assert not is_subscribed(GroupFacts("Empty", None, None), "orders")
    assert is_subscribed(GroupFacts("Stable", "consumer", frozenset({"orders"})), "orders")
    assert not is_subscribed(GroupFacts("Stable", "consumer", frozenset({"orders"})), "clicks")

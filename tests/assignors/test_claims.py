"""Groups with false, outdated or void claims: cases in which this result is right and Kafka's classes are wrong."""

from __future__ import annotations

import pytest

from kcli.assignors import sticky
from kcli.assignors.lookup import STRATEGIES
from kcli.assignors.model import Member, Topic
from kcli.structs import TopicPartition

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
every_assignor = pytest.mark.parametrize("name", STRATEGIES)


def member(name: str, topics: str = "t", *owned: TopicPartition, generation: int = -1) -> Member:
    return Member(name, frozenset(topics.split()), owned, generation)


@every_assignor
def test_a_group_without_members_has_an_empty_assignment(name: str) -> None:
    assert STRATEGIES[name].assign({"t": Topic(3)}, []) == {}


@every_assignor
def test_topics_that_do_not_exist_or_have_no_partitions_are_ignored(name: str) -> None:
    found = STRATEGIES[name].assign(
        {"t": Topic(0), "unwanted": Topic(3)}, [member("a", "t ghost"), member("b", "ghost")]
    )
    assert found == {"a": [], "b": []}


@every_assignor
def test_a_member_whose_pattern_matches_no_topic_gets_no_partitions(name: str) -> None:
    """Kafka's sticky classes treat such a member, if it is the first, as if it were subscribed like the others."""
    found = STRATEGIES[name].assign({"t": Topic(2)}, [member("a", ""), member("b")])
    assert found == {"a": [], "b": [T0, T1]}


@pytest.mark.parametrize("others", ["t", "t u"])
def test_claims_to_partitions_that_no_longer_exist_are_void(others: str) -> None:
    """Kafka's sticky classes assign them to the member that claims them."""
    members = [member("a", "t", T0, T1, T2, generation=4), member("b", others, generation=4)]
    found = sticky.assign({"t": Topic(2), "u": Topic(1)}, members)
    assert sorted(each for partitions in found.values() for each in partitions) == [
        T0,
        T1,
        *([TopicPartition("u", 0)] if "u" in others else []),
    ]


@pytest.mark.parametrize("others", ["t", "t u"])
def test_an_older_generations_claim_is_void(others: str) -> None:
    members = [member("a", "t", T0, T1, generation=4), member("b", others, T1, generation=5)]
    found = sticky.assign({"t": Topic(2)}, members)
    assert found == {"a": [T0], "b": [T1]}


def test_a_third_claim_of_a_newer_generation_settles_a_conflict() -> None:
    members = [member(name, "t", T0, generation=at) for name, at in (("a", 4), ("b", 4), ("c", 5))]
    assert sticky.assign({"t": Topic(3)}, members)["c"] == [T0]


@pytest.mark.parametrize("others", ["t", "t u"])
def test_a_partition_claimed_twice_in_a_generation_is_withheld_until_both_have_revoked_it(others: str) -> None:
    """Kafka's cooperative class assigns it at once where subscriptions differ, though another member still reads it."""
    members = [member("a", "t", T0, generation=4), member("b", others, T0, T1, generation=4)]
    first = sticky.assign_cooperatively({"t": Topic(2)}, members)
    assert first == {"a": [], "b": [T1]}
    again = [each._replace(owned=tuple(first[each.id]), generation=5) for each in members]
    assert sticky.assign_cooperatively({"t": Topic(2)}, again) == {"a": [T0], "b": [T1]}


def test_a_partition_does_not_go_back_to_a_former_owner_that_is_not_subscribed() -> None:
    """Kafka's sticky classes assign it to that member, or throw a NullPointerException."""
    topics = {"t": Topic(6), "u": Topic(1)}
    owned = [TopicPartition("t", p) for p in range(6)]
    members = [
        member("a", "t", *owned, generation=5),
        member("b", "t", generation=5),
        member("c", "u", T0, T1, T2, generation=4),
    ]
    found = sticky.assign(topics, members)
    assert found["c"] == [TopicPartition("u", 0)]
    assert [len(found["a"]), len(found["b"])] == [3, 3]


def test_a_partition_that_moves_prefers_its_owner_before_the_newest_generation() -> None:
    members = [
        member("a", "t", T0, T1, T2, generation=7),
        member("b", "t", generation=7),
        member("c", "t u", T0, generation=6),
    ]
    assert sticky.assign({"t": Topic(3)}, members) == {"a": [T2], "b": [T1], "c": [T0]}


def test_a_partition_claimed_twice_by_one_member_is_not_a_conflict() -> None:
    members = [member("a", "t", T1, T1, generation=7), member("b", "t", T0, generation=7)]
    assert sticky.assign({"t": Topic(2)}, members) == {"a": [T1], "b": [T0]}


def test_static_members_keep_their_partitions_under_new_member_ids() -> None:
    """KIP-345: a restarted static member has a new member id and must get the same range."""
    before = [Member(f"{mark}-old", frozenset({"t"}), instance_id=mark) for mark in "abc"]
    after = [Member(f"{mark}-new", frozenset({"t"}), instance_id=mark) for mark in "abc"]
    after.insert(0, Member("0-dynamic", frozenset({"t"})))
    for name in ("range", "roundrobin"):
        assign = STRATEGIES[name].assign
        old, new = assign({"t": Topic(3)}, before), assign({"t": Topic(3)}, after)
        assert [old[each.id] for each in before] == [new[each.id] for each in after[1:]]
        assert new["0-dynamic"] == []


def test_names_sort_by_utf16_code_units() -> None:
    """By UTF-16 code units: a character beyond the first plane comes before U+FF21."""
    found = STRATEGIES["range"].assign({"t": Topic(1)}, [member("Ａ"), member("𝒜")])
    assert found == {"𝒜": [T0], "Ａ": []}

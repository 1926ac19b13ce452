"""Groups that lie, shrink, want nothing or nothing that exists: what Kafka's classes get wrong is right here."""

from __future__ import annotations

import pytest

from kcli.assignors import cooperative_sticky, sticky
from kcli.assignors.model import Member, Topic
from kcli.assignors.strategies import STRATEGIES
from kcli.structs import TopicPartition

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
every_assignor = pytest.mark.parametrize("name", STRATEGIES)


def member(name: str, topics: str = "t", *owned: TopicPartition, generation: int = -1) -> Member:
    return Member(name, frozenset(topics.split()), owned, generation)


@every_assignor
def test_a_group_without_members_has_nothing_to_share(name: str) -> None:
    assert STRATEGIES[name].assign({"t": Topic(3)}, []) == {}


@every_assignor
def test_topics_that_do_not_exist_or_have_no_partitions_give_nothing(name: str) -> None:
    found = STRATEGIES[name].assign(
        {"t": Topic(0), "unwanted": Topic(3)}, [member("a", "t ghost"), member("b", "ghost")]
    )
    assert found == {"a": [], "b": []}


@every_assignor
def test_a_member_whose_pattern_matches_nothing_gets_nothing(name: str) -> None:
    """Kafka's sticky classes take such a member, if it is the first they meet, for one that wants what others want."""
    found = STRATEGIES[name].assign({"t": Topic(2)}, [member("a", ""), member("b")])
    assert found == {"a": [], "b": [T0, T1]}


@pytest.mark.parametrize("others", ["t", "t u"])
def test_partitions_of_a_topic_made_anew_and_smaller_are_void(others: str) -> None:
    """Kafka's sticky classes go on assigning them to whoever claims them."""
    members = [member("a", "t", T0, T1, T2, generation=4), member("b", others, generation=4)]
    found = sticky.assign({"t": Topic(2), "u": Topic(1)}, members)
    assert sorted(each for partitions in found.values() for each in partitions) == [
        T0,
        T1,
        *([TopicPartition("u", 0)] if "u" in others else []),
    ]


@pytest.mark.parametrize("others", ["t", "t u"])
def test_a_claim_of_a_member_that_slept_through_a_rebalance_gives_way(others: str) -> None:
    members = [member("a", "t", T0, T1, generation=4), member("b", others, T1, generation=5)]
    found = sticky.assign({"t": Topic(2)}, members)
    assert found == {"a": [T0], "b": [T1]}


def test_a_third_claim_of_a_newer_generation_settles_a_dispute() -> None:
    members = [member(name, "t", T0, generation=at) for name, at in (("a", 4), ("b", 4), ("c", 5))]
    assert sticky.assign({"t": Topic(3)}, members)["c"] == [T0]


@pytest.mark.parametrize("others", ["t", "t u"])
def test_what_two_members_claim_with_equal_right_is_withheld_until_both_have_let_go(others: str) -> None:
    """Kafka's cooperative class lets one of them keep it where subscriptions differ, though the other reads it too."""
    members = [member("a", "t", T0, generation=4), member("b", others, T0, T1, generation=4)]
    first = cooperative_sticky.assign({"t": Topic(2)}, members)
    assert first == {"a": [], "b": [T1]}
    again = [each._replace(owned=tuple(first[each.id]), generation=5) for each in members]
    assert cooperative_sticky.assign({"t": Topic(2)}, again) == {"a": [T0], "b": [T1]}


def test_a_partition_is_not_given_back_to_a_former_owner_who_does_not_want_it() -> None:
    """Kafka's sticky classes give it to that member, or throw a NullPointerException."""
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


def test_what_must_move_goes_to_who_had_it_before_the_newest_generation() -> None:
    members = [
        member("a", "t", T0, T1, T2, generation=7),
        member("b", "t", generation=7),
        member("c", "t u", T0, generation=6),
    ]
    assert sticky.assign({"t": Topic(3)}, members) == {"a": [T2], "b": [T1], "c": [T0]}


def test_a_partition_named_twice_by_its_owner_is_no_dispute() -> None:
    members = [member("a", "t", T1, T1, generation=7), member("b", "t", T0, generation=7)]
    assert sticky.assign({"t": Topic(2)}, members) == {"a": [T1], "b": [T0]}


def test_static_members_keep_their_places_under_new_member_ids() -> None:
    """KIP-345: a restarted static member has another member id, and must find its range as it was."""
    before = [Member(f"{mark}-old", frozenset({"t"}), instance_id=mark) for mark in "abc"]
    after = [Member(f"{mark}-new", frozenset({"t"}), instance_id=mark) for mark in "abc"]
    after.insert(0, Member("0-dynamic", frozenset({"t"})))
    for name in ("range", "roundrobin"):
        assign = STRATEGIES[name].assign
        old, new = assign({"t": Topic(3)}, before), assign({"t": Topic(3)}, after)
        assert [old[each.id] for each in before] == [new[each.id] for each in after[1:]]
        assert new["0-dynamic"] == []


def test_names_sort_as_in_java() -> None:
    """By UTF-16 code units: a character beyond the first plane comes before U+FF21."""
    found = STRATEGIES["range"].assign({"t": Topic(1)}, [member("Ａ"), member("𝒜")])
    assert found == {"𝒜": [T0], "Ａ": []}

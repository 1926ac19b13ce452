"""The server's assignors (KIP-848): results of Kafka 4.3.1's classes, and properties of every assignment."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.assignors.java_hashing import copied_table, grown_table, hash_of_id, hash_of_text, order_of_id, walk
from kcli.assignors.lookup import SERVER_ASSIGNORS, STRATEGIES, assign_by
from kcli.assignors.model import Assignment, Member, Topic
from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from tests.assignors.cases import Case
from tests.assignors.properties import faults
from tests.assignors.server_cases import make_server_case

SEEDS = st.integers(min_value=0, max_value=2**64)


def members(*given_members: str) -> list[Member]:
    """`id: topics: partitions of the first topic that it owns`."""
    found = []
    for each in given_members:
        name, topics, owned = (part.strip() for part in each.split(":"))
        wanted = topics.split()
        mine = tuple(TopicPartition(wanted[0], int(p)) for p in owned.split())
        found.append(Member(name, frozenset(wanted), mine))
    return found


def numbers(found: Assignment, topic: str) -> dict[str, list[int]]:
    return {
        member: [each.partition for each in partitions if each.topic == topic] for member, partitions in found.items()
    }


def test_a_new_member_takes_only_surplus_partitions() -> None:
    found = assign_by("uniform", {"t": Topic(6)}, members("a: t: 0 2 4", "b: t: 1 3 5", "c: t:"))
    assert numbers(found, "t") == {"a": [0, 2], "b": [1, 3], "c": [4, 5]}


@pytest.mark.parametrize("rich", "abc")
def test_the_extra_partition_stays_with_its_owner(rich: str) -> None:
    """Before 4.3 Kafka gave it to the first member in its table, so it moved at each rebalance."""
    others = iter("23")
    group = members(*(f"{each}: t: {'0 1' if each == rich else next(others)}" for each in "abc"))
    found = assign_by("uniform", {"t": Topic(4)}, group)
    assert found == {each.id: list(each.owned) for each in group}


def test_a_partition_moves_from_the_largest_to_the_smallest_subscriber() -> None:
    found = assign_by("uniform", {"t": Topic(6), "u": Topic(1)}, members("a: t u: 0 1 2 3 4 5", "b: t:", "c: u:"))
    assert numbers(found, "t") == {"a": [0, 1, 2], "b": [3, 4, 5], "c": []}
    assert numbers(found, "u") == {"a": [], "b": [], "c": [0]}


def test_the_servers_range_sorts_static_members_first_and_ignores_racks() -> None:
    group = [Member("a", frozenset("t"), rack="x"), Member("z", frozenset("t"), instance_id="i", rack="y")]
    topic = Topic(3, (frozenset("x"), frozenset("y"), frozenset("y")))
    assert numbers(assign_by("server-range", {"t": topic}, group), "t") == {"z": [0, 1], "a": [2]}


def test_topics_that_do_not_exist_are_not_assigned() -> None:
    for name in SERVER_ASSIGNORS:
        assert assign_by(name, {}, members("a: ghost:", "b: t: 0")) == {"a": [], "b": []}
        assert assign_by(name, {"t": Topic(1)}, []) == {}


def test_every_assignor_is_found_by_its_name() -> None:
    group = members("a: t:", "b: t:")
    for name in (*STRATEGIES, *SERVER_ASSIGNORS, STRATEGIES["range"].java_class):
        assert sorted(map(len, assign_by(name, {"t": Topic(4)}, group).values())) == [2, 2], name
    with pytest.raises(ConfigError, match=r"'fair' is not a known assignor.*cooperative-sticky, uniform, server-range"):
        assign_by("fair", {}, [])


def test_hash_codes_and_iteration_order_equal_javas() -> None:
    """Computed by OpenJDK 17: hashCode, Uuid.hashCode, Uuid.compareTo, the order of a HashSet."""
    assert hash_of_text("") == 0
    assert hash_of_text("hello") == 99162322
    assert hash_of_text("orders-\U0001f600") == 3906022731
    high, low = 0x8000_0000_0000_0001, 0x7FFF_FFFF_0000_0000
    assert hash_of_id(UUID(int=high << 64 | low)) == 4294967294
    assert order_of_id(UUID(int=high << 64)) < order_of_id(UUID(int=low))
    words = "a b Zebra orders payments returns-2026 users.v1 x_y"
    walked = walk(words.split(), 16, hash_of_text)
    assert (grown_table(12), grown_table(13), copied_table(11), copied_table(12)) == (16, 32, 16, 32)
    assert " ".join(walked) == "a b x_y Zebra payments orders returns-2026 users.v1"


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_every_partition_is_assigned_once_to_a_subscriber_and_balanced(seed: int) -> None:
    case = make_server_case(Random(seed))
    for name in SERVER_ASSIGNORS:
        assert not list(faults(case, name, assign_by(name, case.topics, case.members))), case


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_the_order_of_members_and_partitions_does_not_matter(seed: int) -> None:
    topics, group = make_server_case(Random(seed))
    random = Random(seed + 1)
    shuffled = [each._replace(owned=tuple(random.sample(each.owned, len(each.owned)))) for each in group]
    random.shuffle(shuffled)
    for name in SERVER_ASSIGNORS:
        assert assign_by(name, topics, group) == assign_by(name, topics, shuffled)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_a_repeated_rebalance_changes_nothing(seed: int) -> None:
    topics, group = make_server_case(Random(seed))
    before = assign_by("uniform", topics, group)
    settled = [each._replace(owned=tuple(before[each.id])) for each in group]
    after = assign_by("uniform", topics, settled)
    assert after == before, Case(topics, settled)

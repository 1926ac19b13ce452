"""The server's assignors (KIP-848): what Kafka 4.3.1's classes answered, and what must hold whatever they are asked."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.assignors.foresee import SERVER_ASSIGNORS, assign_by
from kcli.assignors.java_hashing import copied_table, grown_table, hash_of_id, hash_of_text, order_of_id, walk
from kcli.assignors.model import Assignment, Member, Topic
from kcli.assignors.strategies import STRATEGIES
from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from tests.assignors.cases import Case
from tests.assignors.properties import faults
from tests.assignors.server_cases import make_server_case

SEEDS = st.integers(min_value=0, max_value=2**64)


def members(*told: str) -> list[Member]:
    """`id: topics: partitions of the first topic that it owns`."""
    found = []
    for each in told:
        name, topics, owned = (part.strip() for part in each.split(":"))
        wanted = topics.split()
        mine = tuple(TopicPartition(wanted[0], int(p)) for p in owned.split())
        found.append(Member(name, frozenset(wanted), mine))
    return found


def numbers(found: Assignment, topic: str) -> dict[str, list[int]]:
    return {
        member: [each.partition for each in partitions if each.topic == topic] for member, partitions in found.items()
    }


def test_a_newcomer_takes_what_others_have_too_much_of_and_no_more() -> None:
    found = assign_by("uniform", {"t": Topic(6)}, members("a: t: 0 2 4", "b: t: 1 3 5", "c: t:"))
    assert numbers(found, "t") == {"a": [0, 2], "b": [1, 3], "c": [4, 5]}


@pytest.mark.parametrize("rich", "abc")
def test_the_extra_partition_stays_with_who_has_it(rich: str) -> None:
    """Before 4.3 Kafka left it to the first in its table, so it went round."""
    others = iter("23")
    group = members(*(f"{each}: t: {'0 1' if each == rich else next(others)}" for each in "abc"))
    found = assign_by("uniform", {"t": Topic(4)}, group)
    assert found == {each.id: list(each.owned) for each in group}


def test_a_partition_goes_from_the_richest_to_the_poorest_who_want_it() -> None:
    found = assign_by("uniform", {"t": Topic(6), "u": Topic(1)}, members("a: t u: 0 1 2 3 4 5", "b: t:", "c: u:"))
    assert numbers(found, "t") == {"a": [0, 1, 2], "b": [3, 4, 5], "c": []}
    assert numbers(found, "u") == {"a": [], "b": [], "c": [0]}


def test_the_servers_range_puts_static_members_first_and_knows_no_racks() -> None:
    group = [Member("a", frozenset("t"), rack="x"), Member("z", frozenset("t"), instance_id="i", rack="y")]
    topic = Topic(3, (frozenset("x"), frozenset("y"), frozenset("y")))
    assert numbers(assign_by("server-range", {"t": topic}, group), "t") == {"z": [0, 1], "a": [2]}


def test_topics_that_do_not_exist_are_nobodys() -> None:
    for name in SERVER_ASSIGNORS:
        assert assign_by(name, {}, members("a: ghost:", "b: t: 0")) == {"a": [], "b": []}
        assert assign_by(name, {"t": Topic(1)}, []) == {}


def test_all_assignors_go_by_their_names() -> None:
    group = members("a: t:", "b: t:")
    for name in (*STRATEGIES, *SERVER_ASSIGNORS, STRATEGIES["range"].java_class):
        assert sorted(map(len, assign_by(name, {"t": Topic(4)}, group).values())) == [2, 2], name
    with pytest.raises(ConfigError, match=r"no assignor 'fair'.*cooperative-sticky, uniform, server-range"):
        assign_by("fair", {}, [])


def test_hash_codes_and_orders_are_javas() -> None:
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
def test_every_partition_goes_once_to_somebody_who_wants_it_and_evenly(seed: int) -> None:
    case = make_server_case(Random(seed))
    for name in SERVER_ASSIGNORS:
        assert not list(faults(case, name, assign_by(name, case.topics, case.members))), case


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_the_order_in_which_members_and_partitions_come_does_not_matter(seed: int) -> None:
    topics, group = make_server_case(Random(seed))
    random = Random(seed + 1)
    shuffled = [each._replace(owned=tuple(random.sample(each.owned, len(each.owned)))) for each in group]
    random.shuffle(shuffled)
    for name in SERVER_ASSIGNORS:
        assert assign_by(name, topics, group) == assign_by(name, topics, shuffled)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_an_assignment_stays_as_it_is(seed: int) -> None:
    topics, group = make_server_case(Random(seed))
    before = assign_by("uniform", topics, group)
    settled = [each._replace(owned=tuple(before[each.id])) for each in group]
    after = assign_by("uniform", topics, settled)
    assert after == before, Case(topics, settled)

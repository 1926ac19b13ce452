"""Properties of all assignors over difficult random groups; the benchmark checks ten thousand of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.assignors.lookup import STRATEGIES
from tests.assignors.cases import Case, make_case
from tests.assignors.properties import faults

SEEDS = st.integers(min_value=0, max_value=2**64)


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_every_partition_is_assigned_once_to_a_subscriber_and_balanced(name: str, seed: int) -> None:
    case = make_case(Random(seed))
    found = STRATEGIES[name].assign(case.topics, case.members)
    assert not list(faults(case, name, found)), case


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_the_order_of_members_does_not_matter(name: str, seed: int) -> None:
    case = make_case(Random(seed))
    shuffled = Random(seed + 1).sample(case.members, len(case.members))
    assign = STRATEGIES[name].assign
    assert assign(case.topics, case.members) == assign(case.topics, shuffled)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_a_balanced_assignment_does_not_change(seed: int) -> None:
    topics, members = make_case(Random(seed))
    assign = STRATEGIES["sticky"].assign
    before = assign(topics, members)
    settled = [member._replace(owned=tuple(before[member.id]), generation=8) for member in members]
    after = assign(topics, settled)
    alike = all(member.topics == members[0].topics for member in members)
    if alike and not any(topic.racks for topic in topics.values()):
        assert {m: set(p) for m, p in after.items()} == {m: set(p) for m, p in before.items()}
    else:  # racks may be heeded better with hindsight, but nothing goes to and fro for ever
        assert not list(faults(Case(topics, settled), "sticky", after))


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_a_cooperative_group_settles_and_then_all_partitions_are_assigned(seed: int) -> None:
    """A group is settled when no member has to revoke a partition.

    Racks with unequal subscriptions are excluded: such a group may never settle, with Kafka's class either.
    """
    topics, members = make_case(Random(seed))
    if any(topic.racks for topic in topics.values()):
        members = [member._replace(topics=members[0].topics) for member in members]
    for generation in range(8, 14):
        found = STRATEGIES["cooperative-sticky"].assign(topics, members)
        at_rest = all(set(member.owned) <= set(found[member.id]) for member in members)
        members = [member._replace(owned=tuple(found[member.id]), generation=generation) for member in members]
        if at_rest:
            break
    else:
        pytest.fail(f"no rest for {Case(topics, members)}")
    assert not list(faults(Case(topics, members), "sticky", found))

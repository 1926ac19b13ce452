"""The steps from the owned partitions to the target assignment."""

from __future__ import annotations

import uuid

from kcli.consumer.group.reconciliation import (
    OwnedTopic,
    ReconciliationStep,
    next_step,
    partitions_of,
    without_partitions,
)
from kcli.structs import TopicPartition

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def test_the_first_assignment_is_all_new() -> None:
    step = next_step({}, {A: frozenset({0, 1})}, {A: "t"})
    assert step == ReconciliationStep([], [T0, T1], {A: OwnedTopic("t", frozenset({0, 1}))}, frozenset())


def test_partitions_that_stay_are_neither_revoked_nor_added() -> None:
    step = next_step({A: OwnedTopic("t", frozenset({0, 1}))}, {A: frozenset({1, 2})}, {})
    assert (step.revoked, step.added) == ([T0], [T2])


def test_a_topic_without_a_name_waits_and_the_others_do_not() -> None:
    step = next_step({}, {A: frozenset({0}), B: frozenset({5})}, {A: "t"})
    assert (step.added, step.unnamed) == ([T0], frozenset({B}))


def test_a_deleted_topic_can_be_revoked() -> None:
    step = next_step({A: OwnedTopic("t", frozenset({0}))}, {}, {})
    assert (step.revoked, step.owned) == ([T0], {})


def test_a_topic_created_again_is_a_different_topic() -> None:
    step = next_step({A: OwnedTopic("t", frozenset({0}))}, {B: frozenset({0})}, {B: "t"})
    assert (step.revoked, step.added) == ([T0], [T0])


def test_a_topic_without_partitions_is_not_owned() -> None:
    assert next_step({}, {A: frozenset()}, {A: "t"}).owned == {}


def test_owned_partitions_after_a_revocation() -> None:
    owned = {A: OwnedTopic("t", frozenset({0, 1})), B: OwnedTopic("u", frozenset({0}))}
    assert partitions_of(without_partitions(owned, [T0, TopicPartition("u", 0)])) == [T1]

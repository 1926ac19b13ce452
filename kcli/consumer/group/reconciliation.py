"""Reconciliation of the owned partitions with the target assignment of the broker (KIP-848). Pure.

Topics are identified by their ids: a topic that was deleted and created again is a different topic with the same name,
so its old partitions are revoked before the new ones are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.consumer.group.kip848_protocol import PartitionsById


class OwnedTopic(NamedTuple):
    """The name of a topic when its partitions were added, and the partitions."""

    name: str
    partitions: frozenset[int]


Owned = dict["UUID", OwnedTopic]


class ReconciliationStep(NamedTuple):
    """Revoke `revoked`, add `added`; then `owned` is owned. `unnamed`: ids of topics whose name is not known yet."""

    revoked: list[TopicPartition]
    added: list[TopicPartition]
    owned: Owned
    unnamed: frozenset[UUID]


def next_step(owned: Owned, target: PartitionsById, names: Mapping[UUID, str]) -> ReconciliationStep:
    """Return the step towards `target` that is possible with the known names."""
    assigned: Owned = {}
    unnamed = set()
    for topic_id, numbers in target.items():
        name = owned[topic_id].name if topic_id in owned else names.get(topic_id)
        if name is None:
            unnamed.add(topic_id)
        elif numbers:
            assigned[topic_id] = OwnedTopic(name, numbers)
    return ReconciliationStep(_missing(owned, assigned), _missing(assigned, owned), assigned, frozenset(unnamed))


def _missing(some: Owned, excluded: Owned) -> list[TopicPartition]:
    """Return the partitions of `some` that are not in `excluded`, sorted."""
    missing = []
    for topic_id, topic in some.items():
        present = excluded[topic_id].partitions if topic_id in excluded else frozenset()
        missing += [TopicPartition(topic.name, number) for number in topic.partitions - present]
    return sorted(missing)


def partitions_of(owned: Owned) -> list[TopicPartition]:
    """Return all owned partitions, sorted."""
    return sorted(TopicPartition(topic.name, number) for topic in owned.values() for number in topic.partitions)


def without_partitions(owned: Owned, partitions: Iterable[TopicPartition]) -> Owned:
    """Return the owned topics without these partitions."""
    removed = set(partitions)
    remaining = {}
    for topic_id, topic in owned.items():
        kept = frozenset(number for number in topic.partitions if TopicPartition(topic.name, number) not in removed)
        if kept:
            remaining[topic_id] = OwnedTopic(topic.name, kept)
    return remaining


def by_id(owned: Owned) -> PartitionsById:
    """Return the owned partitions by topic id, as in the protocol."""
    return {topic_id: topic.partitions for topic_id, topic in owned.items()}

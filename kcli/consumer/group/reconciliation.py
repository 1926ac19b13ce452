"""From what a member owns to what the broker wants it to own: what to give back, what to take on (KIP-848). Pure.

Topics are told apart by their ids: a topic that was deleted and made again is another one under the same name, so its
partitions are given back before those of the same names are taken on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.consumer.group.kip848_protocol import PartitionsById


class OwnedTopic(NamedTuple):
    """A topic as it was called when its partitions were taken on, and which they are."""

    name: str
    partitions: frozenset[int]


Owned = dict["UUID", OwnedTopic]


class Step(NamedTuple):
    """Give back `revoked`, take on `added`, then `owned` is what there is. `unnamed`: ids without a known name, which
    have to wait."""

    revoked: list[TopicPartition]
    added: list[TopicPartition]
    owned: Owned
    unnamed: frozenset[UUID]


def next_step(owned: Owned, target: PartitionsById, names: Mapping[UUID, str]) -> Step:
    """What brings a member nearest to `target` with the names that are known now."""
    wanted: Owned = {}
    unnamed = set()
    for topic_id, numbers in target.items():
        name = owned[topic_id].name if topic_id in owned else names.get(topic_id)
        if name is None:
            unnamed.add(topic_id)
        elif numbers:
            wanted[topic_id] = OwnedTopic(name, numbers)
    return Step(_missing(owned, wanted), _missing(wanted, owned), wanted, frozenset(unnamed))


def _missing(some: Owned, others: Owned) -> list[TopicPartition]:
    """The partitions of `some` that `others` lacks, sorted."""
    found = []
    for topic_id, topic in some.items():
        there = others[topic_id].partitions if topic_id in others else frozenset()
        found += [TopicPartition(topic.name, number) for number in topic.partitions - there]
    return sorted(found)


def partitions_of(owned: Owned) -> list[TopicPartition]:
    """All owned partitions, sorted."""
    return sorted(TopicPartition(topic.name, number) for topic in owned.values() for number in topic.partitions)


def without(owned: Owned, partitions: Iterable[TopicPartition]) -> Owned:
    """What is left when these are gone."""
    gone = set(partitions)
    left = {}
    for topic_id, topic in owned.items():
        kept = frozenset(number for number in topic.partitions if TopicPartition(topic.name, number) not in gone)
        if kept:
            left[topic_id] = OwnedTopic(topic.name, kept)
    return left


def by_id(owned: Owned) -> PartitionsById:
    """The owned partitions as the protocol names them."""
    return {topic_id: topic.partitions for topic_id, topic in owned.items()}

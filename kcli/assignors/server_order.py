"""Order in which the group coordinator (KIP-848) iterates over members and topics. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from kcli.assignors.java_hashing import (
    copied_table,
    grown_table,
    hash_of_id,
    hash_of_text,
    order_of_id,
    timeline_walk,
    walk,
)
from kcli.assignors.model import Member, Topics, java_order
from kcli.structs import TopicPartition


def in_coordinator_order(members: Iterable[Member]) -> list[Member]:
    """Return the members, and their owned partitions, in the most likely order of the coordinator's tables.

    The order of keys that share a bucket depends on the history, which only ConsumerGroupDescribe shows. Assumed here:
    a group that has only grown, and whose members were assigned whole topics at a time.
    """
    by_id = sorted(members, key=lambda member: java_order(member.id))
    by_slot = timeline_walk(by_id, lambda member: hash_of_text(member.id))
    return [member._replace(owned=_topic_by_topic(member.owned)) for member in by_slot]


def walk_names(names: Collection[str]) -> list[str]:
    """Return the topics of a subscription in the coordinator's order."""
    return walk(sorted(names, key=java_order), copied_table(len(names)), hash_of_text)


def walk_members(members: Sequence[Member]) -> list[Member]:
    """Return the members in the order in which an assignor of the server iterates over them."""
    return walk(members, grown_table(len(members)), lambda member: hash_of_text(member.id))


def walk_topics(names: Iterable[str], topics: Topics, table: int) -> list[str]:
    """Return topic names in the order of a hash table of their ids; sorted by name if ids are unknown."""
    ids = _ids_of(topics)
    if ids is None:
        return sorted(names, key=java_order)
    return walk(names, table, lambda name: hash_of_id(ids[name]))


def order_of_topics(topics: Topics) -> Callable[[str], Any]:
    """Return a sort key that orders topic names by topic id; by name if ids are unknown."""
    ids = _ids_of(topics)
    return java_order if ids is None else lambda name: order_of_id(ids[name])


def _topic_by_topic(owned: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    places = {topic: place for place, topic in enumerate(walk_names({each.topic for each in owned}))}
    return tuple(sorted(owned, key=lambda each: (places[each.topic], each.partition)))


def _ids_of(topics: Topics) -> dict[str, UUID] | None:
    """Return the topic ids by name, or None if some are unknown."""
    ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
    return ids if len(ids) == len(topics) else None

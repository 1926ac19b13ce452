"""In which order the group coordinator (KIP-848) takes members and topics. Pure."""

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


def as_it_comes(members: Iterable[Member]) -> list[Member]:
    """The members, and what they own, as the coordinator most likely has them in its tables.

    Where keys share buckets their order is a matter of history, which only ConsumerGroupDescribe tells: here it is
    that of a group that has only grown, whose members were given whole topics at a time.
    """
    by_id = sorted(members, key=lambda member: java_order(member.id))
    by_slot = timeline_walk(by_id, lambda member: hash_of_text(member.id))
    return [member._replace(owned=_topic_by_topic(member.owned)) for member in by_slot]


def walk_names(names: Collection[str]) -> list[str]:
    """The topics of a subscription as the coordinator has them."""
    return walk(sorted(names, key=java_order), copied_table(len(names)), hash_of_text)


def walk_members(members: Sequence[Member]) -> list[Member]:
    """The members as an assignor of the server meets them."""
    return walk(members, grown_table(len(members)), lambda member: hash_of_text(member.id))


def walk_topics(names: Iterable[str], topics: Topics, table: int) -> list[str]:
    """Names of some of the topics in the order of a hash table of their ids; if ids are not known, sorted."""
    ids = _ids_of(topics)
    if ids is None:
        return sorted(names, key=java_order)
    return walk(names, table, lambda name: hash_of_id(ids[name]))


def order_of_topics(topics: Topics) -> Callable[[str], Any]:
    """A sort key that puts names of topics in the order of their ids; if ids are not known, of the names."""
    ids = _ids_of(topics)
    return java_order if ids is None else lambda name: order_of_id(ids[name])


def _topic_by_topic(owned: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    places = {topic: place for place, topic in enumerate(walk_names({each.topic for each in owned}))}
    return tuple(sorted(owned, key=lambda each: (places[each.topic], each.partition)))


def _ids_of(topics: Topics) -> dict[str, UUID] | None:
    """The ids by name, or None if not all are known."""
    ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
    return ids if len(ids) == len(topics) else None

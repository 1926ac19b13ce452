"""In which order the group coordinator (KIP-848) takes members and topics. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from kcli.assignors.java_hashing import grown_table, hash_of_id, hash_of_text, order_of_id, walk
from kcli.assignors.model import Member, Topics, java_order


def walk_members(members: Sequence[Member]) -> list[Member]:
    """The members as an assignor of the server meets them."""
    return walk(members, grown_table(len(members)), lambda member: hash_of_text(member.id))


def walk_topics(names: Iterable[str], topics: Topics, table: int) -> list[str]:
    """Names of some of the topics in the order of a hash table of their ids; if ids are not known, sorted."""
    ids = ids_of(topics)
    if ids is None:
        return sorted(names, key=java_order)
    return walk(names, table, lambda name: hash_of_id(ids[name]))


def order_of_topics(topics: Topics) -> Callable[[str], Any]:
    """A sort key that puts names of topics in the order of their ids; if ids are not known, of the names."""
    ids = ids_of(topics)
    return java_order if ids is None else lambda name: order_of_id(ids[name])


def ids_of(topics: Topics) -> dict[str, UUID] | None:
    """The ids by name, or None if not all are known."""
    ids = {name: topic.id for name, topic in topics.items() if topic.id is not None}
    return ids if len(ids) == len(topics) else None

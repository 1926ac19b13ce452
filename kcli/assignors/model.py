"""What goes into an assignor and what comes out of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kcli.structs import TopicPartition

NO_GENERATION = -1


class Topic(NamedTuple):
    """A topic as an assignor sees it. `racks[p]`: the racks of the replicas of partition p; () if they are unknown.

    Only the server's assignors ask for the `id`; some of their decisions go by it.
    """

    partitions: int
    racks: tuple[frozenset[str], ...] = ()
    id: UUID | None = None


class Member(NamedTuple):
    """A member of a group: what it wants, and what it says it owns since which generation (-1: it did not say)."""

    id: str
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


# A subscribed topic that is not in it does not exist: its subscribers get nothing of it.
Topics = Mapping[str, Topic]

# Every member is a key.
Assignment = dict[str, list[TopicPartition]]


def static_first(members: Sequence[Member]) -> list[Member]:
    """The members as Kafka sorts them: static ones by instance id, then the others by member id."""
    return sorted(members, key=_place)


def subscribed(topics: Topics, members: Iterable[Member]) -> Topics:
    """Those topics that exist, have partitions, and are wanted by somebody; in Java's order of their names."""
    wanted: set[str] = set().union(*(member.topics for member in members))
    return {name: topics[name] for name in sorted(wanted & topics.keys(), key=java_order) if topics[name].partitions}


def subscribers(topics: Topics, members: Sequence[Member]) -> dict[str, list[int]]:
    """For each of the topics the places, among the members, of those that want it."""
    alike: dict[frozenset[str], list[int]] = {}
    for place, member in enumerate(members):
        alike.setdefault(member.topics, []).append(place)
    found: dict[str, list[int]] = {topic: [] for topic in topics}
    for wanted, places in alike.items():
        for topic in wanted:
            if topic in found:
                found[topic] += places
    if len(alike) > 1:
        for places in found.values():
            places.sort()
    return found


def java_order(text: str) -> bytes:
    """A sort key that puts strings in Java's order, that of UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _place(member: Member) -> tuple[bool, bytes]:
    if member.instance_id is None:
        return True, java_order(member.id)
    return False, java_order(member.instance_id)

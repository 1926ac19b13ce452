"""Input and output of an assignor: topics, members, and the assignment."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kcli.structs import TopicPartition

NO_GENERATION = -1


class Topic(NamedTuple):
    """A topic as an assignor sees it.

    `racks[p]` are the racks of the replicas of partition p; () if they are unknown. Only the assignors of the server
    use the `id`: some of their decisions depend on it.
    """

    partitions: int
    racks: tuple[frozenset[str], ...] = ()
    id: UUID | None = None


class Member(NamedTuple):
    """A member of a group: its subscription, and the partitions it claims to own since a generation (-1: unknown)."""

    id: str
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


# A subscribed topic that is missing here does not exist: its subscribers get no partitions of it.
Topics = Mapping[str, Topic]

# Every member is a key.
Assignment = dict[str, list[TopicPartition]]


def static_first(members: Sequence[Member]) -> list[Member]:
    """Return the members in Kafka's order: static ones by instance id, then the others by member id."""
    return sorted(members, key=_sort_key)


def subscribed(topics: Topics, members: Iterable[Member]) -> Topics:
    """Return the existing topics that have partitions and at least one subscriber, in Java's order of their names."""
    names: set[str] = set().union(*(member.topics for member in members))
    return {name: topics[name] for name in sorted(names & topics.keys(), key=java_order) if topics[name].partitions}


def subscribers(topics: Topics, members: Sequence[Member]) -> dict[str, list[int]]:
    """Return the subscribers of each topic as indexes into `members`."""
    indexes_by_topics: dict[frozenset[str], list[int]] = {}
    for index, member in enumerate(members):
        indexes_by_topics.setdefault(member.topics, []).append(index)
    by_topic: dict[str, list[int]] = {topic: [] for topic in topics}
    for names, indexes in indexes_by_topics.items():
        for topic in names:
            if topic in by_topic:
                by_topic[topic] += indexes
    if len(indexes_by_topics) > 1:
        for indexes in by_topic.values():
            indexes.sort()
    return by_topic


def java_order(text: str) -> bytes:
    """Return a sort key for Java's order of strings, that of UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _sort_key(member: Member) -> tuple[bool, bytes]:
    if member.instance_id is None:
        return True, java_order(member.id)
    return False, java_order(member.instance_id)

"""What may happen to a group: members come and go, topics grow. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcli.assignors.model import Member, Topic, Topics, static_first
from kcli.errors import ConfigError, NotFound

# Behind every id that begins with a letter or a digit: what a new member's id will be is not known.
NEWCOMER = "~new-"


class Changes(NamedTuple):
    """`more`: so many members more, or fewer; `add`: these ones; `remove`: members by id; `partitions`: of topics."""

    more: int = 0
    add: Sequence[Member] = ()
    remove: Sequence[str] = ()
    partitions: Mapping[str, int] = {}


def change(topics: Topics, members: Sequence[Member], changes: Changes) -> tuple[dict[str, Topic], list[Member]]:
    """Topics and members as they will be.

    New members of which only the number is told want what most of the others want, and sort behind them; if they are
    to be fewer, those go that sort last. An added member without topics wants the same.
    ConfigError if there are not so many members, or for a topic that is to shrink; NotFound for one that nobody wants.
    """
    left = [member for member in members if member.id not in changes.remove]
    left += _added(left or members, changes.add, {member.id for member in members})
    if changes.more < 0:
        if -changes.more > len(left):
            raise ConfigError(f"there are not {-changes.more} members to remove, but {len(left)}")
        leaving = {member.id for member in static_first(left)[changes.more :]}
        left = [member for member in left if member.id not in leaving]
    else:
        digits = len(str(changes.more))
        wanted = usual_topics(left or members)
        left += [Member(f"{NEWCOMER}{number:0{digits}}", wanted) for number in range(1, changes.more + 1)]
    return _grown(topics, members, left, changes.partitions), left


def usual_topics(members: Sequence[Member]) -> frozenset[str]:
    """What most members want; of several such sets the largest. Nothing if there are no members."""
    counted = Counter(member.topics for member in members)
    return max(counted, key=lambda topics: (counted[topics], len(topics), sorted(topics)), default=frozenset())


def _added(others: Sequence[Member], add: Sequence[Member], there: set[str]) -> list[Member]:
    found = []
    for member in add:
        if member.id in there:
            raise ConfigError(f"there is a member {member.id} already")
        there.add(member.id)
        found.append(member if member.topics else member._replace(topics=usual_topics(others)))
    return found


def _grown(
    topics: Topics, before: Sequence[Member], after: Sequence[Member], partitions: Mapping[str, int]
) -> dict[str, Topic]:
    wanted = frozenset().union(*(member.topics for member in (*before, *after)))
    grown = dict(topics)
    for name, count in partitions.items():
        topic = topics.get(name, Topic(0))
        if name not in wanted:
            raise NotFound(f"no member reads topic {name}; they read {', '.join(sorted(wanted)) or 'nothing'}")
        if count < topic.partitions:
            raise ConfigError(f"topic {name} has {topic.partitions} partitions, and Kafka cannot take some away")
        grown[name] = topic._replace(partitions=count, racks=_racks(topic, count))
    return grown


def _racks(topic: Topic, count: int) -> tuple[frozenset[str], ...]:
    """Nobody knows yet where the replicas of new partitions will be: as if those of the old ones began anew."""
    return tuple(topic.racks[number % len(topic.racks)] for number in range(count)) if topic.racks else ()

"""Forecast of a group's next assignment: changes of the group, the assignment, and the comparison with today's. Pure.

`change` applies changes to topics and members, `forecast_assignment` computes the rebalances until the group settles,
and `compare` lists moved, kept and stopped partitions beside the current assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.assignors.lookup import STRATEGIES, assign_by, assignor_name
from kcli.assignors.model import Assignment, Member, Topic, Topics, static_first
from kcli.errors import ConfigError, NotFound
from kcli.structs import TopicPartition

# Sorts after every id that begins with a letter or a digit: the real id of a new member is unknown.
NEW_MEMBER_PREFIX = "~new-"


class Changes(NamedTuple):
    """Changes of a group: `more` members (negative: fewer), members to `add`, ids to `remove`, new `partitions` of
    topics.
    """

    more: int = 0
    add: Sequence[Member] = ()
    remove: Sequence[str] = ()
    partitions: Mapping[str, int] = {}


def change(topics: Topics, members: Sequence[Member], changes: Changes) -> tuple[dict[str, Topic], list[Member]]:
    """Return the topics and members after the changes.

    For `more` members, the new ones have the most common subscription and sort last; for fewer, those that sort last
    leave. An added member without topics gets the most common subscription. `ConfigError` if there are too few members,
    or for a topic that would shrink; `NotFound` for a topic without a subscriber.
    """
    remaining = [member for member in members if member.id not in changes.remove]
    remaining += _new_members(remaining or members, changes.add, {member.id for member in members})
    if changes.more < 0:
        if -changes.more > len(remaining):
            raise ConfigError(f"cannot remove {-changes.more} members: there are only {len(remaining)}")
        leaving = {member.id for member in static_first(remaining)[changes.more :]}
        remaining = [member for member in remaining if member.id not in leaving]
    else:
        digits = len(str(changes.more))
        common_topics = most_common_topics(remaining or members)
        remaining += [
            Member(f"{NEW_MEMBER_PREFIX}{number:0{digits}}", common_topics) for number in range(1, changes.more + 1)
        ]
    return _increase_partitions(topics, members, remaining, changes.partitions), remaining


def most_common_topics(members: Sequence[Member]) -> frozenset[str]:
    """Return the most common subscription; of several the largest. Empty without members."""
    counted = Counter(member.topics for member in members)
    return max(counted, key=lambda topics: (counted[topics], len(topics), sorted(topics)), default=frozenset())


def _new_members(members: Sequence[Member], add: Sequence[Member], taken_ids: set[str]) -> list[Member]:
    added = []
    for member in add:
        if member.id in taken_ids:
            raise ConfigError(f"member {member.id} already exists; choose another name")
        taken_ids.add(member.id)
        added.append(member if member.topics else member._replace(topics=most_common_topics(members)))
    return added


def _increase_partitions(
    topics: Topics, current: Sequence[Member], changed: Sequence[Member], partitions: Mapping[str, int]
) -> dict[str, Topic]:
    subscribed = frozenset().union(*(member.topics for member in (*current, *changed)))
    grown = dict(topics)
    for name, count in partitions.items():
        topic = topics.get(name, Topic(0))
        if name not in subscribed:
            raise NotFound(
                f"no member subscribes to topic {name}; subscribed: {', '.join(sorted(subscribed)) or 'none'}"
            )
        if count < topic.partitions:
            raise ConfigError(f"topic {name} has {topic.partitions} partitions; Kafka cannot reduce them to {count}")
        grown[name] = topic._replace(partitions=count, racks=_racks(topic, count))
    return grown


def _racks(topic: Topic, count: int) -> tuple[frozenset[str], ...]:
    """Return the racks of all partitions.

    Those of new ones are unknown: assume that the racks of the old ones repeat.
    """
    return tuple(topic.racks[number % len(topic.racks)] for number in range(count)) if topic.racks else ()


MAX_REBALANCES = 10


class Forecast(NamedTuple):
    """The assignments of consecutive rebalances, until the group settles.

    There is more than one only if the assignor is cooperative and revokes partitions: a partition that moves is
    unassigned in the first. `settled` is False for the rare groups, with racks and unequal subscriptions, that never
    settle.
    """

    assignor: str
    rebalances: tuple[Assignment, ...]
    settled: bool = True

    @property
    def final(self) -> Assignment:
        return self.rebalances[-1]

    @property
    def withheld(self) -> list[TopicPartition]:
        """The partitions that are unassigned after the first rebalance and assigned after the last; sorted."""
        return sorted(owners(self.final).keys() - owners(self.rebalances[0]).keys())


class Share(NamedTuple):
    """One member's partitions before and after, sorted; None while it is not a member."""

    member: str
    before: tuple[TopicPartition, ...] | None
    after: tuple[TopicPartition, ...] | None

    @property
    def kept(self) -> list[TopicPartition]:
        return sorted({*(self.before or ())} & {*(self.after or ())})

    @property
    def gained(self) -> list[TopicPartition]:
        return sorted({*(self.after or ())} - {*(self.before or ())})

    @property
    def lost(self) -> list[TopicPartition]:
        return sorted({*(self.before or ())} - {*(self.after or ())})


class Move(NamedTuple):
    """A partition whose owner changes. `source` None: it had no owner; `target` None: it has no owner afterwards."""

    partition: TopicPartition
    source: str | None
    target: str | None


class Comparison(NamedTuple):
    """The current assignment beside a forecast. `moves` are sorted by partition; `idle` members get no partition.

    No member reads a partition while it is stopped. Under the eager protocol all owned partitions stop until the
    rebalance is complete; under the cooperative one (KIP-429), and with an assignor of the server, only those that
    move.
    """

    forecast: Forecast
    shares: list[Share]
    moves: list[Move]
    kept: int
    idle: list[str]
    stopped_eager: int
    stopped_cooperative: int

    @property
    def moved(self) -> list[Move]:
        """The moves from one member to another."""
        return [move for move in self.moves if move.source is not None and move.target is not None]

    @property
    def newly_assigned(self) -> list[Move]:
        """The moves of partitions that had no owner."""
        return [move for move in self.moves if move.source is None]

    @property
    def unassigned(self) -> list[Move]:
        """The moves of partitions that have no owner afterwards."""
        return [move for move in self.moves if move.target is None]


class Skew(NamedTuple):
    """Imbalance of a load: the load of the most loaded member, and the mean."""

    most: float
    mean: float

    @property
    def ratio(self) -> float | None:
        """The largest load divided by the mean. 1.0: all members are equal. None without load or members."""
        return self.most / self.mean if self.mean else None


def forecast_assignment(assignor: str, topics: Topics, members: Sequence[Member]) -> Forecast:
    """Return the forecast of an assignor (a name of `lookup`) for these members and their claims.

    `ConfigError` for an unknown name.
    """
    first = assign_by(assignor, topics, members)
    strategy = STRATEGIES.get(assignor_name(assignor))
    if strategy is None or not strategy.cooperative:
        return Forecast(assignor, (first,))
    rebalances = [first]
    generation = max((member.generation for member in members), default=0)
    while len(rebalances) < MAX_REBALANCES:
        if not _revokes_any(members, rebalances[-1]):
            return Forecast(assignor, tuple(rebalances))
        generation += 1
        members = [m._replace(owned=tuple(rebalances[-1][m.id]), generation=generation) for m in members]
        rebalances.append(assign_by(assignor, topics, members))
    return Forecast(assignor, tuple(rebalances), settled=not _revokes_any(members, rebalances[-1]))


def _revokes_any(members: Iterable[Member], assignment: Assignment) -> bool:
    """Return whether a member loses a partition: it then joins again at once, which is the next rebalance."""
    return any(not {*member.owned} <= {*assignment[member.id]} for member in members)


def compare(before: Mapping[str, Sequence[TopicPartition]], forecast: Forecast) -> Comparison:
    """Compare the current assignment with a forecast. `before` has all current members, leaving ones included."""
    after = forecast.final
    sources, targets = owners(before), owners(after)
    shares = [_share(member, before, after) for member in dict.fromkeys([*before, *after])]
    moves, kept = [], 0
    for tp in sorted(sources.keys() | targets.keys()):
        source, target = sources.get(tp), targets.get(tp)
        if source == target or (target is not None and tp in before.get(target, ())):
            kept += 1
        else:
            moves.append(Move(tp, source, target))
    idle = [share.member for share in shares if share.after is not None and not share.after]
    stopped = sum(1 for move in moves if move.source is not None)
    return Comparison(forecast, shares, moves, kept, idle, len(sources), stopped)


def _share(
    member: str, before: Mapping[str, Sequence[TopicPartition]], after: Mapping[str, Sequence[TopicPartition]]
) -> Share:
    had, gets = before.get(member), after.get(member)
    return Share(member, None if had is None else tuple(sorted(had)), None if gets is None else tuple(sorted(gets)))


def owners(assignment: Mapping[str, Iterable[TopicPartition]]) -> dict[TopicPartition, str]:
    """Return the owner of each assigned partition."""
    return {tp: member for member, partitions in assignment.items() for tp in partitions}


def skew(
    assignment: Mapping[str, Sequence[TopicPartition]], loads: Mapping[TopicPartition, float] | None = None
) -> Skew:
    """Return the imbalance of partitions, or of their `loads`. A partition with an unknown load counts as 0."""
    weights = [load_of(partitions, loads) for partitions in assignment.values()]
    return Skew(max(weights), sum(weights) / len(weights)) if weights else Skew(0, 0)


def load_of(partitions: Iterable[TopicPartition], loads: Mapping[TopicPartition, float] | None = None) -> float:
    """Return the sum of the loads of partitions; without `loads`, their number."""
    return sum(1 if loads is None else loads.get(tp, 0) for tp in partitions)

"""What an assignor would do to a group, set beside what the group has: forecasts, moves, stops, skew. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.assignors.foresee import assign_by
from kcli.assignors.model import Assignment, Member, Topics
from kcli.assignors.strategies import STRATEGIES
from kcli.structs import TopicPartition

MOST_REBALANCES = 10


class Forecast(NamedTuple):
    """What an assignor hands out in one rebalance after the other, until the group is at rest.

    There is more than one only where the assignor is cooperative and takes something away: what moves is with nobody
    in the first. `settled`: the group comes to rest; a few with racks and unequal subscriptions never do.
    """

    assignor: str
    rebalances: tuple[Assignment, ...]
    settled: bool = True

    @property
    def final(self) -> Assignment:
        return self.rebalances[-1]

    @property
    def withheld(self) -> list[TopicPartition]:
        """What is with nobody after the first rebalance, and with somebody after the last; sorted."""
        return sorted(owned_in(self.final).keys() - owned_in(self.rebalances[0]).keys())


class Share(NamedTuple):
    """One member's partitions before and after, sorted; None while it is no member."""

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
    """A partition that changes hands. `giver` None: nobody had it; `taker` None: nobody gets it."""

    partition: TopicPartition
    giver: str | None
    taker: str | None


class Comparison(NamedTuple):
    """An assignment beside a forecast. `moves` are sorted by partition; `idle`: members that end up with nothing.

    Nobody reads a partition while it is stopped: under the eager protocol all that are owned stop until the rebalance
    is over, under the cooperative one (KIP-429; a broker that assigns goes the same way) those that change hands.
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
        """From one member to another."""
        return [move for move in self.moves if move.giver is not None and move.taker is not None]

    @property
    def taken_up(self) -> list[Move]:
        """That nobody had."""
        return [move for move in self.moves if move.giver is None]

    @property
    def given_up(self) -> list[Move]:
        """That nobody gets."""
        return [move for move in self.moves if move.taker is None]


class Skew(NamedTuple):
    """How unevenly a load is spread: what the most loaded member has, and what one has on average."""

    most: float
    mean: float

    @property
    def ratio(self) -> float | None:
        """1.0: all have the same. None where there is no load, or nobody to carry it."""
        return self.most / self.mean if self.mean else None


def foretell(assignor: str, topics: Topics, members: Sequence[Member]) -> Forecast:
    """What `assignor` (a name of `foresee`) makes of what members claim. ConfigError if there is none of that name."""
    first = assign_by(assignor, topics, members)
    strategy = next((it for it in STRATEGIES.values() if assignor in (it.name, it.java_class)), None)
    if strategy is None or not strategy.cooperative:
        return Forecast(assignor, (first,))
    rebalances = [first]
    generation = max((member.generation for member in members), default=0)
    while len(rebalances) < MOST_REBALANCES:
        if not _takes_away(members, rebalances[-1]):
            return Forecast(assignor, tuple(rebalances))
        generation += 1
        members = [it._replace(owned=tuple(rebalances[-1][it.id]), generation=generation) for it in members]
        rebalances.append(assign_by(assignor, topics, members))
    return Forecast(assignor, tuple(rebalances), settled=not _takes_away(members, rebalances[-1]))


def _takes_away(members: Iterable[Member], assignment: Assignment) -> bool:
    """Who has to give something back joins again at once, and that is the next rebalance."""
    return any(not {*member.owned} <= {*assignment[member.id]} for member in members)


def compare(before: Mapping[str, Sequence[TopicPartition]], forecast: Forecast) -> Comparison:
    """`before`: what each of today's members has, those that go included."""
    after = forecast.final
    givers, takers = owned_in(before), owned_in(after)
    shares = [_share(member, before, after) for member in dict.fromkeys([*before, *after])]
    moves, kept = [], 0
    for tp in sorted(givers.keys() | takers.keys()):
        giver, taker = givers.get(tp), takers.get(tp)
        if giver == taker or (taker is not None and tp in before.get(taker, ())):
            kept += 1
        else:
            moves.append(Move(tp, giver, taker))
    idle = [share.member for share in shares if share.after is not None and not share.after]
    stopped = sum(1 for move in moves if move.giver is not None)
    return Comparison(forecast, shares, moves, kept, idle, len(givers), stopped)


def _share(
    member: str, before: Mapping[str, Sequence[TopicPartition]], after: Mapping[str, Sequence[TopicPartition]]
) -> Share:
    had, gets = before.get(member), after.get(member)
    return Share(member, None if had is None else tuple(sorted(had)), None if gets is None else tuple(sorted(gets)))


def owned_in(assignment: Mapping[str, Iterable[TopicPartition]]) -> dict[TopicPartition, str]:
    """Who has each partition that somebody has."""
    return {tp: member for member, partitions in assignment.items() for tp in partitions}


def skew(
    assignment: Mapping[str, Sequence[TopicPartition]], loads: Mapping[TopicPartition, float] | None = None
) -> Skew:
    """How evenly partitions, or their `loads`, are spread; a partition whose load is not known weighs nothing."""
    weights = [load_of(partitions, loads) for partitions in assignment.values()]
    return Skew(max(weights), sum(weights) / len(weights)) if weights else Skew(0, 0)


def load_of(partitions: Iterable[TopicPartition], loads: Mapping[TopicPartition, float] | None = None) -> float:
    """The sum of the loads of partitions, or without loads their number."""
    return sum(1 if loads is None else loads.get(tp, 0) for tp in partitions)

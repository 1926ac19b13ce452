"""How far a group is behind, by partition: committed offsets against the ends of the logs. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, TypeVar, cast

from kcli.admin.groups.model import Group, GroupMember
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

T = TypeVar("T")


class PartitionLag(NamedTuple):
    """A partition that a group has committed, or that a member owns, or both.

    `committed` None: nothing is committed. In a share group it is the offset before which all is done with. `lag` is
    how many offsets lie between `committed` and `end`, never below 0, None if one of both is not known; a share group's
    is what its broker counts, and leaves out what is done with behind `committed`. `time_lag_ms` is the age of the
    record at the committed offset, 0 without lag, None if not known or not asked for; `time_lag_note` says why it is
    not sound, or not known. `members` own the partition: one at most, but in a share group. `error` is why a number is
    missing.
    """

    group: str
    tp: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    end: int | None = None
    lag: int | None = None
    time_lag_ms: int | None = None
    time_lag_note: str | None = None
    members: tuple[GroupMember, ...] = ()
    error: KcliError | None = None

    @property
    def member(self) -> GroupMember | None:
        """Who owns the partition; in a share group the first of them."""
        return self.members[0] if self.members else None


class LagTotals(NamedTuple):
    """Sums over partitions. Those without a known lag are in no sum: `unknown` counts them, `errors` the failed ones.

    `max_time_lag_ms` is None when no partition told its own.
    """

    partitions: int
    lag: int
    max_lag: int
    max_time_lag_ms: int | None
    unknown: int
    errors: int


_row = partial(tuple.__new__, PartitionLag)  # as `PartitionLag._make`, which takes three times as long


def calculate_lag(
    group: Group,
    committed: Mapping[TopicPartition, OffsetAndMetadata | KcliError],
    starts: Mapping[TopicPartition, int | KcliError],
    ends: Mapping[TopicPartition, int | KcliError],
    lags: Mapping[TopicPartition, int | None] | None = None,
    *,
    timed: bool = False,
) -> list[PartitionLag]:
    """A row for each partition that is committed or owned, sorted. `lags` are a share group's, as its broker counts.

    Of the end it is assumed that it was asked for after the committed offset. A committed offset beyond the end (a log
    cut short, a topic made anew) gives lag 0; one below the start counts what is deleted, as Apache's tool does.
    `timed`: where there is no lag, the time lag is 0. All is done by columns: there may be a hundred thousand rows.
    """
    owners = _owners(group)
    tps = sorted(committed.keys() | owners.keys() if owners else committed)
    errors: list[KcliError | None] = [None] * len(tps)
    start = _without_errors(map(starts.get, tps), errors)
    end = _without_errors(map(ends.get, tps), errors)
    told = _without_errors(map(committed.get, tps), errors)
    if lags is None:
        lag = [
            None if it is None or behind is None else behind - it.offset if behind > it.offset else 0
            for it, behind in zip(told, end, strict=True)
        ]
    else:
        lag = list(map(lags.get, tps))
    times = [0 if it == 0 else None for it in lag] if timed else repeat(None)
    members = [owners.get(tp, ()) for tp in tps] if owners else repeat(())
    names, notes = repeat(group.group), repeat(None)
    return list(map(_row, zip(names, tps, told, start, end, lag, times, notes, members, errors)))  # noqa: B905 - repeats


def _without_errors(column: Iterable[T | KcliError | None], errors: list[KcliError | None]) -> list[T | None]:
    """The column with None in place of errors, which are put into `errors` by row: the last column's is kept."""
    values = list(column)
    if any(issubclass(kind, KcliError) for kind in set(map(type, values))):
        for number, value in enumerate(values):
            if isinstance(value, KcliError):
                values[number], errors[number] = None, value
    return cast("list[T | None]", values)


def _owners(group: Group) -> dict[TopicPartition, tuple[GroupMember, ...]]:
    owners: dict[TopicPartition, tuple[GroupMember, ...]] = {}
    for member in group.members:
        for tp in member.owned:
            owners[tp] = (*owners.get(tp, ()), member)
    return owners


def total_lag(partitions: Iterable[PartitionLag]) -> LagTotals:
    """Sums over all of these."""
    rows = list(partitions)
    lags = [lag for lag in map(attrgetter("lag"), rows) if lag is not None]
    ages = [age for age in map(attrgetter("time_lag_ms"), rows) if age is not None]
    errors = len(rows) - list(map(attrgetter("error"), rows)).count(None)
    return LagTotals(len(rows), sum(lags), max(lags, default=0), max(ages, default=None), len(rows) - len(lags), errors)


def total_lag_by_topic(partitions: Iterable[PartitionLag]) -> dict[str, LagTotals]:
    """Sums by topic, sorted by name."""
    return {topic: total_lag(rows) for topic, rows in rows_by_topic(partitions).items()}


def rows_by_topic(partitions: Iterable[PartitionLag]) -> dict[str, list[PartitionLag]]:
    """The rows of each topic, sorted by name and number."""
    topics: dict[str, list[PartitionLag]] = {}
    for row in sorted(partitions, key=attrgetter("tp")):
        topics.setdefault(row.tp.topic, []).append(row)
    return topics

"""How fast topics of groups are consumed and produced, from one look to the next. Pure: no I/O, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.lag import rows_by_topic

if TYPE_CHECKING:
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.errors import KcliError
    from kcli.structs import TopicPartition

# Consumers commit every 5 s by default: rates over less than a few commits would jump between nothing and too much.
WINDOW_MS = 15_000.0
HISTORY = 40


class Look(NamedTuple):
    """Groups at one moment; each survey has the times of its answers."""

    surveys: Mapping[str, GroupSurvey] = {}
    errors: Mapping[str, KcliError] = {}


class TopicRow(NamedTuple):
    """A topic as a group reads it; without a `topic` it is a group that has none, or an `error` instead.

    Rates are records per second, None before there are two looks. `drain_ms`: when the lag is gone if both rates stay,
    None when it does not shrink, or is not known. `lags`: the lag at each look so far, None where it was not known.
    """

    group: str
    topic: str | None = None
    state: str = ""
    members: int = 0
    partitions: int = 0
    lag: int | None = None
    consumed: float | None = None
    produced: float | None = None
    drain_ms: float | None = None
    lags: tuple[int | None, ...] = ()
    error: KcliError | None = None


class _Offsets(NamedTuple):
    """What rates are made of: committed offset and end of each partition where both are known, and when they were."""

    committed_ms: float
    ends_ms: float
    known: dict[TopicPartition, tuple[int, int]]


class Watch:
    """The looks so far, as far as they are needed, and what each new one comes to."""

    def __init__(self, window_ms: float = WINDOW_MS, history: int = HISTORY) -> None:
        self._window_ms = window_ms
        self._history = history
        self._offsets: dict[tuple[str, str], deque[_Offsets]] = {}
        self._lags: dict[tuple[str, str], deque[int | None]] = {}

    def __repr__(self) -> str:
        return f"<Watch of {len(self._lags)} topics>"

    def add(self, look: Look) -> list[TopicRow]:
        """Take a new look in: a row for each topic of each group, sorted."""
        rows = [TopicRow(group, error=error) for group, error in look.errors.items()]
        for name, survey in look.surveys.items():
            topics = rows_by_topic(survey.partitions)
            group = TopicRow(name, None, survey.group.state, len(survey.group.members), error=survey.error)
            rows += [self._row(survey, group, topic, topics[topic]) for topic in topics] or [group]
        return sorted(rows, key=lambda row: (row.group, row.topic or ""))

    def _row(self, survey: GroupSurvey, group: TopicRow, topic: str, partitions: list[PartitionLag]) -> TopicRow:
        key = group.group, topic
        lags = [partition.lag for partition in partitions if partition.lag is not None]
        lag = sum(lags) if lags else None
        history = self._lags.setdefault(key, deque(maxlen=self._history))
        history.append(lag)
        offsets = self._offsets.setdefault(key, deque())
        offsets.append(_Offsets(survey.committed_ms, survey.ends_ms, _known(partitions)))
        while len(offsets) > 2 and offsets[-1].ends_ms - offsets[1].ends_ms >= self._window_ms:
            offsets.popleft()
        consumed, produced = rates(offsets)
        error = group.error or next((partition.error for partition in partitions if partition.error), None)
        return group._replace(
            topic=topic,
            partitions=len(partitions),
            lag=lag,
            consumed=consumed,
            produced=produced,
            drain_ms=drain_ms(lag, consumed, produced),
            lags=tuple(history),
            error=error,
        )


def rates(offsets: Iterable[_Offsets]) -> tuple[float | None, float | None]:
    """Records consumed and produced per second over these looks; an offset that was put back counts nothing."""
    looks = list(offsets)
    if len(looks) < 2:
        return None, None
    consumed = produced = 0
    for before, after in pairwise(looks):
        for tp, (committed, end) in after.known.items():
            if tp in before.known:
                consumed += max(0, committed - before.known[tp][0])
                produced += max(0, end - before.known[tp][1])
    first, last = looks[0], looks[-1]
    return (
        _per_second(consumed, last.committed_ms - first.committed_ms),
        _per_second(produced, last.ends_ms - first.ends_ms),
    )


def drain_ms(lag: int | None, consumed: float | None, produced: float | None) -> float | None:
    """How long until the lag is gone at these rates; None when that is never, or not known."""
    if lag == 0:
        return 0.0
    if lag is None or consumed is None or produced is None or consumed <= produced:
        return None
    return lag / (consumed - produced) * 1000


def _known(partitions: Iterable[PartitionLag]) -> dict[TopicPartition, tuple[int, int]]:
    return {
        partition.tp: (partition.committed.offset, partition.end)
        for partition in partitions
        if partition.committed is not None and partition.end is not None
    }


def _per_second(records: int, ms: float) -> float | None:
    return records / ms * 1000 if ms > 0 else None

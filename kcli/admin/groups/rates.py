"""Rates at which groups consume and topics grow, from successive surveys. Pure: no I/O, no clock."""

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

# Consumers commit every 5 s by default; rates over less than a few commits would jump.
WINDOW_MS = 15_000.0
HISTORY = 40


class GroupsSample(NamedTuple):
    """Surveys of groups at one moment, and the errors of those that failed."""

    surveys: Mapping[str, GroupSurvey] = {}
    errors: Mapping[str, KcliError] = {}


class TopicRow(NamedTuple):
    """Lag and rates of a group in a topic; without a `topic`, a group without partitions, or one with an `error`.

    Rates are in records per second, None before the second sample. `lag` is None without a known one, and if an offset
    is committed after the log end. `drain_ms` is the time until the lag is 0 at these rates, None if the lag does not
    shrink or is unknown. `lags` is the lag in each sample so far, None where unknown.
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
    """Committed offset and end offset of each partition where both are known, with their times."""

    committed_ms: float
    ends_ms: float
    known: dict[TopicPartition, tuple[int, int]]


class RateHistory:
    """The most recent samples, and the rows that each new sample gives."""

    def __init__(self, window_ms: float = WINDOW_MS, history: int = HISTORY) -> None:
        self._window_ms = window_ms
        self._history = history
        self._offsets: dict[tuple[str, str], deque[_Offsets]] = {}
        self._lags: dict[tuple[str, str], deque[int | None]] = {}

    def __repr__(self) -> str:
        return f"<RateHistory {len(self._lags)} topics>"

    def add(self, sample: GroupsSample) -> list[TopicRow]:
        """Add a sample; return a row for each topic of each group, sorted."""
        rows = [TopicRow(group, error=error) for group, error in sample.errors.items()]
        for name, survey in sample.surveys.items():
            topics = rows_by_topic(survey.partitions)
            group = TopicRow(name, None, survey.group.state, len(survey.group.members), error=survey.error)
            rows += [self._row(survey, group, topic, topics[topic]) for topic in topics] or [group]
        return sorted(rows, key=lambda row: (row.group, row.topic or ""))

    def _row(self, survey: GroupSurvey, group: TopicRow, topic: str, partitions: list[PartitionLag]) -> TopicRow:
        key = group.group, topic
        lags = [partition.lag for partition in partitions if partition.lag is not None]
        lag = sum(lags) if lags and not any(partition.is_beyond_end for partition in partitions) else None
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
    """Return the records consumed and produced per second over these samples; an offset moved back counts as 0."""
    samples = list(offsets)
    if len(samples) < 2:
        return None, None
    consumed = produced = 0
    for before, after in pairwise(samples):
        for tp, (committed, end) in after.known.items():
            if tp in before.known:
                consumed += max(0, committed - before.known[tp][0])
                produced += max(0, end - before.known[tp][1])
    first, last = samples[0], samples[-1]
    return (
        _per_second(consumed, last.committed_ms - first.committed_ms),
        _per_second(produced, last.ends_ms - first.ends_ms),
    )


def drain_ms(lag: int | None, consumed: float | None, produced: float | None) -> float | None:
    """Return the time until the lag is 0 at these rates; None if it does not shrink or is unknown."""
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

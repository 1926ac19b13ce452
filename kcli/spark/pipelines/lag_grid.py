"""The history of lag as numbers: what was committed, and where logs ended, at each point of a grid of times. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kcli.spark.pipelines.lag_tasks import Grid

    Ints: TypeAlias = NDArray[np.int64]

#: What `by` may be, and the columns that name a series.
SERIES: Mapping[str, tuple[str, ...]] = {
    "group": ("group",),
    "topic": ("group", "topic"),
    "partition": ("group", "topic", "partition"),
}
Place: TypeAlias = tuple[str, int]
NOTHING = -1
"""Where an array of offsets has none."""


class Log(NamedTuple):
    """Where it begins and ends now."""

    earliest: int
    latest: int


class Commits(NamedTuple):
    """Those of a group for a partition, in the order of the log: from which step on they count, their offsets (NOTHING:
    deleted), their times in ms since the epoch.
    """

    steps: list[int]
    offsets: list[int]
    times_ms: list[int]

    def add(self, step: int, offset: int | None, at_ms: int) -> None:
        """One more; of those at the same step the last one counts."""
        if self.steps and step <= self.steps[-1]:
            step = self.steps[-1]
            for before in self:
                before.pop()
        self.steps.append(step)
        self.offsets.append(NOTHING if offset is None else offset)
        self.times_ms.append(at_ms)

    def at(self, grid: Grid) -> tuple[Ints, Ints]:
        """What was committed at each point, or NOTHING, and when."""
        import numpy as np

        last = np.searchsorted(self.steps, np.arange(grid.points), side="right") - 1
        offsets = np.where(last < 0, NOTHING, np.array(self.offsets, np.int64)[last])
        return offsets, np.array(self.times_ms, np.int64)[last]


def ends_at(
    grid: Grid,
    logs: Mapping[Place, Log],
    batches: Iterable[tuple[Place, int, int, int]],
    commits: Mapping[tuple[str, str, int], Commits],
) -> dict[Place, Ints]:
    """Where each log ended at each point: behind the batches (place, step, end, base, by rising ends) of until then,
    and never before what anybody had committed then or at an earlier point. NOTHING where batches of then are deleted:
    it ended somewhere before the first that is left.
    """
    import numpy as np

    ends = {place: np.full(grid.points, NOTHING, np.int64) for place in logs}
    bases: dict[Place, int] = {}
    clocks: dict[Place, int] = {}
    for place, step, end, base in batches:
        bases[place] = min(base, bases.get(place, base))
        clocks[place] = step = max(step, clocks.get(place, 0))  # of all ranges of the partition together
        if step < grid.points:
            ends[place][step] = max(ends[place][step], end)
    for (_, topic, partition), its in commits.items():
        log = logs.get((topic, partition))
        for step, offset in zip(its.steps, its.offsets, strict=True):
            if log is not None and offset <= log.latest:
                ends[topic, partition][step] = max(ends[topic, partition][step], offset)
    for place, log in logs.items():
        start = bases.get(place, log.latest)
        if start > log.earliest or log.earliest == 0:  # it begins where it was first looked at, with nothing before it
            ends[place][0] = max(ends[place][0], start)
        highest = np.maximum.accumulate(ends[place])
        ends[place] = np.where(highest >= start, highest, NOTHING)
    return ends


def lag_rows(
    grid: Grid, commits: Mapping[tuple[str, str, int], Commits], ends: Mapping[Place, Ints], by: str
) -> list[dict[str, Any]]:
    """A row for each series of `by` and point at which something was committed, sorted; times in ms since the epoch."""
    rows = _partition_rows if by == "partition" else _sum_rows
    return list(rows(grid, commits, ends, SERIES[by]))


def _partition_rows(
    grid: Grid,
    commits: Mapping[tuple[str, str, int], Commits],
    ends: Mapping[Place, Ints],
    names: tuple[str, ...],
) -> Iterable[dict[str, Any]]:
    import numpy as np

    for series in sorted(commits):
        offsets, times = commits[series].at(grid)
        lags, log_ends = _lags(offsets, ends.get(series[1:]))
        for point in np.flatnonzero(offsets >= 0).tolist():
            row = {"time": grid.first_ms + point * grid.every_ms, **dict(zip(names, series, strict=True))}
            row |= {"lag": _known(lags[point]), "committed": int(offsets[point]), "end": _known(log_ends[point])}
            yield {**row, "committed_at": int(times[point])}


def _lags(offsets: Ints, ends: Ints | None) -> tuple[Ints, Ints]:
    """Lags and ends; NOTHING where not known. As everywhere, an offset beyond the end is no lag."""
    import numpy as np

    log_ends = np.full_like(offsets, NOTHING) if ends is None else ends
    return np.where((offsets >= 0) & (log_ends >= 0), np.maximum(log_ends - offsets, 0), NOTHING), log_ends


def _known(number: Any) -> int | None:
    return None if number < 0 else int(number)


def _sum_rows(
    grid: Grid,
    commits: Mapping[tuple[str, str, int], Commits],
    ends: Mapping[Place, Ints],
    names: tuple[str, ...],
) -> Iterable[dict[str, Any]]:
    import numpy as np

    sums: dict[tuple[Any, ...], Ints] = {}
    for series in commits:
        offsets, _ = commits[series].at(grid)
        lags, _ = _lags(offsets, ends.get(series[1:]))
        total = sums.setdefault(series[: len(names)], np.zeros((4, grid.points), np.int64))
        total[0] += np.maximum(lags, 0)
        total[1] = np.maximum(total[1], lags)
        total[2] += offsets >= 0
        total[3] += (offsets >= 0) & (lags < 0)
    for key in sorted(sums):
        for point in np.flatnonzero(sums[key][2]).tolist():
            lag, most, partitions, unknown = sums[key][:, point].tolist()
            row = {"time": grid.first_ms + point * grid.every_ms, **dict(zip(names, key, strict=True))}
            known = partitions > unknown
            row |= {"lag": lag if known else None, "max_lag": most if known else None}
            yield {**row, "partitions": partitions, "unknown": unknown}

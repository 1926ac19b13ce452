"""Committed offsets, log ends and lag at each point of a time grid. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kcli.spark.pipelines.lag_tasks import Grid

    Ints: TypeAlias = NDArray[np.int64]

#: The values of `by`, with the columns that identify a series.
SERIES: Mapping[str, tuple[str, ...]] = {
    "group": ("group",),
    "topic": ("group", "topic"),
    "partition": ("group", "topic", "partition"),
}
Place: TypeAlias = tuple[str, int]
NOTHING = -1
"""An unknown offset in arrays."""


class Log(NamedTuple):
    """The present bounds of a log."""

    earliest: int
    latest: int


class Commits(NamedTuple):
    """Commits of a group for a partition, in log order: their grid steps, offsets (NOTHING: deleted), and times (ms
    since the epoch).
    """

    steps: list[int]
    offsets: list[int]
    times_ms: list[int]

    def add(self, step: int, offset: int | None, at_ms: int) -> None:
        """Add a commit. Of several in the same step the last one counts."""
        if self.steps and step <= self.steps[-1]:
            step = self.steps[-1]
            for before in self:
                before.pop()
        self.steps.append(step)
        self.offsets.append(NOTHING if offset is None else offset)
        self.times_ms.append(at_ms)

    def at(self, grid: Grid) -> tuple[Ints, Ints]:
        """Return the committed offset at each point (NOTHING: none), and its commit time."""
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
    """Return the end of each log at each point.

    `batches` are (partition, step, end, base), with rising ends. The end is that of the last batch until then, and at
    least the highest offset committed until then. NOTHING where the batches of that time are deleted: the end was
    before the first remaining one.
    """
    import numpy as np

    ends = {tp: np.full(grid.points, NOTHING, np.int64) for tp in logs}
    first_offsets: dict[Place, int] = {}
    clocks: dict[Place, int] = {}
    for tp, step, end, base in batches:
        first_offsets[tp] = min(base, first_offsets.get(tp, base))
        clocks[tp] = step = max(step, clocks.get(tp, 0))  # for all ranges of the partition together
        if step < grid.points:
            ends[tp][step] = max(ends[tp][step], end)
    for (_, topic, partition), series_commits in commits.items():
        log = logs.get((topic, partition))
        for step, offset in zip(series_commits.steps, series_commits.offsets, strict=True):
            if log is not None and offset <= log.latest:
                ends[topic, partition][step] = max(ends[topic, partition][step], offset)
    for tp, log in logs.items():
        start = first_offsets.get(tp, log.latest)
        if start > log.earliest or log.earliest == 0:  # the log begins here
            ends[tp][0] = max(ends[tp][0], start)
        highest = np.maximum.accumulate(ends[tp])
        ends[tp] = np.where(highest >= start, highest, NOTHING)
    return ends


def lag_rows(
    grid: Grid, commits: Mapping[tuple[str, str, int], Commits], ends: Mapping[Place, Ints], by: str
) -> list[dict[str, Any]]:
    """Return a row for each series of `by` and each point with a committed offset, sorted; times are ms since the
    epoch.
    """
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
    """Return lags and ends, NOTHING where unknown. The lag of an offset after the end is unknown."""
    import numpy as np

    log_ends = np.full_like(offsets, NOTHING) if ends is None else ends
    return np.where((offsets >= 0) & (log_ends >= offsets), log_ends - offsets, NOTHING), log_ends


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

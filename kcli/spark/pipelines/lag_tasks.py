"""Task functions of the lag history: reduce commits, or batches, to one per time step. Pure.

The module imports nothing of kcli, because workers may not have it. A step is the index of the first grid point at or
after an event; 0 for all earlier events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Grid(NamedTuple):
    """Time grid: `points` times, `every_ms` apart, the first at `first_ms` (since the epoch)."""

    first_ms: int
    every_ms: int
    points: int

    @property
    def last_ms(self) -> int:
        """The last time."""
        return self.first_ms + (self.points - 1) * self.every_ms

    def step(self, ms: int) -> int:
        """Return the index of the first point at or after the time; `points` if there is none."""
        return min(max(-((self.first_ms - ms) // self.every_ms), 0), self.points)


class _Commit(NamedTuple):
    clock_ms: int
    step: int
    offset: int | None
    at_ms: int
    log_offset: int


COMMIT_FIELDS = "group string, topic string, partition int, step int, committed bigint, at bigint, log_offset bigint"


def reduce_commits(batches: Iterable[Any], grid: Grid, now_ms: int) -> Iterator[dict[str, list[Any]]]:
    """Reduce a range of the commit log to the last commit of each series (group, topic, partition) in each step.

    A later commit replaces an earlier one even if its timestamp is older; a timestamp in the future is replaced by that
    of the previous commit. Commits after the grid are dropped. Yields columns as in `COMMIT_FIELDS`.
    """
    series: dict[tuple[str, str, int], _Commit] = {}
    for batch in batches:
        completed: list[tuple[tuple[str, str, int], _Commit]] = []
        names = ("group", "topic", "partition", "offset", "commit_timestamp", "log_timestamp", "log_offset")
        columns = (_plain(batch.column(name)) for name in names)
        for group, topic, partition, offset, committed_us, logged_us, log_offset in zip(*columns, strict=True):
            key = (group, topic, partition)
            before = series.get(key)
            so_far_ms = 0 if before is None else before.clock_ms
            known = (us // 1000 for us in (committed_us, logged_us) if us is not None and us <= now_ms * 1000)
            at_ms = next(known, so_far_ms)
            clock_ms = max(so_far_ms, at_ms)
            step = grid.step(clock_ms)
            if before is not None and before.step != step:
                completed.append((key, before))
            series[key] = _Commit(clock_ms, step, offset, at_ms, log_offset)
        if completed:
            yield _commit_columns(completed, grid)
    yield _commit_columns(list(series.items()), grid)


def _plain(column: Any) -> list[Any]:
    """Return values, with times as microseconds: Python's datetime is slow, and ends with the year 9999."""
    if str(column.type).startswith("timestamp"):
        column = column.cast("int64")
    values: list[Any] = column.to_pylist()
    return values


def _commit_columns(commits: list[tuple[tuple[str, str, int], _Commit]], grid: Grid) -> dict[str, list[Any]]:
    rows = [
        (*key, commit.step, commit.offset, commit.at_ms, commit.log_offset)
        for key, commit in commits
        if commit.step < grid.points
    ]
    return _columns(COMMIT_FIELDS, rows)


END_FIELDS = "topic string, partition int, step int, end bigint, base bigint, ahead bigint"


def reduce_batches(batches: Iterable[Any], grid: Grid, now_ms: int) -> Iterator[dict[str, list[Any]]]:
    """Reduce a range of one partition to the log end in each step in which it changed.

    The rows also have the start of the range, and the number of batches with timestamps in the future (all in the first
    row). A batch exists from the maximum of its timestamp and those before it on, as in Kafka's offset look-up by time.
    A timestamp in the future is ignored, because it would apply to all later batches. Yields columns as in
    `END_FIELDS`.
    """
    import numpy as np

    place: tuple[str, int] | None = None
    clock_us, base, ahead = -1, -1, 0
    ends: dict[int, int] = {}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if place is None:
            place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
            base = batch.column("base_offset")[0].as_py()
        times = np.asarray(batch.column("max_timestamp").cast("int64").fill_null(-1))
        is_ahead = times > now_ms * 1000
        ahead += int(is_ahead.sum())
        clocks = np.maximum(np.maximum.accumulate(np.where(is_ahead, -1, times)), clock_us)
        clock_us = int(clocks[-1])
        steps = -((grid.first_ms * 1000 - clocks) // (grid.every_ms * 1000))
        steps = np.clip(steps, 0, grid.points)
        last = np.append(np.flatnonzero(np.diff(steps)), len(steps) - 1)
        log_ends = np.asarray(batch.column("last_offset"))[last] + 1
        ends.update(zip(steps[last].tolist(), log_ends.tolist(), strict=True))
    counts = [ahead, *[0] * len(ends)]
    rows = [] if place is None else [(*place, *end, base, n) for end, n in zip(ends.items(), counts, strict=False)]
    yield _columns(END_FIELDS, rows)


def _columns(fields: str, rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    names = [field.split()[0] for field in fields.split(", ")]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}

"""What tasks do for the history of lag: many commits, or batches, become one for each step of time. Pure.

It imports nothing of kcli: tasks run where there may be none. A step is a number: the first point of the grid at which
something is there already, 0 for all that was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Grid(NamedTuple):
    """Points of time: `points` of them, `every_ms` apart, the first at `first_ms` (since the epoch)."""

    first_ms: int
    every_ms: int
    points: int

    @property
    def last_ms(self) -> int:
        """The last point."""
        return self.first_ms + (self.points - 1) * self.every_ms

    def step(self, ms: int) -> int:
        """The first point at or after this time; 0 for what is before all, `points` for what is after all."""
        return min(max(-((self.first_ms - ms) // self.every_ms), 0), self.points)


class _Commit(NamedTuple):
    clock_ms: int
    step: int
    offset: int | None
    at_ms: int
    log_offset: int


COMMIT_FIELDS = "group string, topic string, partition int, step int, committed bigint, at bigint, log_offset bigint"


def reduce_commits(batches: Iterable[Any], grid: Grid, now_ms: int) -> Iterator[dict[str, list[Any]]]:
    """Of a range of the log of commits: the last of each series (group, topic, partition) in each step.

    A later commit counts from then on, also when its time is before that of an earlier one; one of a time that is yet
    to come has that of the one before it. What is after the grid is left out. Yields columns as in `COMMIT_FIELDS`.
    """
    series: dict[tuple[str, str, int], _Commit] = {}
    for batch in batches:
        done: list[tuple[tuple[str, str, int], _Commit]] = []
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
                done.append((key, before))
            series[key] = _Commit(clock_ms, step, offset, at_ms, log_offset)
        if done:
            yield _commit_columns(done, grid)
    yield _commit_columns(list(series.items()), grid)


def _plain(column: Any) -> list[Any]:
    """Times as numbers of microseconds: an Arrow time as a Python one is slow, and ends with the year 9999."""
    if str(column.type).startswith("timestamp"):
        column = column.cast("int64")
    values: list[Any] = column.to_pylist()
    return values


def _commit_columns(found: list[tuple[tuple[str, str, int], _Commit]], grid: Grid) -> dict[str, list[Any]]:
    rows = [(*key, it.step, it.offset, it.at_ms, it.log_offset) for key, it in found if it.step < grid.points]
    return _columns(COMMIT_FIELDS, rows)


END_FIELDS = "topic string, partition int, step int, end bigint, base bigint, ahead bigint"


def reduce_batches(batches: Iterable[Any], grid: Grid, now_ms: int) -> Iterator[dict[str, list[Any]]]:
    """Of a range of one partition: where the log ended in each step in which that changed, where the range begins, and
    of how many batches the time is yet to come (all told in the first row).

    A batch is there from the newest time on that it or any before it has: as Kafka finds offsets by time. A time that
    is yet to come is none: all that follows would seem to be as young. Yields columns as in `END_FIELDS`.
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
        behind = np.asarray(batch.column("last_offset"))[last] + 1
        ends.update(zip(steps[last].tolist(), behind.tolist(), strict=True))
    counts = [ahead, *[0] * len(ends)]
    rows = [] if place is None else [(*place, *it, base, n) for it, n in zip(ends.items(), counts, strict=False)]
    yield _columns(END_FIELDS, rows)


def _columns(fields: str, rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    names = [field.split()[0] for field in fields.split(", ")]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}

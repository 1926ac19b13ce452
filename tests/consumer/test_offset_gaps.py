"""Gaps between records, told from batch headers: a plain loop over made-up logs comes to the same, offset by offset."""

from __future__ import annotations

import random
from itertools import groupby
from typing import NamedTuple

import numpy as np

from kcli.consumer.offset_gaps import ABORTED, BETWEEN, COMPACTION, CONTROL, LOST, GapFinder, GapRows, Gaps
from kcli.protocol.records.batch_columns import BatchColumns


class Batch(NamedTuple):
    """`counted` False: as a compressed set of an old format, whose header tells the last offset only."""

    base: int
    last: int
    records: list[int]
    control: bool = False
    aborted: bool = False
    counted: bool = True


def rows_of(batches: list[Batch], behind: int) -> GapRows:
    count = len(batches)
    columns = {name: np.zeros(count, np.int64) for name in BatchColumns._fields}
    froms = [it.base if it.counted else (batches[n - 1].last + 1 if n else behind) for n, it in enumerate(batches)]
    columns["froms"] = np.array(froms)
    columns["last_offsets"] = np.array([it.last for it in batches])
    columns["counts"] = np.array([len(it.records) if it.counted else -1 for it in batches])
    columns["control"] = np.array([it.control for it in batches])
    columns["aborted"] = np.array([it.aborted for it in batches], np.int8)
    unpacked = [
        it for it in batches if not (it.control or it.aborted) and (it.records or not it.counted)
    ]  # those of a whole section are: more than are needed
    offsets = [offset for it in unpacked for offset in it.records]
    return GapRows(BatchColumns(**columns), np.array(offsets, np.int64))


def made_log(rng: random.Random) -> list[Batch]:
    at, batches = rng.randrange(5), []
    for _ in range(rng.randrange(1, 12)):
        at += rng.choice((0, 0, 0, 1, 4))
        span = range(at, at + rng.randrange(1, 7))
        kind = rng.randrange(8)
        if kind == 0:
            batches.append(Batch(at, at, [at], control=True))
        elif kind in (1, 2):
            batches.append(Batch(at, span[-1], list(span), aborted=True))
        else:
            kept = [offset for offset in span if kind > 4 or rng.random() < 0.5]
            counted = kind != 4 or not kept
            last = span[-1] if counted else kept[-1]
            batches.append(Batch(at, last, kept, counted=counted))
        at = batches[-1].last + 1
    return batches


def plain(batches: list[Batch], start: int, end: int) -> list[tuple[int, int, int]]:
    kinds: dict[int, int] = {}
    behind = start
    for it in batches:
        missing = BETWEEN if it.counted else COMPACTION  # an old set does not tell where it began
        kinds |= dict.fromkeys(range(behind, it.base), missing)
        kind = CONTROL if it.control else ABORTED if it.aborted else COMPACTION
        shown = () if it.control or it.aborted else it.records
        kinds |= {offset: kind for offset in range(it.base, it.last + 1) if offset not in shown}
        behind = it.last + 1
    kinds |= dict.fromkeys(range(behind, end), BETWEEN)
    listed = [(offset, kinds[offset]) for offset in sorted(kinds) if start <= offset < end]
    runs = groupby(enumerate(listed), key=lambda it: (it[1][1], it[1][0] - it[0]))
    return [(group[0][1][0], group[-1][1][0], kind) for (kind, _), group in ((k, list(g)) for k, g in runs)]


def told(parts: list[Gaps]) -> list[tuple[int, int, int]]:
    return [row for part in parts for row in zip(*(it.tolist() for it in part), strict=True)]


def test_made_up_logs_in_pieces_and_in_ranges() -> None:
    rng = random.Random(7)
    for _ in range(1000):
        log = made_log(rng)
        end_of_log = log[-1].last + 1 + rng.choice((0, 0, 3))
        start = rng.randrange(log[0].base + 1) if rng.random() < 0.5 else rng.randrange(end_of_log)
        end = rng.randrange(start, end_of_log) + 1
        if any(not it.counted and it.base < start <= it.last for it in log):
            continue  # where such a set begins is not known
        seen = [it for it in log if it.last >= start and it.base < end]
        finder, parts, place = GapFinder(start, end), [], 0
        while place < len(seen):
            some = rng.randrange(1, 5)
            behind = seen[place - 1].last + 1 if place else start
            parts.append(finder.add(rows_of(seen[place : place + some], behind)))
            place += some
        parts.append(finder.finish(end))
        assert told(parts) == plain(seen, start, end), (seen, start, end)


def test_what_was_deleted_while_it_was_read_is_lost_and_not_between() -> None:
    finder = GapFinder(0, 100)
    first = finder.add(rows_of([Batch(0, 9, list(range(10)))], 0))
    lost = [(10, 40)]
    second = finder.add(rows_of([Batch(45, 49, list(range(45, 50)))], 10), lost)
    rest = finder.finish(100, [*lost, (50, 90)])
    assert told([first, second, rest]) == [(10, 39, LOST), (40, 44, BETWEEN), (50, 89, LOST), (90, 99, BETWEEN)]


def test_nothing_is_said_of_what_could_not_be_read() -> None:
    finder = GapFinder(0, 100)
    parts = [finder.add(rows_of([Batch(5, 9, list(range(5, 10)))], 0)), finder.finish(10)]
    assert told(parts) == [(0, 4, BETWEEN)]

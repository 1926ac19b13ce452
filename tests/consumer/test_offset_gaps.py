"""Gaps between records from batch headers: a plain loop over random logs finds the same, offset by offset."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import pytest

from kcli.consumer.offset_gaps import (
    ABORTED,
    BETWEEN,
    COMPACTION,
    CONTROL,
    LOST,
    GapFinder,
    GapRows,
    Gaps,
    decode_for_gaps,
)
from kcli.errors import CorruptRecords
from kcli.protocol.records import decode
from kcli.protocol.records.batch_columns import BatchColumns
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.sections import DecodedSection, RecordSection
from tests.protocol.records.vectors import VECTORS


class Batch(NamedTuple):
    """One batch. `counted` False: a compressed set of an old format, whose header has the last offset only."""

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
    ]  # the records of the whole section, more than necessary
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


def never() -> bool:
    return False


def plain(
    batches: list[Batch], start: int, end: int, between: int, lost: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int, int]]:
    kinds: dict[int, int] = {}
    behind = start
    for it in batches:
        missing = between if it.counted else COMPACTION  # an old set has no first offset
        kinds |= dict.fromkeys(range(behind, it.base), missing)
        kind = CONTROL if it.control else ABORTED if it.aborted else COMPACTION
        shown = () if it.control or it.aborted else it.records
        kinds |= {offset: kind for offset in range(it.base, it.last + 1) if offset not in shown}
        behind = it.last + 1
    kinds |= dict.fromkeys(range(behind, end), between)
    kinds |= {offset: LOST for first, after in lost for offset in range(first, after)}
    listed = [(offset, kinds[offset]) for offset in sorted(kinds) if start <= offset < end]
    runs = groupby(enumerate(listed), key=lambda it: (it[1][1], it[1][0] - it[0]))
    return [(group[0][1][0], group[-1][1][0], kind) for (kind, _), group in ((k, list(g)) for k, g in runs)]


def gap_tuples(parts: list[Gaps]) -> list[tuple[int, int, int]]:
    return [row for part in parts for row in zip(*(it.tolist() for it in part), strict=True)]


class Read(NamedTuple):
    """A log as a reader returns it: chunks, each with the offsets lost so far."""

    pieces: list[tuple[list[Batch], int, list[tuple[int, int]]]]
    lost: list[tuple[int, int]]


def made_read(rng: random.Random, log: list[Batch], start: int, end: int) -> Read | None:
    """Return a random read; None if it would begin within a set without a known first offset."""
    pieces, lost, position = list[tuple[list[Batch], int, list[tuple[int, int]]]](), list[tuple[int, int]](), start
    while position < end:
        if rng.random() < 0.15:  # the log start moves into a batch or after some batches
            lost.append((position, rng.randrange(position, end) + 1))
            position = lost[-1][1]
        some = [it for it in log if it.last >= position and it.base < end][: rng.randrange(1, 5)]
        if not some:
            break
        if not some[0].counted and some[0].base < position:
            return None
        pieces.append((some, position, list(lost)))
        position = some[-1].last + 1
    return Read(pieces, lost)


def test_random_logs_in_chunks_and_ranges() -> None:
    rng = random.Random(7)
    for _ in range(1500):
        log = made_log(rng)
        end_of_log = log[-1].last + 1 + rng.choice((0, 0, 3))
        start = rng.randrange(log[0].base + 1) if rng.random() < 0.5 else rng.randrange(end_of_log)
        end = rng.randrange(start, end_of_log) + 1
        read = made_read(rng, log, start, end)
        if read is None:
            continue
        compacted, asked = rng.random() < 0.5, list[bool]()
        finder = GapFinder(start, end, lambda it=compacted, to=asked: to.append(it) or it)
        parts = [finder.add(rows_of(some, behind), lost) for some, behind, lost in read.pieces]
        parts.append(finder.finish(end, read.lost))
        seen = [it for some, _, _ in read.pieces for it in some]
        expected = plain(seen, start, end, COMPACTION if compacted else BETWEEN, read.lost)
        assert gap_tuples(parts) == expected, (read, start, end, compacted)
        assert len(asked) == any(kind == BETWEEN for *_, kind in plain(seen, start, end, BETWEEN, read.lost))


def test_offsets_deleted_during_the_read_are_lost_not_between() -> None:
    finder = GapFinder(0, 100, never)
    first = finder.add(rows_of([Batch(0, 9, list(range(10)))], 0))
    lost = [(10, 40)]
    second = finder.add(rows_of([Batch(45, 49, list(range(45, 50)))], 10), lost)
    rest = finder.finish(100, [*lost, (50, 90)])
    assert gap_tuples([first, second, rest]) == [(10, 39, LOST), (40, 44, BETWEEN), (50, 89, LOST), (90, 99, BETWEEN)]


def test_lost_offsets_of_a_batch_are_reported_once() -> None:
    finder = GapFinder(0, 20, never)
    batches = [Batch(0, 9, list(range(10)), aborted=True), Batch(10, 19, [11, 19])]
    parts = [finder.add(rows_of(batches[:1], 0), [(0, 5)]), finder.add(rows_of(batches[1:], 10), [(0, 5), (10, 14)])]
    assert gap_tuples([*parts, finder.finish(20)]) == [
        *((0, 4, LOST), (5, 9, ABORTED)),
        *((10, 13, LOST), (14, 18, COMPACTION)),
    ]


def test_offsets_after_the_position_are_not_reported() -> None:
    finder = GapFinder(0, 100, never)
    parts = [finder.add(rows_of([Batch(5, 9, list(range(5, 10)))], 0)), finder.finish(10)]
    assert gap_tuples(parts) == [(0, 4, BETWEEN)]


# --- logs written by Kafka


def found_in(data: bytes, start: int, end: int) -> tuple[list[tuple[int, int, int]], DecodedSection]:
    finder = GapFinder(start, end, never)
    parts: list[Gaps] = []
    rest: RecordSection | None = RecordSection("t", 0, data, start, None)
    while rest is not None:
        [decoded] = decode_for_gaps([rest])
        assert isinstance(decoded.columns, GapRows)
        parts.append(finder.add(decoded.columns))
        rest = decoded.remaining
    return gap_tuples([*parts, finder.finish(decoded.next_offset)]), decoded


def moved(name: str, base: int) -> bytes:
    return base.to_bytes(8, "big") + VECTORS[name][8:]


def test_gaps_of_the_log_cleaner() -> None:
    [records] = decode.decode_sections([RecordSection("t", 0, VECTORS["v2-none-holes-to-300"], 42, None)])
    offsets = records.columns.offsets.tolist()
    behind = [42 - 1, *offsets, 301]
    expected = [(a + 1, b - 1, COMPACTION) for a, b in pairwise(behind) if b > a + 1]
    assert len(offsets) == 3
    assert expected
    found, _ = found_in(VECTORS["v2-none-holes-to-300"], 42, 301)
    assert found == expected
    assert found_in(VECTORS["v2-empty-retained"], 98, 105)[0] == [(98, 99, BETWEEN), (100, 104, COMPACTION)]
    assert found_in(VECTORS["control-commit"], 200, 201)[0] == [(200, 200, CONTROL)]


def test_full_batches_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "decode_sections", lambda *_: pytest.fail("there was no need to"))
    data = VECTORS["v2-gzip-3rec-base42"] + moved("v2-lz4-3rec-base42", 47)
    assert found_in(data, 42, 50)[0] == [(45, 46, BETWEEN)]


@pytest.mark.parametrize("name", ["v0-gzip", "v0-lz4", "v0-snappy", "v1-gzip", "v1-lz4", "v1-snappy"])
def test_old_compressed_sets_are_unpacked(name: str) -> None:
    found, decoded = found_in(VECTORS[f"{name}-2rec-base42"], 40, 44)
    assert (found, decoded.next_offset) == ([(40, 41, COMPACTION)], 44)


def test_a_large_section_is_unpacked_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    full = b"".join(build_batch([NewRecord(None, b"", 0)] * 4, base_offset=base) for base in (400, 404, 408))
    data = VECTORS["v2-none-holes-to-300"] + full + moved("v2-none-holes-to-300", 500)
    expected = found_in(data, 42, 759)[0]
    assert [gap for gap in expected if gap[2] == BETWEEN] == [(301, 399, BETWEEN), (412, 499, BETWEEN)]
    monkeypatch.setattr(decode, "MAX_RECORDS_PER_CALL", 5)
    [first] = decode_for_gaps([RecordSection("t", 0, data, 42, None)])
    assert first.remaining is not None
    assert found_in(data, 42, 759)[0] == expected


def test_damage_is_detected_as_for_records() -> None:
    bad = bytearray(VECTORS["v2-none-holes-to-300"])
    bad[-1] ^= 0xFF
    good = build_batch([NewRecord(None, b"", 0)] * 2, base_offset=40)
    found, decoded = found_in(good + bytes(bad), 40, 301)
    assert isinstance(decoded.error, CorruptRecords)
    assert (found, decoded.next_offset) == ([], 42)

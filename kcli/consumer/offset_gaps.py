"""Offsets at which a partition has no record to show, and why, from batch headers. Pure: no I/O.

    CONTROL     a marker of a transaction's end
    ABORTED     records of a transaction that was aborted; only where committed is read, else they are records
    COMPACTION  a batch tells of more offsets than it has records: only the log cleaner makes such batches
    LOST        deleted while it was read, as the reader tells
    BETWEEN     between two batches, or behind the last: the cleaner may have dropped whole batches, which is COMPACTION
                if the topic is compacted; otherwise nothing known does that

Records are unpacked only where a header says that some of its batch are missing, or an old header does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kcli.protocol.records.batch_columns import BatchColumns, HeaderRows, decode_headers
from kcli.protocol.records.sections import DecodedSection, RecordSection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.varints import Ints

CONTROL, ABORTED, COMPACTION, LOST, BETWEEN = range(5)


class Gaps(NamedTuple):
    """Gaps in the order of offsets, `firsts` to `lasts`, both without a record; no two of a kind meet."""

    firsts: Ints
    lasts: Ints
    kinds: Ints

    @classmethod
    def joined(cls, parts: Sequence[tuple[Ints, Ints, int]]) -> Gaps:
        """Of (firsts, lasts, kind), empty ones dropped, those that meet made one."""
        firsts = np.concatenate([part[0] for part in parts])
        lasts = np.concatenate([part[1] for part in parts])
        kinds = np.concatenate([np.full(len(part[0]), part[2], np.int64) for part in parts])
        order = np.flatnonzero(firsts <= lasts)
        order = order[np.argsort(firsts[order], kind="stable")]
        return cls(firsts[order], lasts[order], kinds[order]).merged()

    def merged(self) -> Gaps:
        """Those that meet and are of a kind made one."""
        if len(self.firsts) < 2:
            return self
        begins = np.ones(len(self.firsts), np.bool_)
        begins[1:] = (self.firsts[1:] != self.lasts[:-1] + 1) | (self.kinds[1:] != self.kinds[:-1])
        ends = np.append(begins[1:], True)
        return Gaps(self.firsts[begins], self.lasts[ends], self.kinds[begins])

    def split(self, held: int) -> tuple[Gaps, Gaps]:
        """All but the last `held`, and those."""
        at = len(self.firsts) - held
        return Gaps(*(it[:at] for it in self)), Gaps(*(it[at:] for it in self))


class GapRows(HeaderRows):
    """Headers, and the offsets of the records that were unpacked."""

    __slots__ = ("record_offsets",)

    def __init__(self, batches: BatchColumns, record_offsets: Ints) -> None:
        super().__init__(batches)
        self.record_offsets = record_offsets

    def take(self, selection: slice | NDArray[Any]) -> GapRows:
        """As `HeaderRows.take`; the records stay."""
        return GapRows(self.batches.pick(selection), self.record_offsets)


def decode_for_gaps(sections: Sequence[RecordSection]) -> list[DecodedSection]:
    """For a `PartitionReader`: what it hands out are `GapRows` then. The sections whose headers tell of holes are
    decoded, and damage in them is found as records are read."""
    from kcli.protocol.records.decode import decode_sections

    decoded = decode_headers(sections)
    for place, (section, it) in enumerate(zip(sections, decoded, strict=True)):
        batches = cast("HeaderRows", it.columns).batches
        offsets = np.empty(0, np.int64)
        if _with_holes(batches).any():
            [records] = decode_sections([section])
            offsets = records.columns.offsets
            if records.error is not None or records.next_offset < it.next_offset:
                it = records
                batches = batches.pick(batches.last_offsets < records.next_offset)
        decoded[place] = it._replace(columns=cast("RecordColumns", GapRows(batches, offsets)))
    return decoded


def _with_holes(batches: BatchColumns) -> NDArray[np.bool_]:
    """Data batches that have some records, but not one at each offset; or do not say."""
    span = batches.last_offsets - batches.froms + 1
    data = ~batches.control & (batches.aborted != 1)
    holes: NDArray[np.bool_] = data & (batches.counts != 0) & (batches.counts != span)
    return holes


_NONE = Gaps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class GapFinder:
    """`add` what was read, in the order of the log; then `finish`. Gaps lie in `start <= offset < end`.

    `is_compacted`: whether the cleaner may have dropped whole batches; asked once, if some are missing.
    """

    def __init__(self, start: int, end: int, is_compacted: Callable[[], bool]) -> None:
        self._is_compacted = cache(is_compacted)
        self._behind = start
        self._end = end
        self._held = _NONE

    def add(self, rows: GapRows, lost: Sequence[tuple[int, int]] = ()) -> Gaps:
        """The gaps that are known by now. `lost`: as of `PartitionCoverage`, all so far."""
        batches = rows.batches
        if not len(batches.froms):
            return _NONE
        parts = [*self._lost(lost), self._between(batches.froms, batches.last_offsets), *_marked(batches)]
        holey = batches.pick(_with_holes(batches))
        if len(holey.froms):
            parts.append((*_holes(holey.froms, holey.last_offsets, rows.record_offsets), COMPACTION))
        found = self._with_held(parts)
        self._behind = max(self._behind, int(batches.last_offsets.max()) + 1)
        if not len(found.lasts) or int(found.lasts[-1]) + 1 < self._behind:
            self._held = _NONE
            return found
        told, self._held = found.split(1)  # what comes next may go on with it
        return told

    def finish(self, position: int, lost: Sequence[tuple[int, int]] = ()) -> Gaps:
        """The rest. `position`: how far was read; nothing is said of what lies behind it."""
        stop = min(max(position, self._behind), self._end)
        return self._with_held([*self._lost(lost), self._between(np.array([stop]), np.empty(0, np.int64))])

    def _lost(self, lost: Sequence[tuple[int, int]]) -> list[tuple[Ints, Ints, int]]:
        """What was lost since: from then on the log begins behind it, maybe within a batch."""
        news = [(max(first, self._behind), after) for first, after in lost if after > self._behind]
        self._behind = max([self._behind, *(after for _, after in news)])
        return [(np.array([first]), np.array([after - 1]), LOST) for first, after in news]

    def _between(self, froms: Ints, last_offsets: Ints) -> tuple[Ints, Ints, int]:
        """What lies before each batch and behind the one before it."""
        return np.concatenate(([self._behind], last_offsets[: len(froms) - 1] + 1)), froms - 1, BETWEEN

    def _with_held(self, parts: Sequence[tuple[Ints, Ints, int]]) -> Gaps:
        last = self._end - 1
        cut = [(it if k == LOST else it.clip(min=self._behind), lasts.clip(max=last), k) for it, lasts, k in parts]
        found = Gaps.joined(cut)
        if (found.kinds == BETWEEN).any() and self._is_compacted():
            kinds = np.where(found.kinds == BETWEEN, COMPACTION, found.kinds)
            found = found._replace(kinds=kinds).merged()  # with the holes of the batches beside them
        return Gaps(*(np.concatenate(both) for both in zip(self._held, found, strict=True))).merged()


def _marked(batches: BatchColumns) -> list[tuple[Ints, Ints, int]]:
    """Batches without any record to show, by their headers."""
    aborted = ~batches.control & (batches.aborted == 1)
    empty = ~batches.control & ~aborted & (batches.counts == 0)
    kinds = ((batches.control, CONTROL), (aborted, ABORTED), (empty, COMPACTION))
    return [(batches.froms[mask], batches.last_offsets[mask], kind) for mask, kind in kinds]


def _holes(froms: Ints, lasts: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Within these batches, what lies between records, before the first and behind the last."""
    mine = np.searchsorted(lasts, offsets).clip(max=len(lasts) - 1)
    within = (offsets >= froms[mine]) & (offsets <= lasts[mine])
    offsets, mine = offsets[within], mine[within]
    before = froms[mine]  # where the hole before each record begins, if there is one
    same = np.zeros(len(mine), np.bool_)
    same[1:] = mine[1:] == mine[:-1]
    before[same] = offsets[:-1][same[1:]] + 1
    newest = np.searchsorted(offsets, lasts, side="right") - 1
    behind = froms.copy()  # where the hole at each batch's end begins
    some = newest >= 0
    behind[some] = np.maximum(offsets[newest[some]] + 1, froms[some])
    return np.concatenate((before, behind)), np.concatenate((offsets - 1, lasts))

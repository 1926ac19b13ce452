"""Offsets at which a partition has no record, and the reasons, from batch headers. Pure: no I/O.

    CONTROL     a marker of a transaction's end
    ABORTED     records of an aborted transaction; only under read_committed, otherwise they are records
    COMPACTION  the batch spans more offsets than it has records: only the log cleaner makes such batches
    LOST        deleted while the partition was read, as reported by the reader
    BETWEEN     between two batches, or after the last: in a compacted topic the cleaner may have dropped whole batches,
                which is COMPACTION; otherwise the cause is unknown

Records are unpacked only where a header shows that records of its batch are missing, or where an old header does not
have the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kcli.protocol.records.batch_columns import BatchColumns, HeaderRows, decode_headers
from kcli.protocol.records.sections import DecodedSection, RecordSection
from kcli.settings import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.varints import Ints

CONTROL, ABORTED, COMPACTION, LOST, BETWEEN = range(5)


class Gaps(NamedTuple):
    """Gaps in the order of offsets, from `firsts` to `lasts` inclusive; adjacent gaps of one kind are merged."""

    firsts: Ints
    lasts: Ints
    kinds: Ints

    @classmethod
    def joined(cls, parts: Sequence[tuple[Ints, Ints, int]]) -> Gaps:
        """Return the gaps of parts (firsts, lasts, kind), without empty gaps, merged."""
        firsts = np.concatenate([part[0] for part in parts])
        lasts = np.concatenate([part[1] for part in parts])
        kinds = np.concatenate([np.full(len(part[0]), part[2], np.int64) for part in parts])
        order = np.flatnonzero(firsts <= lasts)
        order = order[np.argsort(firsts[order], kind="stable")]
        return cls(firsts[order], lasts[order], kinds[order]).merged()

    def merged(self) -> Gaps:
        """Return the gaps with adjacent ones of one kind merged."""
        if len(self.firsts) < 2:
            return self
        begins = np.ones(len(self.firsts), np.bool_)
        begins[1:] = (self.firsts[1:] != self.lasts[:-1] + 1) | (self.kinds[1:] != self.kinds[:-1])
        ends = np.append(begins[1:], True)
        return Gaps(self.firsts[begins], self.lasts[ends], self.kinds[begins])

    def split(self, held: int) -> tuple[Gaps, Gaps]:
        """Return all but the last `held` gaps, and the last `held`."""
        at = len(self.firsts) - held
        return Gaps(*(column[:at] for column in self)), Gaps(*(column[at:] for column in self))


class GapRows(HeaderRows):
    """Batch headers, and the offsets of the records that were unpacked."""

    __slots__ = ("record_offsets",)

    def __init__(self, batches: BatchColumns, record_offsets: Ints) -> None:
        super().__init__(batches)
        self.record_offsets = record_offsets

    def take(self, selection: slice | NDArray[Any]) -> GapRows:
        """Return selected headers, as `HeaderRows.take`; the record offsets stay the same."""
        return GapRows(self.batches.pick(selection), self.record_offsets)


def decode_for_gaps(
    sections: Sequence[RecordSection], max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[DecodedSection]:
    """Decode sections to `GapRows`; a `decode` function for `RangeReader`.

    Sections whose headers show holes are decoded to records, and damage in them is detected as for records.
    """
    from kcli.protocol.records.decode import decode_sections

    decoded = decode_headers(sections)
    for place, (section, rows) in enumerate(zip(sections, decoded, strict=True)):
        batches = cast("HeaderRows", rows.columns).batches
        offsets = np.empty(0, np.int64)
        if _with_holes(batches).any():
            [records] = decode_sections([section], max_decompressed_bytes=max_decompressed_bytes)
            offsets = records.columns.offsets
            if records.error is not None or records.next_offset < rows.next_offset:
                rows = records
                batches = batches.pick(batches.last_offsets < records.next_offset)
        decoded[place] = rows._replace(columns=cast("RecordColumns", GapRows(batches, offsets)))
    return decoded


def _with_holes(batches: BatchColumns) -> NDArray[np.bool_]:
    """Select the data batches with records, but not with one at each offset; or with an unknown number of records."""
    span = batches.last_offsets - batches.froms + 1
    data = ~batches.control & (batches.aborted != 1)
    holes: NDArray[np.bool_] = data & (batches.counts != 0) & (batches.counts != span)
    return holes


_NONE = Gaps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class GapFinder:
    """Finds the gaps in `start <= offset < end`. Call `add` for the rows read, in the order of the log; then `finish`.

    `is_compacted`: whether the cleaner may have dropped whole batches; called once, if batches are missing.
    """

    def __init__(self, start: int, end: int, is_compacted: Callable[[], bool]) -> None:
        self._is_compacted = cache(is_compacted)
        self._next_offset = start
        self._end = end
        self._held = _NONE

    def add(self, rows: GapRows, lost: Sequence[tuple[int, int]] = ()) -> Gaps:
        """Return the gaps that are known by now. `lost`: all lost offsets so far, as in `PartitionCoverage`."""
        batches = rows.batches
        if not len(batches.froms):
            return _NONE
        parts = [*self._lost(lost), self._between(batches.froms, batches.last_offsets), *_marked(batches)]
        holey = batches.pick(_with_holes(batches))
        if len(holey.froms):
            parts.append((*_holes(holey.froms, holey.last_offsets, rows.record_offsets), COMPACTION))
        gaps = self._with_held(parts)
        self._next_offset = max(self._next_offset, int(batches.last_offsets.max()) + 1)
        if not len(gaps.lasts) or int(gaps.lasts[-1]) + 1 < self._next_offset:
            self._held = _NONE
            return gaps
        known, self._held = gaps.split(1)  # the last gap may continue in the next rows
        return known

    def finish(self, position: int, lost: Sequence[tuple[int, int]] = ()) -> Gaps:
        """Return the remaining gaps before `position`, where the reading ended."""
        stop = min(max(position, self._next_offset), self._end)
        return self._with_held([*self._lost(lost), self._between(np.array([stop]), np.empty(0, np.int64))])

    def _lost(self, lost: Sequence[tuple[int, int]]) -> list[tuple[Ints, Ints, int]]:
        """Return the new lost offsets. The log begins after them, possibly within a batch."""
        news = [(max(first, self._next_offset), after) for first, after in lost if after > self._next_offset]
        self._next_offset = max([self._next_offset, *(after for _, after in news)])
        return [(np.array([first]), np.array([after - 1]), LOST) for first, after in news]

    def _between(self, froms: Ints, last_offsets: Ints) -> tuple[Ints, Ints, int]:
        """Return the offsets between each batch and the batch before it."""
        return np.concatenate(([self._next_offset], last_offsets[: len(froms) - 1] + 1)), froms - 1, BETWEEN

    def _with_held(self, parts: Sequence[tuple[Ints, Ints, int]]) -> Gaps:
        last = self._end - 1
        cut = [
            (firsts if k == LOST else firsts.clip(min=self._next_offset), lasts.clip(max=last), k)
            for firsts, lasts, k in parts
        ]
        gaps = Gaps.joined(cut)
        if (gaps.kinds == BETWEEN).any() and self._is_compacted():
            kinds = np.where(gaps.kinds == BETWEEN, COMPACTION, gaps.kinds)
            gaps = gaps._replace(kinds=kinds).merged()  # with the holes of adjacent batches
        return Gaps(*(np.concatenate(both) for both in zip(self._held, gaps, strict=True))).merged()


def _marked(batches: BatchColumns) -> list[tuple[Ints, Ints, int]]:
    """Return the batches without a visible record, by their headers."""
    aborted = ~batches.control & (batches.aborted == 1)
    empty = ~batches.control & ~aborted & (batches.counts == 0)
    kinds = ((batches.control, CONTROL), (aborted, ABORTED), (empty, COMPACTION))
    return [(batches.froms[mask], batches.last_offsets[mask], kind) for mask, kind in kinds]


def _holes(froms: Ints, lasts: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return the offsets within these batches between records, before the first and after the last."""
    mine = np.searchsorted(lasts, offsets).clip(max=len(lasts) - 1)
    within = (offsets >= froms[mine]) & (offsets <= lasts[mine])
    offsets, mine = offsets[within], mine[within]
    before = froms[mine]  # the first offset of the hole before each record, if there is one
    same = np.zeros(len(mine), np.bool_)
    same[1:] = mine[1:] == mine[:-1]
    before[same] = offsets[:-1][same[1:]] + 1
    newest = np.searchsorted(offsets, lasts, side="right") - 1
    after = froms.copy()  # the first offset of the hole at the end of each batch
    some = newest >= 0
    after[some] = np.maximum(offsets[newest[some]] + 1, froms[some])
    return np.concatenate((before, after)), np.concatenate((offsets - 1, lasts))

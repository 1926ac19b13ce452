"""The batches of fetched sections as columns, from their headers alone: no decompression, no checksums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kcli.protocol.records import batch
from kcli.protocol.records.columns import APPEND_TIME, CREATE_TIME, NO_TIMESTAMP, RecordColumns
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.protocol.records.sections import DecodedSection, OpenedSection, OpenedSections, RecordSection
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CODEC_NAMES", "BatchColumns", "DecodedSection", "HeaderRows", "RecordSection", "decode_headers"]

MAX_BATCHES_PER_CALL = 1 << 18
UNKNOWN = -1
_OLD_TIMESTAMP_AT = 18


class BatchColumns(NamedTuple):
    """Batches of one partition in log order: one array entry each, int64 unless stated; -1 is unknown.

    In the formats before 0.11 (`magic` 0 and 1) an uncompressed message is a batch of one record; a compressed set
    carries its last offset only, so its `base_offsets` and `counts` are -1. `sizes` are bytes in the log, including the
    header. `counts` are the records still there: after compaction there may be fewer than offsets, or none. `codecs`
    index `CODEC_NAMES`. Times are ms since the epoch. `first_timestamps` is that of the first record as it was
    produced, -1 where compaction replaced it (KIP-534); with append time (`timestamp_types`, int8, as of
    `RecordColumns`) both are the append time. `aborted` (int8) is 1 for batches of aborted transactions, 0 for others,
    -1 if uncommitted records are read. `froms` is the lowest offset that the batch can have; ascending.
    """

    froms: Ints
    base_offsets: Ints
    last_offsets: Ints
    counts: Ints
    sizes: Ints
    codecs: Ints
    leader_epochs: Ints
    magic: Ints
    producer_ids: Ints
    producer_epochs: Ints
    base_sequences: Ints
    first_timestamps: Ints
    max_timestamps: Ints
    timestamp_types: NDArray[np.int8]
    transactional: NDArray[np.bool_]
    control: NDArray[np.bool_]
    aborted: NDArray[np.int8]

    def pick(self, selection: slice | NDArray[Any]) -> BatchColumns:
        """Return the batches selected by a slice, a boolean mask or an array of indices."""
        return BatchColumns._make(column[selection] for column in self)


class HeaderRows:
    """Batches in place of records, with the part of `RecordColumns` that the fetch loop uses."""

    __slots__ = ("batches",)

    def __init__(self, batches: BatchColumns) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches.froms)

    @property
    def offsets(self) -> Ints:
        """First offsets. The fetch loop cuts a range by them, so a batch that begins before the range's end is kept."""
        return self.batches.froms

    @property
    def payload_bytes(self) -> int:
        """Size in the log in bytes."""
        return int(self.batches.sizes.sum())

    def take(self, selection: slice | NDArray[Any]) -> HeaderRows:
        """Select as `RecordColumns.take`."""
        return HeaderRows(self.batches.pick(selection))


def decode_headers(sections: Sequence[RecordSection]) -> list[DecodedSection]:
    """Decode as `decode_sections`, but to `HeaderRows`: every batch that ends at the fetch offset or after it.

    An impossible header is damage; the records of a batch are not checked.
    """
    if not sections:
        return []
    opened = OpenedSections(sections, MAX_BATCHES_PER_CALL)
    opened.check_headers()
    columns = _batch_columns(opened)
    decoded = []
    for section in opened.sections:
        rows = HeaderRows(_section_batches(columns, opened, section))
        result = opened.result(section, None)
        decoded.append(result._replace(columns=cast("RecordColumns", rows)))
    return decoded


def _section_batches(columns: BatchColumns, opened: OpenedSections, section: OpenedSection) -> BatchColumns:
    """Return the batches of one section, without those wholly before the fetch offset, with `aborted` filled in."""
    if section.section.aborted is not None:
        columns.aborted[section.rows] = 0
        if section.section.aborted:
            columns.aborted[section.first : section.end] = opened.aborted_batches(section)
    batches = columns.pick(section.rows)
    if not len(batches.froms):
        return batches
    # A compressed set of an old format begins after the batch before it; without one, its first offset is not known.
    fetch_offset = section.section.fetch_offset
    batches.froms[0] = batches.base_offsets[0] if batches.base_offsets[0] >= 0 else fetch_offset
    if batches.last_offsets[0] >= fetch_offset:
        return batches
    return batches.pick(batches.last_offsets >= fetch_offset)


def _batch_columns(opened: OpenedSections) -> BatchColumns:
    batches = opened.batches
    attributes, base_offsets, counts = batches.attributes, batches.base_offsets, batches.counts
    last_offsets = batches.next_offsets - 1
    codecs = attributes & batch.CODEC_MASK
    appended = (attributes & batch.APPEND_TIME_BIT) != 0
    first_ms, max_ms = batches.base_timestamps, batches.max_timestamps
    types = np.where(appended, APPEND_TIME, CREATE_TIME).astype(np.int8)
    first_ms = np.where((attributes & batch.DELETE_HORIZON_BIT) != 0, UNKNOWN, first_ms)
    first_ms = np.where(appended, max_ms, first_ms)
    old = np.flatnonzero(batches.magic < 2)
    froms = base_offsets
    if len(old):
        compressed = old[codecs[old] != 0]
        max_ms = max_ms.copy()
        first_ms[old] = max_ms[old] = _old_times(opened, old)
        first_ms[compressed[~appended[compressed]]] = UNKNOWN
        types[old[batches.magic[old] == 0]] = NO_TIMESTAMP
        base_offsets, counts = base_offsets.copy(), counts.copy()
        base_offsets[compressed] = counts[compressed] = UNKNOWN
        froms = np.where(base_offsets == UNKNOWN, np.concatenate(([0], last_offsets[:-1] + 1)), base_offsets)
    return BatchColumns(
        froms=froms,
        base_offsets=base_offsets,
        last_offsets=last_offsets,
        counts=counts,
        sizes=batches.ends - batches.starts,
        codecs=codecs,
        leader_epochs=batches.leader_epochs,
        magic=batches.magic,
        producer_ids=batches.producer_ids,
        producer_epochs=batches.producer_epochs,
        base_sequences=batches.base_sequences,
        first_timestamps=first_ms,
        max_timestamps=max_ms,
        timestamp_types=types,
        transactional=(attributes & batch.TRANSACTIONAL_BIT) != 0,
        control=(attributes & batch.CONTROL_BIT) != 0,
        aborted=np.full(len(counts), UNKNOWN, np.int8),
    )


def _old_times(opened: OpenedSections, old: Ints) -> Ints:
    """Return the timestamps of old messages: -1 in format 0; of a compressed set the latest one of its messages."""
    batches = opened.batches
    times = np.full(len(batches.starts), UNKNOWN)
    for section in opened.sections:
        rows = old[(old >= section.first) & (old < section.end) & (batches.magic[old] == 1)]
        for row in rows.tolist():
            at = int(batches.starts[row]) + _OLD_TIMESTAMP_AT
            times[row] = int.from_bytes(section.buffer[at : at + 8], "big", signed=True)
    return cast("Ints", times[old])

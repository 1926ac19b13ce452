"""The batches of fetched sections as columns, from their headers alone: nothing is unpacked, no checksum computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kcli.protocol.records import batch, checks
from kcli.protocol.records.choose import drop_aborted, rest_of
from kcli.protocol.records.columns import APPEND_TIME, CREATE_TIME, NO_TIMESTAMP, RecordColumns
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.run import DecodedSection, RecordSection, Run
from kcli.protocol.records.sections import open_sections
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CODEC_NAMES", "BatchColumns", "decode_headers"]

MOST_BATCHES_PER_CALL = 1 << 18
UNKNOWN = -1
_OLD_TIMESTAMP_AT = 18


class BatchColumns(NamedTuple):
    """Batches of one partition in the order of the log: an array entry each, int64 where nothing else is said.

    What a header does not tell is -1. In the formats before 0.11 (`magic` 0 and 1) a message that is not compressed is
    a batch of one; a compressed set tells its last offset only: `base_offsets` and `counts` are -1. `sizes` are bytes
    in the log, header and all. `counts` are records still there, after compaction perhaps fewer than offsets, or none.
    `codecs` index `CODEC_NAMES`. Times are ms since the epoch; `first_timestamps` that of the first record as it was
    produced, -1 where a compaction has put its own time there (KIP-534); where the broker stamps (`timestamp_types`,
    int8, as of `RecordColumns`) both are that stamp. `aborted` (int8): 1 if the batch's transaction was, 0 if not, -1
    if that is not known, since uncommitted was read. `froms` is the first offset that the batch can have; ascending.
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
        """The batches that a slice, a boolean mask or an array of indices selects."""
        return BatchColumns._make(column[selection] for column in self)


class HeaderRows:
    """Batches in the place where the fetch loop has records: what it asks of them, and nothing else."""

    __slots__ = ("batches",)

    def __init__(self, batches: BatchColumns) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches.froms)

    @property
    def offsets(self) -> Ints:
        """By these the loop cuts at a range's end: a batch that begins before it is kept."""
        return self.batches.froms

    @property
    def payload_bytes(self) -> int:
        """Bytes in the log."""
        return int(self.batches.sizes.sum())

    def take(self, selection: slice | NDArray[Any]) -> HeaderRows:
        """As `RecordColumns.take`."""
        return HeaderRows(self.batches.pick(selection))


def decode_headers(sections: Sequence[RecordSection]) -> list[DecodedSection]:
    """As `decode_sections`, but `columns` are `HeaderRows`: every batch that reaches to the offset asked or beyond.

    A header that is impossible is damage; whether what follows it is sound, nobody looks.
    """
    if not sections:
        return []
    batches, runs = open_sections(sections, MOST_BATCHES_PER_CALL)
    checks.check_headers(batches, runs)
    columns = _columns(batches, runs)
    decoded = []
    for run in runs:
        rows = HeaderRows(_mine(columns, batches, run))
        rest = rest_of(batches, run)
        decoded.append(run.result(batches, rest)._replace(columns=cast("RecordColumns", rows)))
    return decoded


def _mine(columns: BatchColumns, batches: Batches, run: Run) -> BatchColumns:
    """The batches of one run, without those wholly before the offset asked; and which of them were aborted."""
    mine = slice(run.lo, run.limit)
    if run.section.aborted is not None:
        columns.aborted[mine] = 0
        if run.section.aborted:
            kept = np.ones(len(batches.starts), np.bool_)
            drop_aborted(batches, run, kept)
            columns.aborted[mine] = ~kept[mine]
            mine = slice(run.lo, run.limit)
    if run.lo == run.limit:
        return columns.pick(mine)
    found = columns.pick(mine)
    # A compressed set of an old format begins behind the batch before it; what it holds before that is not told.
    found.froms[0] = found.base_offsets[0] if found.base_offsets[0] >= 0 else run.section.fetch_offset
    if found.last_offsets[0] >= run.section.fetch_offset:
        return found
    return found.pick(found.last_offsets >= run.section.fetch_offset)


def _columns(batches: Batches, runs: Sequence[Run]) -> BatchColumns:
    attributes, base_offsets, counts = batches.attributes, batches.base_offsets, batches.counts
    last_offsets = batches.next_offsets - 1
    codecs = attributes & batch.CODEC_MASK
    appended = (attributes & batch.APPEND_TIME_BIT) != 0
    first, most = batches.base_timestamps, batches.max_timestamps
    types = np.where(appended, APPEND_TIME, CREATE_TIME).astype(np.int8)
    first = np.where((attributes & batch.DELETE_HORIZON_BIT) != 0, UNKNOWN, first)
    first = np.where(appended, most, first)
    old = np.flatnonzero(batches.magic < 2)
    froms = base_offsets
    if len(old):
        packed = old[codecs[old] != 0]
        most = most.copy()
        first[old] = most[old] = _old_times(batches, runs, old)
        first[packed[~appended[packed]]] = UNKNOWN
        types[old[batches.magic[old] == 0]] = NO_TIMESTAMP
        base_offsets, counts = base_offsets.copy(), counts.copy()
        base_offsets[packed] = counts[packed] = UNKNOWN
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
        first_timestamps=first,
        max_timestamps=most,
        timestamp_types=types,
        transactional=(attributes & batch.TRANSACTIONAL_BIT) != 0,
        control=(attributes & batch.CONTROL_BIT) != 0,
        aborted=np.full(len(counts), UNKNOWN, np.int8),
    )


def _old_times(batches: Batches, runs: Sequence[Run], old: Ints) -> Ints:
    """The timestamps of old messages: format 0 has none, a compressed set of format 1 that of its latest message."""
    times = np.full(len(batches.starts), UNKNOWN)
    for run in runs:
        mine = old[(old >= run.lo) & (old < run.hi) & (batches.magic[old] == 1)]
        for index in mine.tolist():
            at = int(batches.starts[index]) + _OLD_TIMESTAMP_AT
            times[index] = int.from_bytes(run.buffer[at : at + 8], "big", signed=True)
    found: Ints = times[old]
    return found

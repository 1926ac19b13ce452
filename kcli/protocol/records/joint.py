"""Many batches into one set of columns: their headers as arrays, their records side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.records import batch
from kcli.protocol.records.chain import chain_records
from kcli.protocol.records.columns import Buffer, Ints, RecordColumns
from kcli.protocol.records.fields import read_fields


class Batches(NamedTuple):
    """Headers of v2 batches, one array entry per batch; `starts` and `ends` are places in the buffer."""

    starts: Ints
    ends: Ints
    base_offsets: Ints
    next_offsets: Ints
    leader_epochs: Ints
    magic: Ints
    crcs: Ints
    attributes: Ints
    last_offset_deltas: Ints
    base_timestamps: Ints
    max_timestamps: Ints
    producer_ids: Ints
    counts: Ints

    @classmethod
    def of(cls, headers: NDArray[np.void], starts: Sequence[int], ends: Sequence[int]) -> Batches:
        """From raw headers as `gather_headers` gives them."""

        def field(name: str) -> Ints:
            return headers[name].astype(np.int64)

        base_offsets, deltas = field("base_offset"), field("last_offset_delta")
        return cls(
            np.array(starts, np.int64), np.array(ends, np.int64), base_offsets, base_offsets + deltas + 1,
            field("leader_epoch"), field("magic"), field("crc"), field("attributes"), deltas, field("base_timestamp"),
            field("max_timestamp"), field("producer_id"), field("count"),
        )  # fmt: skip


class Run:
    """Batches `lo` to `hi` of one section; `limit` is the first not to be read, `problem` why."""

    __slots__ = ("aborted", "fetch_offset", "hi", "limit", "lo", "problem", "section")

    def __init__(
        self, section: int, fetch_offset: int, lo: int, hi: int, aborted: Sequence[tuple[int, int]] | None
    ) -> None:
        self.section = section
        self.fetch_offset = fetch_offset
        self.lo = lo
        self.hi = self.limit = hi
        self.aborted = aborted
        self.problem: str | None = None

    def fail(self, index: int, problem: str) -> None:
        """Batch `index` is damaged: it and what follows is not read."""
        if index < self.limit:
            self.limit, self.problem = index, problem

    def position(self, batches: Batches) -> tuple[int, int]:
        """The offset behind the last good batch, and its leader epoch."""
        if self.lo == self.limit:
            return self.fetch_offset, -1
        behind = int(batches.next_offsets[self.lo : self.limit].max())
        return max(self.fetch_offset, behind), int(batches.leader_epochs[self.limit - 1])


def decode_payloads(
    buffer: Buffer, data: NDArray[np.uint8], batches: Batches, wanted: NDArray[np.bool_], runs: list[Run]
) -> list[RecordColumns]:
    """Columns per run of the `wanted` batches before its limit; a batch that cannot be read lowers that limit."""
    for run in runs:
        wanted[run.limit : run.hi] = False
    chosen = np.flatnonzero(wanted)
    starts, ends = batches.starts[chosen] + batch.HEADER_BYTES, batches.ends[chosen]
    chain = chain_records(buffer, starts, ends, batches.counts[chosen])
    fields = read_fields(buffer, data, chain.body_starts, chain.body_ends)
    behind = np.cumsum(chain.counts)

    offset_deltas = fields.offset_deltas
    offsets = np.repeat(batches.base_offsets[chosen], chain.counts) + offset_deltas
    timestamps = np.repeat(batches.base_timestamps[chosen], chain.counts) + fields.timestamp_deltas
    types = np.zeros(len(offsets), np.int8)
    append_time = (batches.attributes[chosen] & batch.APPEND_TIME_BIT) != 0
    if append_time.any():
        types = np.repeat(append_time, chain.counts).astype(np.int8)
        appended = types != 0
        timestamps[appended] = np.repeat(batches.max_timestamps[chosen], chain.counts)[appended]

    wrong = (offset_deltas < 0) | (offset_deltas > np.repeat(batches.last_offset_deltas[chosen], chain.counts))
    wrong[1:] |= offset_deltas[1:] <= offset_deltas[:-1]
    firsts = (behind - chain.counts)[chain.counts > 0]
    wrong[firsts] = offset_deltas[firsts] < 0
    problems = fields.problems
    for index in np.flatnonzero(wrong).tolist():
        problems.setdefault(index, "the offsets of its records do not increase within the batch's own range")

    failures = dict(chain.failures)
    for index, problem in sorted(problems.items()):
        at = int(np.searchsorted(behind, index, side="right"))
        failures.setdefault(at, f"record {index - int(behind[at] - chain.counts[at])}: {problem}")
    for at, problem in failures.items():
        which = int(chosen[at])
        next(run for run in runs if run.lo <= which < run.hi).fail(which, problem)

    joint = RecordColumns(
        buffer,
        offsets=offsets,
        timestamps_ms=timestamps,
        key_starts=fields.key_starts,
        key_lengths=fields.key_lengths,
        value_starts=fields.value_starts,
        value_lengths=fields.value_lengths,
        header_starts=fields.header_starts,
        header_counts=fields.header_counts,
        header_ends=chain.body_ends,
        timestamp_types=types,
    )
    edges = np.concatenate(([0], behind))
    result = []
    for run in runs:
        first, last = np.searchsorted(chosen, (run.lo, run.limit))
        columns = joint.take(slice(int(edges[first]), int(edges[last])))
        if len(columns) and (columns.offsets[0] < run.fetch_offset or (np.diff(columns.offsets) <= 0).any()):
            columns = _without_old(columns, run.fetch_offset)
        result.append(columns)
    return result


def _without_old(columns: RecordColumns, fetch_offset: int) -> RecordColumns:
    """Drop what lies before the offset asked, and what a batch repeats of those before it."""
    offsets = columns.offsets
    reached = np.maximum.accumulate(np.concatenate(([fetch_offset - 1], offsets[:-1])))
    return columns.take(offsets > reached)

"""Many batches into one set of columns: their headers as arrays, their records side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.records import batch
from kcli.protocol.records.chain import Chain, chain_records
from kcli.protocol.records.columns import APPEND_TIME, RecordColumns
from kcli.protocol.records.fields import Fields, explain, read_fields
from kcli.protocol.records.varints import Buffer, Ints, Octets


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
    buffer: Buffer, data: Octets, batches: Batches, wanted: NDArray[np.bool_], runs: list[Run]
) -> list[RecordColumns]:
    """Columns per run of the `wanted` batches before its limit; a batch that cannot be read lowers that limit."""
    for run in runs:
        wanted[run.limit : run.hi] = False
    chosen = np.flatnonzero(wanted)
    starts, ends = batches.starts[chosen] + batch.HEADER_BYTES, batches.ends[chosen]
    chain = chain_records(buffer, data, starts, ends, batches.counts[chosen])
    fields = read_fields(buffer, data, chain.body_starts, chain.body_ends)
    edges = np.concatenate(([0], np.cumsum(chain.counts)))
    failures = dict(chain.failures)
    bad = np.concatenate((fields.bad, _out_of_order(fields.offset_deltas, edges, batches.last_offset_deltas[chosen])))
    for index in np.sort(bad).tolist():
        which = int(np.searchsorted(edges, index, side="right")) - 1
        problem = explain(buffer, int(chain.body_starts[index]), int(chain.body_ends[index]))
        failures.setdefault(which, f"record {index - int(edges[which])}: {problem}")
    for which, problem in failures.items():
        index = int(chosen[which])
        next(run for run in runs if run.lo <= index < run.hi).fail(index, problem)
    joint = _columns(buffer, batches, chosen, chain, fields)
    result = []
    for run in runs:
        first, last = np.searchsorted(chosen, (run.lo, run.limit))
        columns = joint.take(slice(int(edges[first]), int(edges[last])))
        result.append(_without_old(columns, run.fetch_offset))
    return result


def _columns(buffer: Buffer, batches: Batches, chosen: Ints, chain: Chain, fields: Fields) -> RecordColumns:
    offsets = np.repeat(batches.base_offsets[chosen], chain.counts)
    offsets += fields.offset_deltas
    timestamps = np.repeat(batches.base_timestamps[chosen], chain.counts)
    timestamps += fields.timestamp_deltas
    types = np.zeros(len(offsets), np.int8)
    append_time = (batches.attributes[chosen] & batch.APPEND_TIME_BIT) != 0
    if append_time.any():
        appended = np.repeat(append_time, chain.counts)
        types[appended] = APPEND_TIME
        timestamps[appended] = np.repeat(batches.max_timestamps[chosen], chain.counts)[appended]
    return RecordColumns(
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


def _out_of_order(deltas: Ints, edges: Ints, last_deltas: Ints) -> Ints:
    """Indices of records whose offset does not follow that of the record before, or leaves the batch's own range."""
    if not len(deltas):
        return np.empty(0, np.int64)
    wrong = np.empty(len(deltas), np.bool_)
    np.less_equal(deltas[1:], deltas[:-1], out=wrong[1:])
    filled = edges[1:] > edges[:-1]
    firsts, lasts = edges[:-1][filled], edges[1:][filled] - 1
    wrong[firsts] = deltas[firsts] < 0
    wrong[lasts] |= deltas[lasts] > last_deltas[filled]
    return np.flatnonzero(wrong)


def _without_old(columns: RecordColumns, fetch_offset: int) -> RecordColumns:
    """Drop what lies before the offset asked, and what a batch repeats of those before it (as Java's consumer does)."""
    offsets = columns.offsets
    if not len(offsets) or (offsets[0] >= fetch_offset and (offsets[1:] > offsets[:-1]).all()):
        return columns
    reached = np.maximum.accumulate(np.concatenate(([fetch_offset - 1], offsets[:-1])))
    return columns.take(offsets > reached)

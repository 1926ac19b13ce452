"""The records of many batches side by side, as one set of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.chain import Chain, chain_records
from kcli.protocol.records.columns import APPEND_TIME, RecordColumns
from kcli.protocol.records.fields import Fields, explain, read_fields
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.legacy import Messages, read_messages
from kcli.protocol.records.varints import Ints, Octets

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Joint(NamedTuple):
    """Records of many batches; those of the i-th batch given are `edges[i]` to `edges[i + 1]`.

    `failures`: what is wrong, by batch; the records of these are not to be used.
    """

    columns: RecordColumns
    batches: Ints
    edges: Ints
    failures: dict[int, str]


def decode_payloads(buffer: Buffer, data: Octets, batches: Batches, chosen: Ints, starts: Ints, ends: Ints) -> Joint:
    """The records of the batches `chosen`, whose uncompressed payloads are `buffer[starts[i]:ends[i]]`, ascending."""
    chain = chain_records(buffer, data, starts, ends, batches.counts[chosen])
    fields = read_fields(buffer, data, chain.body_starts, chain.body_ends)
    edges = _edges(chain.counts)
    failures = {int(chosen[which]): problem for which, problem in chain.failures.items()}
    spans = (batches.next_offsets - batches.base_offsets)[chosen]
    bad = np.sort(np.concatenate((fields.bad, _out_of_order(fields.offset_deltas, edges, spans))))
    owners, firsts, _ = _groups(np.searchsorted(edges, bad, side="right") - 1)
    for which, index in zip(owners.tolist(), bad[firsts].tolist(), strict=True):
        problem = explain(buffer, int(chain.body_starts[index]), int(chain.body_ends[index]))
        failures[int(chosen[which])] = f"in record {index - int(edges[which])}, {problem}"
    return Joint(_columns(buffer, batches, chosen, chain, fields), chosen, edges, failures)


def decode_messages(buffer: Buffer, data: Octets, messages: Messages) -> Joint:
    """Messages of format 0 and 1, those of one batch next to each other."""
    columns, bad = read_messages(buffer, data, messages)
    chosen, _, counts = _groups(messages.batches)
    problem = "its key and value do not fill the message"
    return Joint(columns, chosen, _edges(counts), {int(index): problem for index in messages.batches[bad]})


def merge(one: Joint, other: Joint) -> Joint:
    """Both, over the same buffer, in the order of their batches."""
    owners = np.concatenate([np.repeat(it.batches, np.diff(it.edges)) for it in (one, other)])
    columns = RecordColumns.join([one.columns, other.columns]).take(np.argsort(owners, kind="stable"))
    order = np.argsort(np.concatenate((one.batches, other.batches)))
    counts = np.concatenate((np.diff(one.edges), np.diff(other.edges)))[order]
    chosen = np.concatenate((one.batches, other.batches))[order]
    return Joint(columns, chosen, _edges(counts), one.failures | other.failures)


def cut_out(joint: Joint, low: int, high: int, fetch_offset: int) -> RecordColumns:
    """The records of the batches `low` to `high`, from the offset asked on."""
    first, last = np.searchsorted(joint.batches, (low, high))
    columns = joint.columns.take(slice(int(joint.edges[first]), int(joint.edges[last])))
    offsets = columns.offsets
    if not len(offsets) or (offsets[0] >= fetch_offset and (offsets[1:] > offsets[:-1]).all()):
        return columns
    # What a batch repeats of those before it is dropped, too, as Java's consumer does.
    reached = np.maximum.accumulate(np.concatenate(([fetch_offset - 1], offsets[:-1])))
    return columns.take(offsets > reached)


def _edges(counts: Sequence[int] | Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _groups(values: Ints) -> tuple[Ints, Ints, Ints]:
    """The different values of a sorted array, where each begins, and how often it is there.

    `np.unique` can do that, but imports masked arrays, which takes 10 to 25 ms of a command's life.
    """
    first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    firsts = np.flatnonzero(first)
    return values[firsts], firsts, np.diff(firsts, append=len(values))


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


def _out_of_order(deltas: Ints, edges: Ints, spans: Ints) -> Ints:
    """Indices of records whose offset does not follow that of the record before, or leaves the batch's own range."""
    if not len(deltas):
        return np.empty(0, np.int64)
    wrong: NDArray[np.bool_] = np.empty(len(deltas), np.bool_)
    np.less_equal(deltas[1:], deltas[:-1], out=wrong[1:])
    filled = edges[1:] > edges[:-1]
    firsts, lasts = edges[:-1][filled], edges[1:][filled] - 1
    wrong[firsts] = deltas[firsts] < 0
    wrong[lasts] |= deltas[lasts] >= spans[filled]
    return np.flatnonzero(wrong)

"""Many batch headers as one table: an array per header field, a row per batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.protocol.records.batch import (
    APPEND_TIME_BIT,
    CODEC_MASK,
    HEADER_BYTES,
    MAGIC_AT,
    PREFIX_BYTES,
    TRANSACTIONAL_BIT,
)
from kcli.protocol.records.varints import Ints, Octets

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER_DTYPE = np.dtype(
    [
        ("base_offset", ">i8"),
        ("size", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)

# A producer's sequence numbers have 31 bits and start again at 0 (KIP-98).
_SEQUENCES = 1 << 31
_NONE = -1


class BatchTable(NamedTuple):
    """Headers of batches, one array entry each; `starts` and `ends` are positions in the buffer.

    A message of format 0 or 1 is a batch of one offset, its own, without an epoch or a producer.
    """

    starts: Ints
    ends: Ints
    base_offsets: Ints
    next_offsets: Ints
    leader_epochs: Ints
    magic: Ints
    crcs: Ints
    attributes: Ints
    base_timestamps: Ints
    max_timestamps: Ints
    producer_ids: Ints
    producer_epochs: Ints
    base_sequences: Ints
    counts: Ints

    @classmethod
    def read(cls, data: Octets, starts: Sequence[int], ends: Sequence[int]) -> BatchTable:
        """Read the headers at `starts`, ascending."""
        positions = np.array(starts, np.int64)
        headers = _gather_headers(data, positions)

        def field(name: str) -> Ints:
            return headers[name].astype(np.int64)

        base_offsets = field("base_offset")
        table = cls(
            positions, np.array(ends, np.int64), base_offsets, base_offsets + field("last_offset_delta") + 1,
            field("leader_epoch"), field("magic"), field("crc"), field("attributes"), field("base_timestamp"),
            field("max_timestamp"), field("producer_id"), field("producer_epoch"), field("base_sequence"),
            field("count"),
        )  # fmt: skip
        table._correct_old(data)
        return table

    @classmethod
    def join(cls, parts: Sequence[BatchTable]) -> BatchTable:
        """Concatenate the batches of several buffers."""
        return parts[0] if len(parts) == 1 else cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _correct_old(self, data: Octets) -> None:
        """Set the fields of formats 0 and 1, which have only CRC, magic and attributes after the prefix."""
        old = np.flatnonzero((self.magic == 0) | (self.magic == 1))
        if not len(old):
            return
        self.next_offsets[old] = self.base_offsets[old] + 1
        self.leader_epochs[old] = self.producer_ids[old] = -1
        self.producer_epochs[old] = self.base_sequences[old] = -1
        self.attributes[old] = data[self.starts[old] + MAGIC_AT + 1] & (CODEC_MASK | APPEND_TIME_BIT)
        crcs = data[self.starts[old][:, None] + np.arange(PREFIX_BYTES, MAGIC_AT)]
        self.crcs[old] = crcs.view(">u4").reshape(len(old))
        self.counts[old] = 1


def _gather_headers(data: Octets, positions: Ints) -> NDArray[np.void]:
    """Return the headers at `positions`, ascending. Old messages at the end may be shorter than a header: pad them."""
    if len(positions) and positions[-1] + HEADER_BYTES <= len(data):
        any_position: NDArray[np.void] = np.ndarray((len(data) - HEADER_BYTES + 1,), HEADER_DTYPE, data, strides=(1,))
        return any_position[positions]
    rows = data.take(positions[:, None] + np.arange(HEADER_BYTES), mode="clip")
    return rows.view(HEADER_DTYPE).reshape(len(positions))


class BatchFacts(NamedTuple):
    """Facts of a batch for each of its records: `owners` is the row of each record's batch in the table."""

    batches: BatchTable
    owners: Ints
    offsets: Ints

    def of_each(self, column: Ints) -> Ints:
        """Return a column of `batches` for each record."""
        return column[self.owners]

    def base_offsets(self) -> Ints:
        """First offset of each record's batch; -1 in compressed sets of formats 0 and 1, which do not carry it."""
        old = (self.batches.magic < 2) & ((self.batches.attributes & CODEC_MASK) != 0)
        return self.of_each(np.where(old, _NONE, self.batches.base_offsets))

    def sequences(self) -> Ints:
        """Sequence number of each record; -1 without an idempotent producer."""
        firsts = self.of_each(self.batches.base_sequences)
        numbers = (firsts + self.offsets - self.of_each(self.batches.base_offsets)) % _SEQUENCES
        return np.where(firsts < 0, _NONE, numbers)

    def codecs(self) -> Ints:
        """Index of each record's codec in `CODEC_NAMES`."""
        return self.of_each(self.batches.attributes & CODEC_MASK)

    def transactional(self) -> Ints:
        """1 for records written in a transaction, else 0."""
        return self.of_each((self.batches.attributes & TRANSACTIONAL_BIT) // TRANSACTIONAL_BIT)

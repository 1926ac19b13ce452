"""Many batch headers at once, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.protocol.records.batch import APPEND_TIME_BIT, CODEC_MASK, HEADER_BYTES, MAGIC_AT, PREFIX_BYTES
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


class Batches(NamedTuple):
    """Headers of batches, one array entry each; `starts` and `ends` are places in the buffer.

    A message of format 0 or 1 counts as a batch too: of one offset, its own, without an epoch or a producer.
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
    def read(cls, data: Octets, starts: Sequence[int], ends: Sequence[int]) -> Batches:
        """The headers at `starts`."""
        places = np.array(starts, np.int64)
        headers = _gather(data, places)

        def field(name: str) -> Ints:
            return headers[name].astype(np.int64)

        base_offsets = field("base_offset")
        batches = cls(
            places, np.array(ends, np.int64), base_offsets, base_offsets + field("last_offset_delta") + 1,
            field("leader_epoch"), field("magic"), field("crc"), field("attributes"), field("base_timestamp"),
            field("max_timestamp"), field("producer_id"), field("producer_epoch"), field("base_sequence"),
            field("count"),
        )  # fmt: skip
        batches._mend_old(data)
        return batches

    @classmethod
    def join(cls, parts: Sequence[Batches]) -> Batches:
        """The batches of several buffers, one behind the other."""
        return parts[0] if len(parts) == 1 else cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _mend_old(self, data: Octets) -> None:
        """Formats 0 and 1: crc, magic, attributes follow the prefix, and nothing else that is asked for here."""
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


def _gather(data: Octets, places: Ints) -> NDArray[np.void]:
    """The headers at `places`, ascending; what the last messages of an old format lack of one is filled up."""
    if len(places) and places[-1] + HEADER_BYTES <= len(data):
        anywhere: NDArray[np.void] = np.ndarray((len(data) - HEADER_BYTES + 1,), HEADER_DTYPE, data, strides=(1,))
        return anywhere[places]
    rows = data.take(places[:, None] + np.arange(HEADER_BYTES), mode="clip")
    return rows.view(HEADER_DTYPE).reshape(len(places))

"""What the batch around each record says of it: found when somebody asks, so that who does not ask pays nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kcli.protocol.records import batch
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.varints import Ints

# A producer's sequence numbers are of 31 bits and begin again at 0 (KIP-98).
_SEQUENCES = 1 << 31
NONE = -1


class BatchFacts(NamedTuple):
    """Batches, and for each record which of them it is of."""

    batches: Batches
    owners: Ints
    offsets: Ints

    def of_each(self, column: Ints) -> Ints:
        """A column of `batches` for each record."""
        return column[self.owners]

    def base_offsets(self) -> Ints:
        """First offset of each record's batch; -1 in compressed sets of formats 0 and 1, which do not tell it."""
        old = (self.batches.magic < 2) & ((self.batches.attributes & batch.CODEC_MASK) != 0)
        return self.of_each(np.where(old, NONE, self.batches.base_offsets))

    def sequences(self) -> Ints:
        """The number that the producer gave each record, so that its retries are known; -1 without idempotence."""
        firsts = self.of_each(self.batches.base_sequences)
        numbers = (firsts + self.offsets - self.of_each(self.batches.base_offsets)) % _SEQUENCES
        return np.where(firsts < 0, NONE, numbers)

    def codecs(self) -> Ints:
        """Index into `CODEC_NAMES`."""
        return self.of_each(self.batches.attributes & batch.CODEC_MASK)

    def transactional(self) -> Ints:
        """1 for records written in a transaction, else 0."""
        return self.of_each((self.batches.attributes & batch.TRANSACTIONAL_BIT) // batch.TRANSACTIONAL_BIT)


def batch_facts(columns: RecordColumns) -> BatchFacts:
    """The batches of decoded records. ValueError for records that were not decoded from batches.

    Offsets ascend from batch to batch, so a record is of the first batch that reaches to its offset.
    """
    if columns.within is None:
        raise ValueError("it is not known which batches these records are of")
    batches, low, high = columns.within
    owners = batches.next_offsets[low:high].searchsorted(columns.offsets, side="right") + low
    return BatchFacts(batches, owners, columns.offsets)

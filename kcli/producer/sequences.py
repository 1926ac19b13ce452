"""The producer id, its epoch and the next sequence number of each partition (KIP-98). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.producer.batches import Identity

if TYPE_CHECKING:
    from kcli.producer.batches import ProducerBatch
    from kcli.structs import TopicPartition

_SEQUENCE_MODULUS = 1 << 31


class Sequences:
    """Producer id and sequence numbers of one producer. Pure. `is_ready` is False until `begin` sets an id."""

    def __init__(self) -> None:
        self._producer: tuple[int, int] | None = None
        self._next_sequences: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return f"<Sequences producer={self._producer} partitions={len(self._next_sequences)}>"

    @property
    def is_ready(self) -> bool:
        return self._producer is not None

    @property
    def producer(self) -> tuple[int, int] | None:
        """The producer id and its epoch; None before `begin`."""
        return self._producer

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        """Start from sequence number 0 in all partitions, with this producer id."""
        self._producer = (producer_id, producer_epoch)
        self._next_sequences.clear()

    def renew(self) -> None:
        """Give up the current producer id. Batches that have it keep it."""
        self._producer = None

    def assign(self, batch: ProducerBatch) -> None:
        """Assign an identity to a batch without one."""
        if batch.identity is None:
            assert self._producer is not None
            batch.identity = Identity(*self._producer, self._next_sequences.get(batch.tp, 0))

    def stored(self, batch: ProducerBatch) -> None:
        """Advance the sequence number of the batch's partition."""
        identity = batch.identity
        if identity is not None and identity[:2] == self._producer:
            self._next_sequences[batch.tp] = (identity.base_sequence + batch.record_count) % _SEQUENCE_MODULUS

    def failed(self, batch: ProducerBatch) -> None:
        """Reuse the sequence numbers of a failed batch, unless it may be stored: then give up the producer id."""
        if batch.identity is not None and batch.identity[:2] == self._producer and batch.may_be_stored:
            self.renew()

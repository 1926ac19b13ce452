"""Producer id and sequence numbers, by which a broker drops what a retry would store twice (KIP-98). Pure.

A batch gets its identity when it is first sent and keeps it over retries. With one batch of a partition out at a time
the next number is the last stored one plus its count. When nobody knows whether a batch was stored and it will not be
retried, its numbers can neither be used again nor skipped: a new producer id, counting from 0, is asked for instead.
"""

from __future__ import annotations

from kcli.producer.batches import Identity, ProducerBatch
from kcli.structs import TopicPartition

_WRAP = 1 << 31


class Sequences:
    """The numbers of one producer. `is_ready` is False until `begin` has been told an id."""

    def __init__(self) -> None:
        self._producer: tuple[int, int] | None = None
        self._next: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return f"<Sequences producer={self._producer} partitions={len(self._next)}>"

    @property
    def is_ready(self) -> bool:
        return self._producer is not None

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        """Count from 0 under this id."""
        self._producer = (producer_id, producer_epoch)
        self._next.clear()

    def renew(self) -> None:
        """Give up the current id. Batches that have one keep it."""
        self._producer = None

    def assign(self, batch: ProducerBatch) -> None:
        """Give the batch its identity, unless it has one."""
        if batch.identity is None:
            assert self._producer is not None
            batch.identity = Identity(*self._producer, self._next.get(batch.tp, 0))

    def stored(self, batch: ProducerBatch) -> None:
        """The broker has the batch: its partition goes on behind it."""
        identity = batch.identity
        if identity is not None and identity[:2] == self._producer:
            self._next[batch.tp] = (identity.base_sequence + len(batch.rows)) % _WRAP

    def failed(self, batch: ProducerBatch, *, surely_not_stored: bool) -> None:
        """The batch is given up. Its numbers go to the next one if it was `surely_not_stored`."""
        if batch.identity is not None and batch.identity[:2] == self._producer and not surely_not_stored:
            self.renew()

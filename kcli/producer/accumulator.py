"""Batches that wait to be sent, by partition: full, due, expired. Pure: time is an argument.

The batches of a partition are sent in order, one at a time: while one is in flight or waits for its retry, the others
wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from kcli.producer.batches import HEADER_BYTES, ProducerBatch, SizedRecords
from kcli.structs import TopicPartition

_NEVER_MS = float("inf")


class Accumulator:
    """The queue of batches between the calls that add records and the sender.

    `batch_bytes`, `linger_ms` and `delivery_timeout_ms` are Kafka's batch.size, linger.ms and delivery.timeout.ms. A
    batch of `batch_bytes` is due; until it is sent, it takes records up to `limit_bytes` (default: `batch_bytes`).
    """

    def __init__(
        self, *, batch_bytes: int, linger_ms: float, delivery_timeout_ms: float, limit_bytes: int | None = None
    ) -> None:
        #: Estimated bytes of all records that are neither stored nor failed.
        self.buffered_bytes = 0
        self._batch_bytes = batch_bytes
        self._limit_bytes = batch_bytes if limit_bytes is None else limit_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        # Batches that were taken and neither completed nor requeued.
        self._in_flight: dict[TopicPartition, ProducerBatch] = {}
        # Smaller batches for topics whose broker refused batches of the configured size.
        self._topic_batch_bytes: dict[str, int] = {}
        self._generation = 0  # of new batches; see `close_batches`

    def __repr__(self) -> str:
        waiting = sum(map(len, self._queues.values()))
        return f"<Accumulator {waiting} batches waiting, {self.in_flight_count} in flight, {self.buffered_bytes} bytes>"

    @property
    def in_flight_count(self) -> int:
        """The number of batches that were taken and neither completed nor requeued."""
        return len(self._in_flight)

    @property
    def is_empty(self) -> bool:
        """No batch waits and none is in flight."""
        return not self._queues and not self._in_flight

    @property
    def topics(self) -> set[str]:
        """The topics that have batches."""
        return {tp.topic for tp in (*self._queues, *self._in_flight)}

    @property
    def record_count(self) -> int:
        """The number of records that are neither stored nor failed."""
        return sum(batch.record_count for batch in self._batches())

    def _batches(self) -> Iterator[ProducerBatch]:
        return chain(self._in_flight.values(), *self._queues.values())

    def append(
        self, tp: TopicPartition, records: SizedRecords, now_ms: float, *, start: int = 0, one_batch: bool = False
    ) -> int:
        """Add `records[start:]` to batches of `tp`. Return the index after the last record added.

        With `one_batch`, stop after batch.size or when the batch is full, so that the caller can go on with another
        partition.
        """
        limit = self._topic_batch_bytes.get(tp.topic, self._limit_bytes)
        index = start
        while index < records.count:
            batch = self._open_batch(tp, now_ms)
            size_before = batch.size_bytes
            room = min(limit - batch.size_bytes, self._batch_bytes) if one_batch else limit - batch.size_bytes
            index = _fill(batch, records, index, room, limit)
            self.buffered_bytes += batch.size_bytes - size_before
            if one_batch:
                break
        return index

    def is_full(self, tp: TopicPartition) -> bool:
        """Return whether the last batch of `tp` is due by its size, or takes no more records."""
        queue = self._queues.get(tp)
        return not queue or self._is_full(queue[-1])

    def _is_full(self, batch: ProducerBatch) -> bool:
        return batch.closed or batch.size_bytes >= self._batch_bytes

    def _due_ms(self, batch: ProducerBatch) -> float:
        """A full batch is due at once, another one after the linger time, and none before its retry."""
        if self._is_full(batch):
            return batch.retry_at_ms
        return max(batch.retry_at_ms, batch.created_ms + self._linger_ms)

    def close_batches(self) -> int:
        """Make all batches due that have records now. Return their generation for `has_batches`."""
        for queue in self._queues.values():
            queue[-1].closed = True
        self._generation += 1
        return self._generation - 1

    def has_batches(self, generation: int) -> bool:
        """Return whether a batch of this generation or of an earlier one is neither stored nor failed."""
        return any(batch.generation <= generation for batch in self._batches())

    def sendable(self, now_ms: float) -> list[TopicPartition]:
        """Return the partitions whose first batch may be sent now."""
        return [
            tp for tp, queue in self._queues.items() if tp not in self._in_flight and self._due_ms(queue[0]) <= now_ms
        ]

    def next_due_ms(self, *, after_ms: float | None = None) -> float:
        """Return the time at which the next batch becomes sendable or expires; infinity for never.

        Batches that were sendable by `after_ms` count only with the time at which they expire.
        """
        soonest_ms = _NEVER_MS
        for tp, queue in self._queues.items():
            if tp not in self._in_flight:
                due_ms = self._due_ms(queue[0])
                if after_ms is None or due_ms > after_ms:
                    soonest_ms = min(soonest_ms, due_ms)
                soonest_ms = min(soonest_ms, self.deadline_ms(queue[0]))
        return soonest_ms

    def next_full(self) -> list[ProducerBatch]:
        """Return the full batches that are next after a batch in flight, and are not encoded yet."""
        if not self._in_flight:
            return []
        heads = [queue[0] for tp in self._in_flight if (queue := self._queues.get(tp))]
        return [batch for batch in heads if batch.closed and not batch.is_encoded]

    def first(self, tp: TopicPartition) -> ProducerBatch:
        """Return the batch that `take` would take."""
        return self._queues[tp][0]

    def take(self, tp: TopicPartition) -> ProducerBatch:
        """Take the first batch of `tp`, which is in flight until `complete` or `requeue`."""
        batch = self._pop(tp)
        batch.closed = True
        self._in_flight[tp] = batch
        return batch

    def complete(self, batch: ProducerBatch) -> None:
        """Remove a batch in flight that is stored or has failed."""
        self._remove_in_flight(batch)
        self.buffered_bytes -= batch.size_bytes

    def requeue(self, batch: ProducerBatch) -> None:
        """Put a batch in flight back to the head of its queue."""
        self._remove_in_flight(batch)
        self._queues.setdefault(batch.tp, deque()).appendleft(batch)

    def requeue_split(self, batch: ProducerBatch) -> None:
        """Put a batch in flight that was too large back as two, and limit later batches of its topic."""
        self.complete(batch)
        parts = batch.split()
        self._queues.setdefault(batch.tp, deque()).extendleft(reversed(parts))
        self.buffered_bytes += sum(part.size_bytes for part in parts)
        limit = self._topic_batch_bytes.get(batch.tp.topic, self._limit_bytes)
        self._topic_batch_bytes[batch.tp.topic] = min(limit, max(batch.size_bytes // 2, HEADER_BYTES))

    def deadline_ms(self, batch: ProducerBatch) -> float:
        """Return the time by which the batch must be acknowledged."""
        return batch.created_ms + self._delivery_timeout_ms

    def take_expired(self, now_ms: float) -> list[ProducerBatch]:
        """Remove and return the waiting batches whose deadline passed; the caller fails them."""
        return self._remove(lambda batch: self.deadline_ms(batch) <= now_ms)

    def take_all(self) -> list[ProducerBatch]:
        """Remove and return all waiting batches; the caller fails them."""
        return self._remove(lambda batch: True)

    def take_in_flight(self) -> list[ProducerBatch]:
        """Remove and return the batches in flight; the caller fails them and ignores their responses."""
        batches = list(self._in_flight.values())
        for batch in batches:
            self.complete(batch)
        return batches

    def _remove(self, condition: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        removed = []
        for tp in list(self._queues):
            while tp in self._queues and condition(self._queues[tp][0]):
                removed.append(self._pop(tp))
        self.buffered_bytes -= sum(batch.size_bytes for batch in removed)
        return removed

    def _open_batch(self, tp: TopicPartition, now_ms: float) -> ProducerBatch:
        queue = self._queues.setdefault(tp, deque())
        if not queue or queue[-1].closed:
            queue.append(ProducerBatch(tp, now_ms, self._generation))
            self.buffered_bytes += HEADER_BYTES
        return queue[-1]

    def _pop(self, tp: TopicPartition) -> ProducerBatch:
        queue = self._queues[tp]
        batch = queue.popleft()
        if not queue:
            del self._queues[tp]
        return batch

    def _remove_in_flight(self, batch: ProducerBatch) -> None:
        del self._in_flight[batch.tp]


def _fill(batch: ProducerBatch, records: SizedRecords, start: int, room: int, limit: int) -> int:
    """Add records from `start` on while they fit into `room`, at least one to a batch below its `limit`.

    Return the index after the last one. An empty batch takes a record of any size.
    """
    end, size_bytes = records.fitting(start, room)
    if end == start:
        size_bytes = records.size_bytes(start, start + 1)
        end += not batch.record_count or batch.size_bytes + size_bytes <= limit
    if end > start:
        batch.add(records.records.part(start, end), records.receivers.part(start, end), size_bytes)
    is_full = end < records.count and batch.size_bytes + records.size_bytes(end, end + 1) > limit
    batch.closed = is_full or batch.size_bytes >= limit
    return end

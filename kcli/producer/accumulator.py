"""Records waiting to be sent, by partition: what is full, what is due, what is too late. Pure: time is an argument.

A partition's batches leave in order, one at a time: while one is out, or waits for its retry, the partition is held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kcli.producer.batches import HEADER_BYTES, OnOutcome, ProducerBatch, row_bytes
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.record import NewRecord

_NEVER = float("inf")


class Accumulator:
    """The queue between those who send records and the one who sends batches.

    `batch_bytes`, `linger_ms` and `delivery_timeout_ms` are Kafka's batch.size, linger.ms and delivery.timeout.ms.
    """

    def __init__(self, *, batch_bytes: int, linger_ms: float, delivery_timeout_ms: float) -> None:
        #: Estimated bytes of all records that are not yet stored or failed.
        self.buffered_bytes = 0
        #: Batches that are out, that is taken and not yet returned.
        self.out_count = 0
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._out: set[TopicPartition] = set()
        # Topics whose broker refused batches of the configured size get smaller ones.
        self._topic_batch_bytes: dict[str, int] = {}

    def __repr__(self) -> str:
        waiting = sum(map(len, self._queues.values()))
        return f"<Accumulator {waiting} batches waiting, {self.out_count} out, {self.buffered_bytes} bytes>"

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing is out."""
        return not self._queues and not self.out_count

    def append(
        self,
        tp: TopicPartition,
        rows: Sequence[NewRecord],
        now_ms: float,
        tell: OnOutcome,
        *,
        start: int = 0,
        one_batch: bool = False,
    ) -> int:
        """Put `rows[start:]` into batches of `tp`; returns the index behind the last row taken.

        With `one_batch` it stops when the batch is full, so that the caller can go on with another partition.
        """
        limit = self._topic_batch_bytes.get(tp.topic, self._batch_bytes)
        at = start
        while at < len(rows):
            batch = self._open_batch(tp, now_ms)
            first_row, size_before = len(batch.rows), batch.size_bytes
            at = _fill(batch, rows, at, limit)
            self.buffered_bytes += batch.size_bytes - size_before
            if len(batch.rows) > first_row:
                batch.add_segment(first_row, tell)
            if batch.closed and one_batch:
                break
        return at

    def is_full(self, tp: TopicPartition) -> bool:
        """The last batch of `tp` takes no more records."""
        queue = self._queues.get(tp)
        return not queue or queue[-1].closed

    def sendable(self, now_ms: float, *, at_once: bool = False) -> list[TopicPartition]:
        """Partitions whose first batch may leave now; with `at_once` it need be neither full nor old."""
        return [
            tp
            for tp, queue in self._queues.items()
            if tp not in self._out and _due_ms(queue[0], 0 if at_once else self._linger_ms) <= now_ms
        ]

    def next_due_ms(self, *, at_once: bool = False) -> float:
        """When a batch will become sendable, or too old, though nothing else happens; infinity for never."""
        soonest_ms = _NEVER
        for tp, queue in self._queues.items():
            if tp not in self._out:
                due_ms = _due_ms(queue[0], 0 if at_once else self._linger_ms)
                soonest_ms = min(soonest_ms, due_ms, self.deadline_ms(queue[0]))
        return soonest_ms

    def peek(self, tp: TopicPartition) -> ProducerBatch:
        """The batch that `take` would give."""
        return self._queues[tp][0]

    def take(self, tp: TopicPartition) -> ProducerBatch:
        """The first batch of `tp`, which is out until `done` or `put_back`."""
        batch = self._pop(tp)
        batch.closed = True
        self._out.add(tp)
        self.out_count += 1
        return batch

    def done(self, batch: ProducerBatch) -> None:
        """A batch that was out is stored or failed for good."""
        self._end_out(batch)
        self.buffered_bytes -= batch.size_bytes

    def put_back(self, batch: ProducerBatch) -> None:
        """A batch that was out goes first again."""
        self._end_out(batch)
        self._queues.setdefault(batch.tp, deque()).appendleft(batch)

    def put_back_split(self, batch: ProducerBatch) -> None:
        """A batch that was out was too large: it goes first again as two, and later ones of its topic are smaller."""
        self.done(batch)
        parts = batch.split()
        self._queues.setdefault(batch.tp, deque()).extendleft(reversed(parts))
        self.buffered_bytes += sum(part.size_bytes for part in parts)
        limit = self._topic_batch_bytes.get(batch.tp.topic, self._batch_bytes)
        self._topic_batch_bytes[batch.tp.topic] = min(limit, max(batch.size_bytes // 2, HEADER_BYTES))

    def deadline_ms(self, batch: ProducerBatch) -> float:
        """When the batch must be acknowledged."""
        return batch.created_ms + self._delivery_timeout_ms

    def take_expired(self, now_ms: float) -> list[ProducerBatch]:
        """Waiting batches over the delivery time-out; they are gone from here and the caller fails them."""
        return self._remove(lambda batch: self.deadline_ms(batch) <= now_ms)

    def take_all(self) -> list[ProducerBatch]:
        """All waiting batches; they are gone from here and the caller fails them."""
        return self._remove(lambda batch: True)

    def _remove(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        removed = []
        for tp in list(self._queues):
            while tp in self._queues and unwanted(self._queues[tp][0]):
                removed.append(self._pop(tp))
        self.buffered_bytes -= sum(batch.size_bytes for batch in removed)
        return removed

    def _open_batch(self, tp: TopicPartition, now_ms: float) -> ProducerBatch:
        queue = self._queues.setdefault(tp, deque())
        if not queue or queue[-1].closed:
            queue.append(ProducerBatch(tp, now_ms))
            self.buffered_bytes += HEADER_BYTES
        return queue[-1]

    def _pop(self, tp: TopicPartition) -> ProducerBatch:
        queue = self._queues[tp]
        batch = queue.popleft()
        if not queue:
            del self._queues[tp]
        return batch

    def _end_out(self, batch: ProducerBatch) -> None:
        self._out.remove(batch.tp)
        self.out_count -= 1


def _fill(batch: ProducerBatch, rows: Sequence[NewRecord], start: int, limit: int) -> int:
    """Add `rows[start:]` as far as they fit, at least one to an empty batch; the index behind the last one added."""
    size = batch.size_bytes
    empty = not batch.rows
    at = start
    for at in range(start, len(rows)):
        row_size = row_bytes(rows[at])
        if size + row_size > limit and not empty:
            batch.closed = True
            break
        size += row_size
        empty = False
    else:
        at += 1
    batch.rows += rows[start:at]
    batch.size_bytes = size
    batch.closed = batch.closed or size >= limit
    return at


def _due_ms(batch: ProducerBatch, linger_ms: float) -> float:
    """When a batch may leave: a full one at once, another when it has lingered, none before its retry."""
    return batch.retry_at_ms if batch.closed else max(batch.retry_at_ms, batch.created_ms + linger_ms)

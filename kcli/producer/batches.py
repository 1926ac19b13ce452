"""A batch of records for one partition, and the callbacks that receive its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.record import NewRecord

#: Bytes of a batch's header, without its records.
HEADER_BYTES = 61

# Bytes of a record besides its key, value and headers: six varints and its attributes, each of usual size. The sum only
# decides whether a batch is full, so an estimate is enough.
_RECORD_OVERHEAD_BYTES = 12
_HEADER_OVERHEAD_BYTES = 3


class RecordMetadata(NamedTuple):
    """The place of a stored record. `offset` -1: unknown (acks=0, or the broker had stored it in an earlier attempt).

    `timestamp_ms` is the broker's if the topic has message.timestamp.type=LogAppendTime, else the record's.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Outcome(NamedTuple):
    """The outcome of `record_count` adjacent records of one batch: stored from `base_offset` on, or `error`.

    `base_offset` -1: unknown. `append_time_ms` -1: the records kept their own timestamps. With an `error` the records
    are not stored; or, if `error.possibly_stored`, it is unknown whether they are.
    """

    tp: TopicPartition
    record_count: int
    base_offset: int = -1
    append_time_ms: int = -1
    error: KcliError | None = None


OnOutcome = Callable[[Outcome], None]


class Identity(NamedTuple):
    """Producer id, epoch and sequence number, by which a broker recognises a batch that it has stored (KIP-98)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


class _Segment(NamedTuple):
    """Adjacent records that one call added."""

    first: int
    size: int
    on_outcome: OnOutcome


class ProducerBatch:
    """Records of one partition. `size_bytes` is an estimate before compression."""

    def __init__(self, tp: TopicPartition, created_ms: float) -> None:
        self.tp = tp
        self.created_ms = created_ms
        self.records: list[NewRecord] = []
        self.size_bytes = HEADER_BYTES
        #: The batch is full or was sent, and takes no more records.
        self.closed = False
        self.attempts = 0
        self.retry_at_ms = float("-inf")
        self.last_error: KcliError | None = None
        #: An attempt has ended in a way that leaves open whether a broker stored the batch.
        self.may_be_stored = False
        #: Assigned before the first attempt and kept over retries; None without idempotence.
        self.identity: Identity | None = None
        self._segments: list[_Segment] = []

    def __repr__(self) -> str:
        state = f"attempts={self.attempts}" if self.attempts else "closed" if self.closed else "open"
        return f"<ProducerBatch {self.tp} {len(self.records)} records, {self.size_bytes} bytes, {state}>"

    def add_segment(self, first: int, on_outcome: OnOutcome) -> None:
        """Register the callback of the call that added the records from index `first` on."""
        self._segments.append(_Segment(first, len(self.records) - first, on_outcome))

    def stored(self, base_offset: int, append_time_ms: int) -> None:
        """Report to all callbacks that the broker stored the records."""
        for first, count, on_outcome in self._segments:
            on_outcome(Outcome(self.tp, count, base_offset + first if base_offset >= 0 else -1, append_time_ms))

    def failed(self, error: KcliError, record_errors: Mapping[int, KcliError] | None = None) -> None:
        """Report to all callbacks that the records are not stored, or, with `may_be_stored`, that this is unknown.

        `record_errors` maps the index of a record to its own error, where the broker names it (KIP-467); the other
        records of the batch fail with `error`.
        """
        own_errors = {index: self._marked(own) for index, own in (record_errors or {}).items()}
        error = self._marked(error)
        for first, count, on_outcome in self._segments:
            for run_count, run_error in _runs(first, count, error, own_errors):
                on_outcome(Outcome(self.tp, run_count, error=run_error))

    def _marked(self, error: KcliError) -> KcliError:
        """Return the error with its `possibly_stored`; a copy, because the batches of a request share its error."""
        if self.may_be_stored:
            error = copy(error)
            error.possibly_stored = True
        return error

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Return two batches with half of the records each, without attempts and identity."""
        middle = len(self.records) // 2
        return self._part(0, middle), self._part(middle, len(self.records))

    def _part(self, start: int, end: int) -> ProducerBatch:
        part = ProducerBatch(self.tp, self.created_ms)
        part.records = self.records[start:end]
        part.size_bytes += sum(map(record_bytes, part.records))
        part.closed = True
        part.may_be_stored = self.may_be_stored
        for first, count, on_outcome in self._segments:
            low, high = max(first, start), min(first + count, end)
            if low < high:
                part._segments.append(_Segment(low - start, high - low, on_outcome))
        return part


def _runs(
    first: int, count: int, error: KcliError, record_errors: Mapping[int, KcliError]
) -> Iterator[tuple[int, KcliError]]:
    """Divide the records `first` to `first + count` into runs with the same error."""
    start, end = first, first + count
    for index in sorted(index for index in record_errors if first <= index < end):
        if index > start:
            yield index - start, error
        yield 1, record_errors[index]
        start = index + 1
    if start < end:
        yield end - start, error


def record_bytes(record: NewRecord) -> int:
    """Estimate the bytes that a record adds to an uncompressed batch."""
    key, value, _, headers = record
    size = _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, header_value in headers:
        size += _HEADER_OVERHEAD_BYTES + len(name) + (len(header_value) if header_value else 0)
    return size

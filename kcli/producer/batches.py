"""A batch of records for one partition, and who is to be told what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.record import NewRecord

#: Bytes of a batch's own header; records come on top.
HEADER_BYTES = 61

# What a record needs besides its key, value and headers: six varints and its attributes, when none of them is unusual.
# Only a batch's fullness is judged by it, and a full batch is a wish, not a limit.
_RECORD_OVERHEAD_BYTES = 12
_HEADER_OVERHEAD_BYTES = 3


class RecordMetadata(NamedTuple):
    """Where a record was put. `offset` -1: not known (acks=0, or a retry that the broker had stored already).

    `timestamp_ms` is the broker's where the topic asks for its time, else the record's own.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Outcome(NamedTuple):
    """What became of some neighbouring `records` (how many) of one batch: stored from `base_offset` on, or `error`.

    `base_offset` -1: not known. `append_time_ms` -1: the records kept their own timestamps.
    """

    tp: TopicPartition
    records: int
    base_offset: int = -1
    append_time_ms: int = -1
    error: KcliError | None = None


OnOutcome = Callable[[Outcome], None]


class Identity(NamedTuple):
    """What lets a broker recognise a batch that it has stored already (KIP-98)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


class _Segment(NamedTuple):
    """Neighbouring records that came with one call."""

    first: int
    size: int
    tell: OnOutcome


class ProducerBatch:
    """Records of one partition on their way. `size_bytes` is estimated, before compression."""

    def __init__(self, tp: TopicPartition, created_ms: float) -> None:
        self.tp = tp
        self.created_ms = created_ms
        self.rows: list[NewRecord] = []
        self.size_bytes = HEADER_BYTES
        #: No more records: it is full, or has been sent.
        self.closed = False
        self.attempts = 0
        self.retry_at_ms = float("-inf")
        self.last_error: KcliError | None = None
        #: Given at the first sending and kept over retries; None without idempotence.
        self.identity: Identity | None = None
        self._segments: list[_Segment] = []

    def __repr__(self) -> str:
        state = f"attempts={self.attempts}" if self.attempts else "closed" if self.closed else "open"
        return f"<ProducerBatch {self.tp} {len(self.rows)} records, {self.size_bytes} bytes, {state}>"

    def add_segment(self, first: int, tell: OnOutcome) -> None:
        """The rows from `first` on came with one call, which is told by `tell`."""
        self._segments.append(_Segment(first, len(self.rows) - first, tell))

    def stored(self, base_offset: int, append_time_ms: int) -> None:
        """Tell everyone that the broker has the records."""
        for first, count, tell in self._segments:
            tell(Outcome(self.tp, count, base_offset + first if base_offset >= 0 else -1, append_time_ms))

    def failed(self, error: KcliError, record_errors: Mapping[int, KcliError] | None = None) -> None:
        """Tell everyone that the records are not stored, or that nobody knows.

        `record_errors` (index in the batch -> error) are the culprits, where the broker named them; all others of the
        batch fail with `error`.
        """
        for first, count, tell in self._segments:
            for run_count, run_error in _runs(first, count, error, record_errors or {}):
                tell(Outcome(self.tp, run_count, error=run_error))

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Two batches of half the records each, as if they had never been sent."""
        middle = len(self.rows) // 2
        return self._part(0, middle), self._part(middle, len(self.rows))

    def _part(self, start: int, end: int) -> ProducerBatch:
        part = ProducerBatch(self.tp, self.created_ms)
        part.rows = self.rows[start:end]
        part.size_bytes += sum(map(row_bytes, part.rows))
        part.closed = True
        for first, count, tell in self._segments:
            low, high = max(first, start), min(first + count, end)
            if low < high:
                part._segments.append(_Segment(low - start, high - low, tell))
        return part


def _runs(
    first: int, count: int, error: KcliError, record_errors: Mapping[int, KcliError]
) -> Iterator[tuple[int, KcliError]]:
    """The rows `first` to `first + count` as runs of the same error."""
    at, end = first, first + count
    for culprit in sorted(index for index in record_errors if first <= index < end):
        if culprit > at:
            yield culprit - at, error
        yield 1, record_errors[culprit]
        at = culprit + 1
    if at < end:
        yield end - at, error


def row_bytes(row: NewRecord) -> int:
    """About how many bytes a record adds to an uncompressed batch."""
    key, value, _, headers = row
    size = _RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, header_value in headers:
        size += _HEADER_OVERHEAD_BYTES + len(name) + (len(header_value) if header_value else 0)
    return size

"""A batch of records for one partition, and the receivers of its outcome."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli import logs
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.builder import EncodedRecords, RecordsEncoder
    from kcli.protocol.records.record import Headers, NewRecords

#: Bytes of a batch's header, without its records.
HEADER_BYTES = 61

#: Bytes of a record besides its key, value and headers: six varints and its attributes, each of usual size. The sum
#: only decides whether a batch is full, so an estimate is enough.
RECORD_OVERHEAD_BYTES = 12
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


class Receivers(Protocol):
    """The receivers of the outcomes of the records of one call, each record once.

    Two kinds: a callback for all (`CallbackReceiver`), a future for each (`record_future`).
    """

    def part(self, start: int, end: int) -> Receivers:
        """Return those of the records from index `start` to before `end`."""

    def select(self, indices: Sequence[int]) -> Receivers:
        """Return those of the records at these indices, in their order."""

    def report(self, first: int, outcome: Outcome) -> None:
        """Report the outcome of `outcome.record_count` records from index `first` on."""


class CallbackReceiver:
    """One callback for all records of a call. Its exceptions are logged and otherwise ignored."""

    def __init__(self, on_outcome: OnOutcome) -> None:
        self._on_outcome = on_outcome

    def part(self, start: int, end: int) -> CallbackReceiver:
        return self

    def select(self, indices: Sequence[int]) -> CallbackReceiver:
        return self

    def report(self, first: int, outcome: Outcome) -> None:
        try:
            self._on_outcome(outcome)
        except (Exception, SystemExit):
            text = "a callback of send_many has failed; its exception is ignored"
            logs.warning("kcli.producer", text, with_traceback=True)


class SizedRecords:
    """Records with their receivers, and their estimated sizes in an uncompressed batch."""

    def __init__(self, records: NewRecords, receivers: Receivers) -> None:
        self.records = records
        self.receivers = receivers
        self._data_bytes = _data_bytes(records)
        #: The number of records.
        self.count = len(self._data_bytes)
        self.total_bytes = sum(self._data_bytes) + self.count * RECORD_OVERHEAD_BYTES
        self._ends: list[int] | None = None  # the sum of `_data_bytes` before each record, and before the end

    def select(self, indices: Sequence[int]) -> SizedRecords:
        """Return the records at these indices, in their order."""
        return SizedRecords(self.records.select(indices), self.receivers.select(indices))

    def all_fit(self, limit_bytes: int) -> bool:
        """Return whether no record is larger."""
        return self.total_bytes <= limit_bytes or max(self._data_bytes) + RECORD_OVERHEAD_BYTES <= limit_bytes

    def larger_than(self, limit_bytes: int) -> list[bool]:
        """Return for each record whether it is larger."""
        return [size + RECORD_OVERHEAD_BYTES > limit_bytes for size in self._data_bytes]

    def fitting(self, start: int, room_bytes: int) -> tuple[int, int]:
        """Return the index after the last record from `start` on that fits into the room, and the sum of the sizes."""
        if start == 0 and self.total_bytes <= room_bytes:  # nearly all calls
            return self.count, self.total_bytes
        if self._ends is None:
            self._ends = list(accumulate(self._data_bytes, initial=0))
        limit = self._bytes_before(start) + room_bytes
        end = bisect_right(range(self.count + 1), limit, start, key=self._bytes_before) - 1
        return max(end, start), self.size_bytes(start, end)

    def size_bytes(self, start: int, end: int) -> int:
        """Return the sum of the sizes of the records from index `start` to before `end`."""
        return sum(self._data_bytes[start:end]) + (end - start) * RECORD_OVERHEAD_BYTES

    def _bytes_before(self, index: int) -> int:
        assert self._ends is not None
        return self._ends[index] + index * RECORD_OVERHEAD_BYTES


def _data_bytes(records: NewRecords) -> list[int]:
    """Return the bytes of key, value and headers of each record."""
    sizes = _lengths(records.values)
    if records.keys is not None:
        sizes = list(map(add, sizes, _lengths(records.keys)))
    if records.headers is not None:
        sizes = list(map(add, sizes, map(header_bytes, records.headers)))
    return sizes


def _lengths(column: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:  # there is a null
        return [len(data) if data else 0 for data in column]


def header_bytes(headers: Headers) -> int:
    """Return the estimated bytes of the headers of a record."""
    return sum(_HEADER_OVERHEAD_BYTES + len(name) + (len(value) if value else 0) for name, value in headers)


class _Segment(NamedTuple):
    """Adjacent records that one call added. `first` is the index of the first one in the batch."""

    first: int
    record_count: int
    receivers: Receivers


# Records are encoded as soon as there are so many bytes of them. Fewer wait for others, because each call costs 10 us.
_ENCODED_AT_ONCE_BYTES = 32 << 10


class ProducerBatch:
    """Records of one partition. `size_bytes` is an estimate before compression.

    The batch keeps them encoded: a large batch has thousands of records, whose objects would be evicted from the
    processor's cache until all are there. Only a split needs the records again, and decodes them.
    """

    def __init__(self, tp: TopicPartition, created_ms: float, generation: int = 0) -> None:
        self.tp = tp
        self.created_ms = created_ms
        #: The number of calls of `Accumulator.close_batches` before the batch.
        self.generation = generation
        self.record_count = 0
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
        self._pending: list[NewRecords] = []  # not encoded yet
        self._pending_bytes = 0
        self._encoder: RecordsEncoder | None = None
        self._encoded: EncodedRecords | None = None

    def __repr__(self) -> str:
        state = f"attempts={self.attempts}" if self.attempts else "closed" if self.closed else "open"
        return f"<ProducerBatch {self.tp} {self.record_count} records, {self.size_bytes} bytes, {state}>"

    @property
    def records(self) -> NewRecords:
        """The records of all calls, decoded."""
        from kcli.protocol.records.record import NewRecord, NewRecords
        from kcli.protocol.records.scan import iter_records
        from kcli.settings import INT_MAX

        encoded = self._encoded or self._encode_pending().finish("none")
        return NewRecords.of(
            NewRecord(record.key, record.value, record.timestamp_ms, record.headers)
            for record in iter_records(encoded.batch(), INT_MAX)
        )

    def add(self, records: NewRecords, receivers: Receivers, size_bytes: int) -> None:
        """Add records of one call, with their estimated size."""
        self._segments.append(_Segment(self.record_count, len(records), receivers))
        self.record_count += len(records)
        self.size_bytes += size_bytes
        self._pending.append(records)
        self._pending_bytes += size_bytes
        if self._pending_bytes >= _ENCODED_AT_ONCE_BYTES:
            self._encode_pending()

    def _encode_pending(self) -> RecordsEncoder:
        from kcli.protocol.records.builder import RecordsEncoder
        from kcli.protocol.records.record import NewRecords

        if self._encoder is None:
            self._encoder = RecordsEncoder()
        if self._pending:
            self._encoder.add(NewRecords.joined(self._pending))
            self._pending, self._pending_bytes = [], 0
        return self._encoder

    @property
    def is_encoded(self) -> bool:
        """`encode` has been called."""
        return self._encoded is not None

    def encode(self, compression: str) -> EncodedRecords:
        """Return the records encoded and compressed, which is done once; then no more records can be added."""
        if self._encoded is None:
            self._encoded = self._encode_pending().finish(compression)
            self._encoder = None
        return self._encoded

    def stored(self, base_offset: int, append_time_ms: int) -> None:
        """Report to all receivers that the broker stored the records."""
        for first, count, receivers in self._segments:
            offset = base_offset + first if base_offset >= 0 else -1
            receivers.report(0, Outcome(self.tp, count, offset, append_time_ms))

    def failed(self, error: KcliError, record_errors: Mapping[int, KcliError] | None = None) -> None:
        """Report to all receivers that the records are not stored, or, with `may_be_stored`, that this is unknown.

        `record_errors` maps the index of a record to its own error, where the broker names it (KIP-467); the other
        records of the batch fail with `error`.
        """
        own_errors = {index: self._marked(own) for index, own in (record_errors or {}).items()}
        error = self._marked(error)
        for first, count, receivers in self._segments:
            reported = 0
            for run_count, run_error in _runs(first, count, error, own_errors):
                receivers.report(reported, Outcome(self.tp, run_count, error=run_error))
                reported += run_count

    def _marked(self, error: KcliError) -> KcliError:
        """Return the error with its `possibly_stored`; a copy, because the batches of a request share its error."""
        if self.may_be_stored:
            error = copy(error)
            error.possibly_stored = True
        return error

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Return two batches with half of the records each, without attempts and identity."""
        records, middle = self.records, self.record_count // 2
        return self._part(records, 0, middle), self._part(records, middle, self.record_count)

    def _part(self, records: NewRecords, start: int, end: int) -> ProducerBatch:
        part = ProducerBatch(self.tp, self.created_ms, self.generation)
        part.closed = True
        part.may_be_stored = self.may_be_stored
        for first, count, receivers in self._segments:
            low, high = max(first, start), min(first + count, end)
            if low < high:
                own = receivers.part(low - first, high - first)
                run = SizedRecords(records.part(low, high), own)
                part.add(run.records, own, run.size_bytes(0, run.count))
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

"""The feed of a producer: read the input in chunks, split it at a delimiter, send the records, count the outcomes."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kcli.errors import (
    AuthenticationError,
    BrokerError,
    KcliError,
    OutcomeUnknown,
    TransactionFailed,
)

if TYPE_CHECKING:
    from kcli.producer.batches import Outcome
    from kcli.producer.producer import Producer
    from kcli.protocol.records.record import NewRecords
    from kcli.structs import TopicPartition

CHUNK_BYTES = 512 * 1024

#: (segments of input, time now in ms since the epoch) -> records. Raises `ParsingEnded`.
Parse = Callable[[Sequence[bytes], int], "NewRecords"]


class ParsingEnded(Exception):
    """An error, such as one of the schema registry, that ends the input; and the `records` of the segments before."""

    def __init__(self, records: NewRecords, error: KcliError) -> None:
        super().__init__(str(error))
        self.records = records
        self.error = error


def feed(
    producer: Producer,
    topic: str,
    partition: int | None,
    streams: Iterable[BinaryIO],
    parse: Parse,
    tally: WriteTally,
    *,
    delimiter: bytes,
    longest_bytes: int,
    wall_ms: Callable[[], int],
    tick: Callable[[], object] = lambda: None,
) -> None:
    """Write the records of all streams, and return when each is stored or failed and counted in `tally`.

    A segment of input longer than `longest_bytes` is a failed record. When the input pauses, all records read so far
    are sent before the next read, because the producer sends nothing during it. `tick` is called after each chunk.
    Raise KcliError when a stream cannot be opened or read, and that of `parse`; the records before are stored. A failed
    authentication ends the reading, and in a transaction each failure.
    """

    def write(segments: Sequence[bytes]) -> None:
        if segments:
            try:
                send(parse(segments, wall_ms()))
            except ParsingEnded as ended:
                send(ended.records)
                producer.flush()
                raise ended.error from ended.error.__cause__

    def send(records: NewRecords) -> None:
        tally.read += len(records)
        producer.send_many(topic, records, tally.count_outcome, partition=partition, checked=True)

    try:
        for stream in streams:
            splitter = Splitter(delimiter, longest_bytes)
            for chunk in _read_chunks(stream):
                tally.bytes_read += len(chunk)
                write(splitter.feed(chunk))
                tick()
                if not _is_readable(stream):
                    producer.flush()
                if tally.is_refused or (tally.in_transaction and tally.failed):
                    return
            write(splitter.finish())
            if splitter.too_long:
                tally.read += splitter.too_long
                error = KcliError(f"longer than {longest_bytes:,} bytes (max.request.size)")
                tally.fail(error, splitter.too_long, kind="too long")
    except OSError as error:
        producer.flush()
        raise KcliError(f"cannot read {error.filename or 'the input'}: {error.strerror}") from error
    producer.flush()


def feed_transaction(producer: Producer, tally: WriteTally, feed: Callable[[], None]) -> None:
    """Write the records of `feed` in one transaction: all of them, or none. Raise its error.

    If a record has failed, the transaction is aborted, and `tally` has the failure. Raise OutcomeUnknown if the
    response to the commit was lost.
    """
    producer.begin_transaction()
    tally.begin_transaction()
    try:
        feed()
        if not tally.failed:
            tally.sent_outcome = POSSIBLY_STORED  # also if this is interrupted
            producer.commit_transaction()
            tally.sent_outcome = STORED
            return
    except OutcomeUnknown:
        raise
    except KcliError as error:
        tally.sent_outcome = ABORTED
        if not isinstance(error, TransactionFailed):
            raise
        if not tally.failed:
            raise error.__cause__ or error from None
    producer.abort_transaction()


def open_inputs(paths: Iterable[str], stdin: BinaryIO) -> Iterator[BinaryIO]:
    """Open the named files one after another, and close each before the next; "-" is `stdin`, which stays open."""
    for path in paths:
        if path == "-":
            yield stdin
        else:
            with open(path, "rb") as stream:
                yield stream


def size_of(paths: Iterable[str], stdin: BinaryIO) -> int | None:
    """Return the bytes that `open_inputs` will read; None if that is unknown, as for a pipe."""
    total = 0
    for path in paths:
        try:
            status = os.fstat(stdin.fileno()) if path == "-" else os.stat(path)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total


def _read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Read up to `CHUNK_BYTES` at a time; wait only when the stream has no bytes.

    A pipe of Linux holds 64 KiB. It is enlarged to a chunk, because many keys are hashed faster than few.
    """
    with suppress(AttributeError, ImportError, OSError, ValueError):  # not Linux, not a pipe, or over a limit
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK_BYTES):
        yield chunk


def _is_readable(stream: BinaryIO) -> bool:
    """Return whether a read returns at once. True also at the end, and for a stream that cannot be polled."""
    try:
        ready, _, _ = select.select([stream.fileno()], [], [], 0)
    except (OSError, ValueError):
        return True
    return bool(ready)


class Splitter:
    """Splits a byte stream at a delimiter, in bounded memory. The last segment needs no delimiter after it. Pure.

    A segment longer than `longest_bytes` is dropped and counted in `too_long`. An empty delimiter makes the whole
    stream one segment.
    """

    def __init__(self, delimiter: bytes, longest_bytes: int) -> None:
        self.too_long = 0
        self._delimiter = delimiter
        self._longest_bytes = longest_bytes
        self._overlap = max(len(delimiter) - 1, 0)  # bytes at the end that may be the start of a delimiter
        # The segment without a delimiter so far: its beginning, which grows in place, and its last bytes.
        self._beginning = bytearray()
        self._end = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the segments that end in this chunk."""
        data = self._end + chunk
        size = len(self._beginning) + len(data)
        segments = data.split(self._delimiter) if self._delimiter else [data]
        remainder = segments.pop()
        if segments:
            segments[0] = self._take_beginning() + segments[0]
            if self._skipping:
                del segments[0]
                self._skipping = False
        searched = max(len(remainder) - self._overlap, 0)
        self._end = remainder[searched:]
        if not self._skipping:
            self._beginning += remainder[:searched]
            if len(self._beginning) > self._longest_bytes:
                self._beginning.clear()
                self.too_long += 1
                self._skipping = True
        return segments if size <= self._longest_bytes else self._without_too_long(segments)

    def finish(self) -> list[bytes]:
        """Return the segment after the last delimiter, if any, and reset the splitter."""
        remainder, self._end = self._take_beginning() + self._end, b""
        if self._skipping:
            self._skipping = False
            return []
        return self._without_too_long([remainder]) if remainder else []

    def _take_beginning(self) -> bytes:
        beginning = bytes(self._beginning)
        self._beginning.clear()
        return beginning

    def _without_too_long(self, segments: list[bytes]) -> list[bytes]:
        if not segments or max(map(len, segments)) <= self._longest_bytes:
            return segments
        accepted = [segment for segment in segments if len(segment) <= self._longest_bytes]
        self.too_long += len(segments) - len(accepted)
        return accepted


# Outcomes of records. SENT: stored as far as the leader confirms it, with acks=0 not even that. ABORTED: in a
# transaction that is not committed.
STORED, SENT, ABORTED = "stored", "sent", "aborted"
NOT_STORED, POSSIBLY_STORED = "not stored", "possibly stored"


class Failure(NamedTuple):
    """Records with the same outcome, NOT_STORED or POSSIBLY_STORED, and the first error of this kind."""

    outcome: str
    error: KcliError
    records: int


class WriteTally:
    """Counts of records read, stored and failed; failures by kind, each with its first error. Pure.

    With `acks_0` the records counted as stored are only sent. In a transaction they are stored after its commit only.
    """

    def __init__(self, *, acks_0: bool = False) -> None:
        self.bytes_read = 0
        self.read = 0
        self.stored_by_partition: dict[TopicPartition, int] = {}
        #: The outcome of records without a failure: SENT with acks=0, because no broker confirms them.
        self.sent_outcome = SENT if acks_0 else STORED
        self.in_transaction = False
        #: False if the coordinator did not confirm the end: it aborts the transaction itself, after its timeout.
        self.is_abort_confirmed = True
        self._failures: dict[tuple[str, str], Failure] = {}

    def begin_transaction(self) -> None:
        """All records are of one transaction, which is aborted unless `sent_outcome` is set after its end."""
        self.in_transaction, self.sent_outcome = True, ABORTED

    def count_outcome(self, outcome: Outcome) -> None:
        """Count an outcome of the producer."""
        if isinstance(outcome.error, TransactionFailed):
            return  # because of another record, whose failure is counted
        if outcome.error is not None:
            self.fail(outcome.error, outcome.record_count)
        else:
            stored = self.stored_by_partition.get(outcome.tp, 0)
            self.stored_by_partition[outcome.tp] = stored + outcome.record_count

    def fail(self, error: KcliError, records: int = 1, *, kind: str = "") -> None:
        """Count failed records. The error is kept if it is the first of its kind (default: its code or class)."""
        outcome = POSSIBLY_STORED if error.possibly_stored and not self.in_transaction else NOT_STORED
        key = outcome, kind or _kind(error)
        first = self._failures.get(key, Failure(outcome, error, 0))
        self._failures[key] = first._replace(records=first.records + records)

    @property
    def is_refused(self) -> bool:
        """True after a failed authentication: no broker will store another record."""
        return any(isinstance(failure.error, AuthenticationError) for failure in self._failures.values())

    @property
    def stored(self) -> int:
        return sum(self.stored_by_partition.values())

    @property
    def failed(self) -> int:
        return sum(failure.records for failure in self._failures.values())

    @property
    def failures(self) -> list[Failure]:
        """The failures, one for each outcome and kind; the last are records that the producer did not accept."""
        unsent = 0 if self.in_transaction else self.read - self.stored - self.failed
        last = [Failure(NOT_STORED, KcliError("not sent"), unsent)] if unsent else []
        return [*self._failures.values(), *last]

    def failure_lines(self) -> list[str]:
        """Return one line for each kind of failure, and one for a transaction that is not committed."""
        lines = [f"{_records(count)} {outcome}: {error.message}" for outcome, error, count in self.failures]
        if self.sent_outcome == ABORTED:
            state = "was aborted" if self.is_abort_confirmed else "will be aborted after transaction.timeout.ms"
            lines.append(f"the transaction {state}: none of the {_records(self.read)} read is stored")
        elif self.in_transaction and self.sent_outcome == POSSIBLY_STORED:
            lines.append(f"{_records(self.read)} {POSSIBLY_STORED}: all or none")
        return lines

    def summary(self, seconds: float) -> str:
        """Return a line with records, bytes, rates and the number of records per partition."""
        seconds = max(seconds, 1e-3)
        megabytes = self.bytes_read / 1e6
        partitions = ", ".join(f"{tp} {count:,}" for tp, count in sorted(self.stored_by_partition.items()))
        return (
            f"{_records(self.stored)} {self.sent_outcome}, {megabytes:,.1f} MB read in {seconds:.2f} s "
            f"({self.stored / seconds:,.0f} records/s, {megabytes / seconds:,.1f} MB/s)"
            + (f": {partitions}" if partitions else "")
        )


def _kind(error: KcliError) -> str:
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__


def _records(count: int) -> str:
    return f"{count:,} record" if count == 1 else f"{count:,} records"

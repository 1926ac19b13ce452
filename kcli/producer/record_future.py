"""The futures of records that `Producer.send` returns, and how the outcomes of batches reach them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kcli import logs
from kcli.client.request_future import RequestFuture
from kcli.errors import KcliError
from kcli.producer.batches import Outcome, RecordMetadata
from kcli.producer.callables import OnAck, call_on_ack


class Waiting(Protocol):
    """The producer of a future: it knows how to wait for it."""

    def wait_for(self, future: RequestFuture[Any], timeout_ms: float | None) -> None:
        """Return when the future is done. Raise TimeoutExpired after `timeout_ms`; None: without limit."""


class RecordFuture(RequestFuture[RecordMetadata]):
    """The future of one record. Its callbacks run in the thread that sends; an exception of one is logged and ignored.

    A producer makes one for each record, so it is made without `__init__`, and nobody touches it when its batch is
    stored: it looks for its outcome in the `RecordRun` that has its record. Its callbacks are the exception.
    """

    label = "acknowledgement"
    producer: Waiting
    run: RecordRun | None = None  # None: its record is in the intake, or the future has its outcome
    row: int

    @property
    def done(self) -> bool:
        if self.run is not None and (outcome := self.run.outcome(self.row)) is not None:
            if isinstance(outcome, KcliError):
                self._error = outcome
            else:
                self._value = outcome
            self.run = None
        return super().done

    @property
    def succeeded(self) -> bool:
        return self.done and super().succeeded

    @property
    def failed(self) -> bool:
        return self.done and super().failed

    @property
    def error(self) -> KcliError | None:
        return super().error if self.done else None

    @property
    def retriable(self) -> bool:
        return self.done and super().retriable

    def value(self) -> RecordMetadata:
        _ = self.done  # looks for the outcome
        return super().value()

    def add_done_callback(self, callback: Callable[[RequestFuture[RecordMetadata]], object]) -> None:
        super().add_done_callback(callback)
        if (run := self.run) is not None:
            run.watch(self)

    def call_back(self) -> None:
        """Call the callbacks of a future that is done."""
        while self.done and self._callbacks:
            try:
                self._call_back()
            except (Exception, SystemExit):  # which would end the thread of the producer, and nothing else
                text = "a callback of a record has failed; its exception is ignored"
                logs.warning("kcli.producer", text, with_traceback=True)

    def _wait(self, timeout_ms: float | None) -> None:
        self.producer.wait_for(self, timeout_ms)


class _Reported(NamedTuple):
    rows: Sequence[int]  # ascending
    outcome: Outcome


class RecordRun:
    """The records of one intake for one topic, and the outcomes of those that are stored or have failed."""

    def __init__(self, futures: Sequence[RecordFuture], times_ms: Sequence[int], on_ack: OnAck | None):
        self._times_ms = times_ms
        self._on_ack = on_ack
        self._reported: list[_Reported] = []
        self._watched: dict[int, RecordFuture] = {}
        for row, future in enumerate(futures):
            future.row = row
            future.run = self
            if future._callbacks:
                self.watch(future)

    def receivers(self) -> RunReceivers:
        """Return the receivers of the outcomes of all records."""
        return RunReceivers(self, range(len(self._times_ms)))

    def watch(self, future: RecordFuture) -> None:
        """Call the callbacks of this future when it is done, or now."""
        self._watched[future.row] = future
        if future.done:
            future.call_back()

    def outcome(self, row: int) -> RecordMetadata | KcliError | None:
        """Return the place or the error of a record; None before it is known."""
        for rows, outcome in self._reported:
            index = bisect_left(rows, row)
            if index < len(rows) and rows[index] == row:
                return outcome.error or self._metadata(index, row, outcome)
        return None

    def _metadata(self, index: int, row: int, outcome: Outcome) -> RecordMetadata:
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        time_ms = self._times_ms[row] if outcome.append_time_ms < 0 else outcome.append_time_ms
        return RecordMetadata(outcome.tp.topic, outcome.tp.partition, offset, time_ms)

    def report(self, rows: Sequence[int], outcome: Outcome) -> None:
        """Set the outcome of these records, which are adjacent in their batch."""
        if self._on_ack is not None:
            for index, row in enumerate(rows):
                call_on_ack(self._on_ack, self._metadata(index, row, outcome), outcome.error)
        self._reported.append(_Reported(rows, outcome))
        for future in [self._watched.pop(row) for row in rows if row in self._watched] if self._watched else ():
            future.call_back()


class RunReceivers(NamedTuple):
    """The receivers of some of the records of a run."""

    run: RecordRun
    rows: Sequence[int]  # ascending

    def part(self, start: int, end: int) -> RunReceivers:
        return RunReceivers(self.run, self.rows[start:end])

    def select(self, indices: Sequence[int]) -> RunReceivers:
        rows = self.rows
        return RunReceivers(self.run, indices if rows == range(len(rows)) else [rows[index] for index in indices])

    def report(self, first: int, outcome: Outcome) -> None:
        self.run.report(self.rows[first : first + outcome.record_count], outcome)

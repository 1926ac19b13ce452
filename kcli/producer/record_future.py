"""The futures of records that `Producer.send` returns, and how the outcomes of batches reach them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Protocol

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

    It is made without `__init__`, because a producer makes one for each record.
    """

    label = "acknowledgement"
    producer: Waiting

    def _wait(self, timeout_ms: float | None) -> None:
        self.producer.wait_for(self, timeout_ms)

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                super()._call_back()
            except Exception:
                text = "a callback of a record has failed; its exception is ignored"
                logs.warning("kcli.producer", text, with_traceback=True)


# Makes a tuple without the constructor of RecordMetadata, which is written in Python.
_new_metadata = partial(tuple.__new__, RecordMetadata)


class FutureReceivers:
    """The futures of the records of one intake, with their timestamps."""

    def __init__(self, futures: Sequence[RecordFuture], times_ms: Sequence[int], on_ack: OnAck | None) -> None:
        self._futures = futures
        self._times_ms = times_ms
        self._on_ack = on_ack

    def part(self, start: int, end: int) -> FutureReceivers:
        return FutureReceivers(self._futures[start:end], self._times_ms[start:end], self._on_ack)

    def select(self, indices: Sequence[int]) -> FutureReceivers:
        futures, times_ms = self._futures, self._times_ms
        return FutureReceivers([futures[row] for row in indices], [times_ms[row] for row in indices], self._on_ack)

    def report(self, first: int, outcome: Outcome) -> None:
        """Complete the futures of these records."""
        end = first + outcome.record_count
        futures, times_ms = self._futures[first:end], self._times_ms[first:end]
        if outcome.append_time_ms >= 0:
            times_ms = [outcome.append_time_ms] * len(futures)
        base, error = outcome.base_offset, outcome.error
        offsets: Iterable[int] = range(base, base + len(futures)) if base >= 0 else repeat(-1)
        stored: Iterable[RecordMetadata]
        stored = map(_new_metadata, zip(repeat(outcome.tp.topic), repeat(outcome.tp.partition), offsets, times_ms))
        if error is None and self._on_ack is None:  # the hot path
            for future, metadata in zip(futures, stored, strict=True):
                future._value = metadata
                if future._callbacks:
                    future._call_back()
            return
        for future, metadata in zip(futures, stored, strict=True):
            settle(future, metadata, error, self._on_ack)


def settle(future: RecordFuture, metadata: RecordMetadata, error: KcliError | None, on_ack: OnAck | None) -> None:
    """Complete one future, after the callable of the producer."""
    if on_ack is not None:
        call_on_ack(on_ack, metadata, error)
    if error is None:
        future.complete(metadata)
    else:
        future.fail(error)

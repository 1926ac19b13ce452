"""The intake of a producer: records that threads have sent, and that no batch has yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kcli.errors import KcliError
from kcli.producer.record_future import RecordFuture
from kcli.protocol.records.record import Headers

_NEVER_MS = float("inf")


class SentRecord(NamedTuple):
    """A record of one call of `send`. `partition` None: chosen by the key. `headers` None: it has none."""

    topic: str
    partition: int | None
    value: bytes | None
    key: bytes | None
    timestamp_ms: int
    headers: Headers | None
    future: RecordFuture


class Intake:
    """Records in the order of the calls that added them. Any thread may add records; one thread at a time takes them.

    Records linger here, so that they are put into batches many at a time. `wake` is called when the taking thread has
    to look: for the first record after it has found the intake empty, and when there is a full batch of bytes.
    """

    def __init__(self, *, full_bytes: int, now_ms: Callable[[], float], wake: Callable[[], object]) -> None:
        #: Held for each call that adds or takes. Reentrant, because a signal handler may send a record, too.
        self.lock = threading.RLock()
        #: Estimated bytes of the records here.
        self.size_bytes = 0
        self._records: list[tuple[object, ...]] = []
        self._full_bytes = full_bytes
        self._now_ms = now_ms
        self._wake = wake
        self._wake_bytes = 0.0  # call `wake` when there are more bytes
        self._first_ms = _NEVER_MS  # the time at which the first record was added
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: tuple[object, ...], size_bytes: int) -> None:
        """Add a record, with the fields of `SentRecord`. KcliError after `close`."""
        with self.lock:
            if self._is_closed:
                raise KcliError("the producer is closed")
            records = self._records
            if not records:
                self._first_ms = self._now_ms()
            records.append(record)
            self.size_bytes = total_bytes = self.size_bytes + size_bytes
            if total_bytes < self._wake_bytes:
                return
            self._wake_bytes = self._full_bytes if total_bytes < self._full_bytes else _NEVER_MS
        self._wake()

    def due_ms(self, linger_ms: float) -> float:
        """Return the time at which the records are to be taken; infinity without records."""
        with self.lock:
            if self._records and self.size_bytes >= self._full_bytes:
                return 0.0
            return self._first_ms + linger_ms

    def close(self) -> None:
        """Accept no more records. Those that are here can be taken."""
        with self.lock:
            self._is_closed = True

    def take(self) -> tuple[float, Sequence[SentRecord]]:
        """Take all records. Return the time at which the first was added, and the records."""
        with self.lock:
            records, self._records = self._records, []
            first_ms, self._first_ms = self._first_ms, _NEVER_MS
            self.size_bytes, self._wake_bytes = 0, 0.0
        return first_ms, records  # type: ignore[return-value]

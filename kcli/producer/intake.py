"""The intake of a producer: records that threads have sent, and that no batch has yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kcli.producer.batches import SizedRecords
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


class SentMany(NamedTuple):
    """The records of one call of `send_many`."""

    topic: str
    partition: int | None
    sized: SizedRecords


class Intake:
    """Records in the order of the calls that added them. Any thread may add records; one thread at a time takes them.

    Records linger here, so that they are put into batches many at a time. `attend` is called by the adding thread for
    the first record after all were taken, and then each time when there are `full_bytes` more.

    `add` has no lock, and a signal handler may call it. The queue alone is exact. The other attributes are estimates:
    `add` sets them after it has changed the queue, and `take` before, so that at most a look at the queue is too early.
    """

    def __init__(self, *, full_bytes: int, now_ms: Callable[[], float], attend: Callable[[], object]) -> None:
        #: Held by a call that adds a record to a transaction, and by the call that ends it. Reentrant.
        self.lock = threading.RLock()
        #: Topics that records may be added for without a look at the metadata.
        self.ready_topics: set[str] = set()
        #: Estimated bytes of the records here.
        self.size_bytes = 0
        #: No record is to be added, before there is room, if there are as many bytes.
        self.room_bytes = 0
        self._records: deque[tuple[object, ...]] = deque()
        self._full_bytes = full_bytes
        self._now_ms = now_ms
        self._attend = attend
        self._attend_bytes = 0  # call `attend` when there are as many bytes
        self._first_ms = _NEVER_MS  # the time at which the first record was added

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: tuple[object, ...], size_bytes: int) -> None:
        """Add a record, a tuple with the fields of `SentRecord`, or the records of a `SentMany`."""
        self._records.append(record)
        self.size_bytes = total_bytes = self.size_bytes + size_bytes
        if total_bytes >= self._attend_bytes:
            if self._first_ms == _NEVER_MS:
                self._first_ms = self._now_ms()
            self._attend_bytes = total_bytes + self._full_bytes
            self._attend()

    def due_ms(self, linger_ms: float) -> float:
        """Return the time at which the records are to be taken; infinity without records."""
        if not self._records:
            return _NEVER_MS
        return 0.0 if self.size_bytes >= self._full_bytes else self._first_ms + linger_ms

    def take(self) -> tuple[float, Sequence[SentRecord | SentMany]]:
        """Take all records. Return the time at which the first was added, and the records."""
        first_ms, self._first_ms = min(self._first_ms, self._now_ms()), _NEVER_MS
        self.size_bytes = self._attend_bytes = 0
        next_record = self._records.popleft
        return first_ms, [next_record() for _ in range(len(self._records))]  # type: ignore[misc]

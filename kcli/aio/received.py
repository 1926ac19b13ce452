"""`Received`: the records that the thread of an `AsyncConsumer` has received, and how far its tasks have got with them.

The rows of a part, the records of one partition, are in three states:

    handled  |  in hand  |  unread
             ^ asked     ^ returned

A row is unread until a task gets it, in hand until a task asks for more, and handled from then on. The positions and
commits of the consumer exclude unread rows; its end after an exception excludes those in hand, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.consumer import ConsumerRecord

if TYPE_CHECKING:
    from kcli.consumer.subscription import SubscriptionState
    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.record import Record
    from kcli.structs import TopicPartition


class Part:
    """Records of one partition. `is_dropped`: its unread rows are not returned, because the position has moved."""

    __slots__ = ("asked", "columns", "is_dropped", "returned", "tp")

    def __init__(self, tp: TopicPartition, columns: RecordColumns) -> None:
        self.tp = tp
        self.columns = columns
        self.asked = 0
        self.returned = 0
        self.is_dropped = False

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def has_unread(self) -> bool:
        return self.returned < len(self) and not self.is_dropped

    def offset(self, row: int) -> int:
        return int(self.columns.offsets[row])

    def take_rest(self) -> RecordColumns:
        """Return the unread rows."""
        first, self.returned = self.returned, len(self)
        self.asked = first
        return self.columns.take(slice(first, None)) if first else self.columns


class Progress(NamedTuple):
    """The number of returned rows of a part when a call of the consumer began, and whether others were unread."""

    part: Part
    returned: int
    had_unread: bool


class Received:
    """The parts of the last poll. The thread puts them when none is unread; the tasks take them.

    `records` iterates over the unread rows, for all tasks together. `deserialized` returns a record with the results of
    the deserializers. A row counts as returned before it is, so that no lock is needed for each.
    """

    def __init__(self, deserialized: Callable[[TopicPartition, Record], Record] | None) -> None:
        self._deserialized = deserialized
        self._lock = threading.Lock()  # for the list
        self._parts: list[Part] = []
        self._holds = 0
        self.records: Iterator[ConsumerRecord] = iter(())

    # --- for the tasks

    @property
    def has_unread(self) -> bool:
        return any(part.has_unread for part in self._parts)

    @property
    def is_ready(self) -> bool:
        """A task can get records now."""
        return not self._holds and self.has_unread

    def ask(self) -> None:
        """Count all returned rows as handled, and continue `records` with the unread ones."""
        with self._lock:
            for part in self._parts:
                part.asked = part.returned
            self._parts = [part for part in self._parts if part.has_unread]
        self.records = self._records()

    def take(self, parts: int | None = None) -> dict[TopicPartition, RecordColumns]:
        """Return the unread rows of the next parts, by default of all."""
        self.ask()
        return {} if self._holds else {part.tp: part.take_rest() for part in self._parts[:parts]}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Return nothing while a call moves positions, because it would not know of it."""
        self.hold()
        try:
            yield
        finally:
            self._holds -= 1

    def hold(self) -> None:
        """Return nothing more."""
        self._holds += 1
        self.records = iter(())

    def _records(self) -> Iterator[ConsumerRecord]:
        deserialized = self._deserialized
        for part in [] if self._holds else self._parts:
            topic, partition = tp = part.tp
            row = part.returned
            for record in part.columns.take(slice(row, None)) if row else part.columns:
                if part.is_dropped or part.returned != row:
                    break  # the position has moved, or another task has taken the rest
                part.asked = row
                if deserialized is not None:
                    record = deserialized(tp, record)
                row += 1
                part.returned = row
                yield ConsumerRecord(topic, partition, *record)
            part.asked = part.returned

    # --- for the thread

    def put(self, records: dict[TopicPartition, RecordColumns]) -> None:
        """Add the records of a poll."""
        with self._lock:
            self._parts += [Part(tp, columns) for tp, columns in records.items()]

    def begin_call(self, subscription: SubscriptionState) -> list[Progress]:
        """Tell a consumer, before it does something, which of its records are unread and which are in hand."""
        unread, in_hand = subscription.unread, subscription.in_hand
        unread.clear()
        in_hand.clear()
        progress = []
        with self._lock:
            for part in self._parts:
                asked, returned, has_unread = part.asked, part.returned, part.has_unread
                if asked < returned:
                    in_hand.setdefault(part.tp, part.offset(asked))
                if has_unread:
                    unread[part.tp] = part.offset(returned)
                progress.append(Progress(part, returned, has_unread))
        return progress

    def end_call(self, subscription: SubscriptionState, progress: list[Progress]) -> None:
        """Take over the changes of the call: a seek and a revocation drop rows, a commit handles those in hand."""
        for part, returned, had_unread in progress:
            if had_unread and part.tp not in subscription.unread:
                part.is_dropped = True
            offset = subscription.in_hand.get(part.tp)
            handled = returned if offset is None else int(part.columns.offsets.searchsorted(offset))
            part.asked = max(part.asked, min(handled, returned))

"""A scripted consumer: each poll is a step; the commits are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kcli.clock import ManualClock
from kcli.consumer.retry_backoff import RetryState
from kcli.consumer.subscription import FetchPosition, PositionReset, SubscriptionState
from kcli.errors import KcliError, TimeoutExpired
from kcli.protocol.records.columns import RecordColumns
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.consume.data import columns, record

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
EPOCH = 4
Step = Callable[["FakeConsumer"], dict[TopicPartition, RecordColumns]]


def values(*texts: bytes, at: int = 0) -> RecordColumns:
    """Return records from this offset on."""
    return columns(*(record(text) for text in texts), base_offset=at)


class FakeConsumer:
    """Each poll is a step, a function of this consumer; after the last step `then` is called at each poll.

    A commit fails with the next error of `refusals`, with TimeoutExpired after its whole time. The next poll answers
    asynchronous commits. `close` raises `close_error`.
    """

    def __init__(self, steps: Iterable[Step] = (), *, then: Step | None = None) -> None:
        self.clock = ManualClock()
        self.subscription = SubscriptionState()
        self.steps = list(steps)
        self.then = then
        self.ends: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.commits: list[tuple[str, dict[TopicPartition, OffsetAndMetadata]]] = []
        self.refusals: list[KcliError] = []
        self.close_error: BaseException | None = None
        self.closed: list[float] = []
        self.checked: list[TopicPartition] = []
        self.failing: dict[TopicPartition, RetryState] = {}
        self.membership = None
        self._unanswered: list[Callable[[], None]] = []

    def subscribe(
        self, topics: list[str], *, pattern: str | None, on_assigned: Any, on_revoked: Any, on_lost: Any
    ) -> None:
        self.subscription.subscribe(topics)
        self._assigned, self._revoked, self._lost = on_assigned, on_revoked, on_lost

    def poll(self, timeout_ms: float) -> dict[TopicPartition, RecordColumns]:
        answers, self._unanswered = self._unanswered, []
        for answer in answers:
            answer()
        step = self.steps.pop(0) if self.steps else self.then
        found = step(self) if step is not None else {}
        if not found:
            self.clock.advance(timeout_ms)
        return found

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions}

    def take_resets(self) -> dict[TopicPartition, PositionReset]:
        found, self.subscription.resets = self.subscription.resets, {}
        return found

    def retry_states(self) -> dict[TopicPartition, RetryState]:
        return self.failing

    def check_range(self, partitions: Iterable[TopicPartition]) -> None:
        self.checked += partitions

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float) -> None:
        try:
            self._store("sync", offsets)
        except TimeoutExpired:
            self.clock.advance(timeout_ms)
            raise

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Any) -> None:
        def answer() -> None:
            try:
                self._store("async", offsets)
            except KcliError as error:
                callback(offsets, error)
            else:
                callback(offsets, None)

        self._unanswered.append(answer)

    def _store(self, how: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.commits.append((how, dict(offsets)))
        self.committed.update((tp, it.offset) for tp, it in offsets.items())

    def close(self, timeout_ms: float) -> None:
        if not self.closed and self.subscription.partitions():
            self._revoked(sorted(self.subscription.partitions()))
        self.closed.append(timeout_ms)
        if self.close_error is not None:
            raise self.close_error

    # --- steps

    def own(self, partitions: Iterable[TopicPartition]) -> None:
        self.subscription.assign_from_group(sorted(partitions))


def assigned(at: int = 0, *partitions: TopicPartition) -> Step:
    """Add these to the owned partitions, to be read from `at` on."""

    def step(consumer: FakeConsumer) -> dict[TopicPartition, RecordColumns]:
        consumer.own({*consumer.subscription.partitions(), *partitions})
        consumer._assigned(sorted(partitions))
        for tp in partitions:
            consumer.subscription.seek(tp, at)
        return {}

    return step


def revoked(*partitions: TopicPartition) -> Step:
    def step(consumer: FakeConsumer) -> dict[TopicPartition, RecordColumns]:
        consumer._revoked(sorted(partitions))
        consumer.own({*consumer.subscription.partitions()} - {*partitions})
        return {}

    return step


def lost(*partitions: TopicPartition) -> Step:
    def step(consumer: FakeConsumer) -> dict[TopicPartition, RecordColumns]:
        consumer.own({*consumer.subscription.partitions()} - {*partitions})
        consumer._lost(sorted(partitions))
        return {}

    return step


def records(batches: dict[TopicPartition, RecordColumns], *, behind: int = 0) -> Step:
    """Return these records; the positions move `behind` offsets further than the last record, as for a marker."""

    def step(consumer: FakeConsumer) -> dict[TopicPartition, RecordColumns]:
        for tp, found in batches.items():
            position = FetchPosition(int(found.offsets[-1]) + 1 + behind, EPOCH)
            consumer.subscription.delivered(tp, position)
        return batches

    return step


def fails(error: BaseException) -> Step:
    def step(consumer: FakeConsumer) -> dict[TopicPartition, RecordColumns]:
        raise error

    return step

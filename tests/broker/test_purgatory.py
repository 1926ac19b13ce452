"""Purgatory: operations are tried before they are watched, completed once, and then removed completely."""

from __future__ import annotations

import pytest

from kcli.broker.purgatory import DelayedOperation, Purgatory
from kcli.broker.serving.timer import Timer


class Waiting(DelayedOperation):
    """An operation that completes when `ready`, and records its events."""

    def __init__(self, deadline_ms: float = 100, ready: bool = False) -> None:
        super().__init__(deadline_ms)
        self.ready = ready
        self.tries = 0
        self.events: list[str] = []

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.complete()

    def on_complete(self) -> None:
        self.events.append("completed")

    def on_expire(self) -> None:
        self.events.append("expired")


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def purgatory(timer: Timer) -> Purgatory:
    return Purgatory("test", timer)


def test_operation_that_completes_at_once_is_not_watched(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["completed"]
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0)


def test_event_of_any_key_completes_the_operation(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (purgatory.delayed, purgatory.watched) == (1, 2)
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("a") == 0, "tried, not ready"
    operation.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert operation.events == ["completed"]
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0), "no stale watch under the other key"


def test_deadline_expires_and_completes_the_operation(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting(deadline_ms=50)
    purgatory.try_complete_else_watch(operation, ["a"])
    timer.advance(49)
    assert operation.events == []
    timer.advance(50)
    assert operation.events == ["expired", "completed"]
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert not operation.complete(), "completed only once"
    assert operation.events == ["expired", "completed"]
    assert (purgatory.delayed, purgatory.watched) == (0, 0)


def test_completion_cancels_the_timer_task(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting(deadline_ms=50)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.complete()
    timer.advance(1000)
    assert operation.events == ["completed"]


def test_duplicate_key_is_watched_once(purgatory: Purgatory) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a", "a"])
    assert purgatory.watched == 1
    purgatory.check_and_complete("a")
    assert operation.tries == 2


def test_completion_may_complete_other_operations_of_the_key(purgatory: Purgatory) -> None:
    """The completion of the first operation triggers an event on the same key during the iteration over it."""

    class Chain(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            second.ready = True
            purgatory.check_and_complete("a")

    first, second = Chain(), Waiting()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(second, ["a"])
    first.ready = True
    assert purgatory.check_and_complete("a") == 1, "the nested call completed the second one"
    assert first.events == second.events == ["completed"]
    assert purgatory.delayed == 0


def test_exception_in_completion_leaves_no_watch(purgatory: Purgatory, timer: Timer) -> None:
    class Broken(Waiting):
        def on_complete(self) -> None:
            raise RuntimeError("on purpose")

    broken = Broken(deadline_ms=5)
    purgatory.try_complete_else_watch(broken, ["a"])
    with pytest.raises(RuntimeError):
        timer.advance(5)
    assert broken.is_completed
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0)


def test_one_event_completes_thousands_of_operations(purgatory: Purgatory, timer: Timer) -> None:
    waiting = [Waiting(deadline_ms=1000 + n % 500) for n in range(10_000)]
    for n, operation in enumerate(waiting):
        purgatory.try_complete_else_watch(operation, ["busy" if n % 2 else "idle", n])
    for operation in waiting:
        operation.ready = True
    assert purgatory.check_and_complete("busy") == 5000
    assert purgatory.delayed == 5000
    timer.advance(2000)
    assert [one.events for one in waiting[:2]] == [["expired", "completed"], ["completed"]]
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0)

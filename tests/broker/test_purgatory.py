"""Delayed operations: tried before they are parked, completed once by whoever comes first, gone without a trace."""

from __future__ import annotations

import pytest

from kcli.broker.purgatory import DelayedOperation, Purgatory
from kcli.broker.timer import Timer


class Waiting(DelayedOperation):
    """Completes when `ready`; notes what happened to it."""

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


def test_what_can_be_completed_at_once_is_never_parked(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["completed"]
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0)


def test_an_event_of_any_of_its_keys_completes_it(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (purgatory.delayed, purgatory.watched) == (1, 2)
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("a") == 0, "tried, not ready"
    operation.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert operation.events == ["completed"]
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0), "no stale watch under the other key"


def test_at_its_deadline_it_expires_and_is_completed(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting(deadline_ms=50)
    purgatory.try_complete_else_watch(operation, ["a"])
    timer.advance(49)
    assert operation.events == []
    timer.advance(50)
    assert operation.events == ["expired", "completed"]
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert not operation.complete(), "only whoever gets there first"
    assert operation.events == ["expired", "completed"]
    assert (purgatory.delayed, purgatory.watched) == (0, 0)


def test_completion_takes_it_off_the_timer(purgatory: Purgatory, timer: Timer) -> None:
    operation = Waiting(deadline_ms=50)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.complete()
    timer.advance(1000)
    assert operation.events == ["completed"]


def test_an_operation_named_under_one_key_twice_is_tried_once(purgatory: Purgatory) -> None:
    operation = Waiting()
    purgatory.try_complete_else_watch(operation, ["a", "a"])
    assert purgatory.watched == 1
    purgatory.check_and_complete("a")
    assert operation.tries == 2


def test_completing_one_may_complete_others_meanwhile(purgatory: Purgatory) -> None:
    """An answer makes its client do something else on the same key, before the round over the key is done."""

    class Chain(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            second.ready = True
            purgatory.check_and_complete("a")

    first, second = Chain(), Waiting()
    purgatory.try_complete_else_watch(first, ["a"])
    purgatory.try_complete_else_watch(second, ["a"])
    first.ready = True
    assert purgatory.check_and_complete("a") == 1, "the second was completed by the inner round"
    assert first.events == second.events == ["completed"]
    assert purgatory.delayed == 0


def test_an_error_in_completing_leaves_nothing_behind(purgatory: Purgatory, timer: Timer) -> None:
    class Broken(Waiting):
        def on_complete(self) -> None:
            raise RuntimeError("on purpose")

    broken = Broken(deadline_ms=5)
    purgatory.try_complete_else_watch(broken, ["a"])
    with pytest.raises(RuntimeError):
        timer.advance(5)
    assert broken.is_completed
    assert (purgatory.delayed, purgatory.watched, len(timer)) == (0, 0, 0)


def test_ten_thousand_waiters_and_one_event(purgatory: Purgatory, timer: Timer) -> None:
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

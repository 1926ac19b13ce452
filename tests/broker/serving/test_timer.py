"""Timer: due tasks run once and in order, and waiting tasks cost nothing."""

from __future__ import annotations

import math
import random
import time
from functools import partial

import pytest

from kcli.broker.serving.timer import Timer, TimerTask
from kcli.clock import ManualClock


def test_tasks_run_in_deadline_order_and_never_early() -> None:
    timer, ran = Timer(), []
    for deadline in (30.0, 10.0, 20.5):
        timer.call_at(deadline, lambda deadline=deadline: ran.append(deadline))
    assert timer.next_deadline_ms() == 10
    assert timer.advance(9.9) == 0
    assert timer.advance(20.5) == 1, "20.5 is rounded up to 21"
    assert timer.advance(21) == 1
    assert timer.advance(1000) == 1
    assert ran == [10.0, 20.5, 30.0]
    assert timer.next_deadline_ms() == math.inf
    assert len(timer) == 0


def test_tasks_of_one_deadline_run_in_insertion_order() -> None:
    timer, ran = Timer(), []
    for name in "abc":
        timer.call_at(5, lambda name=name: ran.append(name))
    assert timer.advance(5) == 3
    assert ran == ["a", "b", "c"]


def test_cancelled_task_is_removed_at_once() -> None:
    timer, ran = Timer(), []
    task = timer.call_at(10, lambda: ran.append("cancelled"))
    timer.call_at(20, lambda: ran.append("kept"))
    assert task.cancel()
    assert not task.cancel(), "cancelled only once"
    assert not task.is_waiting
    assert len(timer) == 1
    assert timer.next_deadline_ms() == 20
    timer.advance(30)
    assert ran == ["kept"]


def test_task_may_cancel_another_due_task() -> None:
    timer, ran = Timer(), []
    timer.call_at(5, lambda: ran.append(second.cancel()))
    second = timer.call_at(5, lambda: ran.append("second"))
    assert timer.advance(5) == 1
    assert ran == [True]
    assert len(timer) == 0


def test_due_task_added_by_a_task_waits_for_the_next_advance() -> None:
    timer, ran = Timer(), []

    def reschedule() -> None:
        ran.append(1)
        timer.call_at(0, reschedule)

    timer.call_at(0, reschedule)
    assert timer.advance(10) == 1, "a task that reschedules itself does not block the loop"
    assert timer.advance(10) == 1


def test_exception_in_a_task_keeps_the_later_tasks() -> None:
    timer, ran = Timer(), []

    def fail() -> None:
        raise RuntimeError("on purpose")

    timer.call_at(1, fail)
    timer.call_at(1, lambda: ran.append("same deadline"))
    timer.call_at(2, lambda: ran.append("later"))
    with pytest.raises(RuntimeError):
        timer.advance(5)
    assert timer.next_deadline_ms() <= 5
    assert timer.advance(5) == 2
    assert ran == ["same deadline", "later"]


def test_infinite_deadline_raises() -> None:
    with pytest.raises(ValueError, match="not a deadline"):
        Timer().call_at(math.inf, lambda: None)


def test_memory_does_not_grow_with_cancelled_tasks() -> None:
    """Fetches that are answered long before their deadlines leave no buckets."""
    timer = Timer()
    for at in range(20_000):
        timer.call_at(at * 1000.0, lambda: None).cancel()
    assert len(timer._buckets) == 0
    assert len(timer._times) < 1000


def test_cost_of_advance_is_independent_of_waiting_tasks() -> None:
    """An idle advance looks at the first deadline only."""
    timer = Timer()
    rng = random.Random(5)
    for _ in range(100_000):
        timer.call_at(10_000 + rng.random() * 500, lambda: None)
    start = time.perf_counter()
    for now in range(10_000):
        timer.advance(now)
        timer.next_deadline_ms()
    assert time.perf_counter() - start < 1.0, "10,000 calls with 100,000 waiting tasks"
    assert timer.advance(10_600) == 100_000


def test_random_operations_run_each_task_once_in_time() -> None:
    rng = random.Random(11)
    timer, clock = Timer(), ManualClock()
    ran: dict[int, float] = {}
    tasks: dict[int, TimerTask] = {}
    cancelled = set()

    def run(name: int) -> None:
        assert name not in ran
        ran[name] = clock.now_ms()

    for name in range(1500):
        tasks[name] = timer.call_at(clock.now_ms() + rng.random() * 50, partial(run, name))
        victim = rng.randrange(name + 1)
        if rng.random() < 0.4 and tasks[victim].cancel():
            cancelled.add(victim)
        if rng.random() < 0.5:
            clock.advance(rng.random() * 4)
            due = {one for one, task in tasks.items() if task.deadline_ms <= clock.now_ms() - 1} - cancelled
            timer.advance(clock.now_ms())
            assert due <= ran.keys()
    clock.advance(100)
    timer.advance(clock.now_ms())
    assert ran.keys() == tasks.keys() - cancelled
    assert all(at >= tasks[name].deadline_ms for name, at in ran.items())

"""Work of requests that may take long, in steps between which the loop serves other clients.

Kafka has a pool of threads for requests; one of them that is busy for seconds does not keep the others waiting. This
broker has one loop. So the work of a request is a generator that yields after each batch or partition. It runs at once
for `SLICE_MS`, as nearly all requests need much less, and then for as long in each iteration of the loop, in turn with
the work of other requests. A step is not interrupted: its length is that of one batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

from kcli.broker.serving.pending import Pending
from kcli.broker.serving.timer import Timer
from kcli.clock import Clock

T = TypeVar("T")

SLICE_MS = 20.0


class LongWork:
    """The unfinished work of requests, oldest turn first. It belongs to the loop thread."""

    def __init__(self, clock: Clock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._unfinished: deque[Callable[[], bool]] = deque()

    def __repr__(self) -> str:
        return f"<LongWork {len(self._unfinished)} unfinished>"

    def run(self, steps: Generator[None, None, T]) -> Pending[T]:
        """Run the steps; the answer is what they return. Raise their error, if it comes in the first slice."""
        outcome: Pending[T] = Pending()

        def run_slice() -> bool:
            stop_ms = self._clock.now_ms() + SLICE_MS
            try:
                while True:
                    next(steps)
                    if self._clock.now_ms() >= stop_ms:
                        return False
            except StopIteration as end:
                outcome.complete(end.value)
                return True

        if not run_slice():
            self._unfinished.append(run_slice)
            if len(self._unfinished) == 1:
                self._continue_later()
        return outcome

    def _continue_later(self) -> None:
        # In the next iteration of the loop: the timer does not reach this time now.
        self._timer.call_at(self._clock.now_ms() + 1, self._continue)

    def _continue(self) -> None:
        run_slice = self._unfinished.popleft()
        try:
            if not run_slice():
                self._unfinished.append(run_slice)
        finally:
            if self._unfinished:
                self._continue_later()

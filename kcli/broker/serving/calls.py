"""Calls from other threads, run by the thread of a loop between two requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from kcli.errors import KcliError

T = TypeVar("T")


class Calls:
    """Functions that wait for the loop's thread; true if there are any. `run` belongs to that thread."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._loop_thread: int | None = None

    def __repr__(self) -> str:
        return f"<Calls {len(self._waiting)} waiting>"

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def enter(self) -> None:
        """Make the current thread the loop's."""
        self._loop_thread = threading.get_ident()

    def run(self) -> None:
        """Run the functions that wait now. One that comes meanwhile waits for the next iteration of the loop: a thread
        that calls again and again must not keep the loop from its requests.
        """
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def add(self, fn: Callable[[], None]) -> None:
        """Let `fn` run in the loop's thread; do not wait for it."""
        self._waiting.append(fn)

    def call(self, fn: Callable[[], T], wakeup: Callable[[], None], timeout_s: float) -> T:
        """Run `fn()` in the loop's thread; return its result or raise its exception. `wakeup` ends the loop's wait.

        KcliError if it did not run within `timeout_s`. Before the first `enter` it runs in the current thread.
        """
        if self._loop_thread in (None, threading.get_ident()):
            return fn()
        done = threading.Event()
        outcomes: list[tuple[T | None, BaseException | None]] = []

        def run() -> None:
            try:
                outcomes.append((fn(), None))
            except BaseException as error:
                outcomes.append((None, error))
            done.set()

        self.add(run)
        wakeup()
        if not done.wait(timeout_s):
            raise KcliError(f"the broker's loop did not run the call within {timeout_s:g} s")
        value, error = outcomes[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

"""Signals that ask a process to end: first in order, then at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

# `timeout` and shells send to the process and to its group: the same wish twice.
_SAME_WISH_S = 1.0


class StopSignals:
    """While entered, SIGINT, SIGTERM and SIGHUP (the terminal was closed) set `is_told` and call `wake`.

    Before there is a `wake`, and again for who cannot wait, they are KeyboardInterrupt. SIGHUP stays ignored where it
    was, as under nohup.
    """

    def __init__(self) -> None:
        self.wake: Callable[[], None] | None = None
        self._told_s: float | None = None
        self._before: dict[int, Any] = {}

    @property
    def is_told(self) -> bool:
        return self._told_s is not None

    def __enter__(self) -> StopSignals:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
            number = getattr(signal, name, None)
            if number is not None and (name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What comes meanwhile is heard afterwards: for what must be done whole."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        now_s = monotonic()
        if self._told_s is not None and now_s - self._told_s < _SAME_WISH_S:
            return
        is_first, self._told_s = self._told_s is None, now_s
        if self.wake is None or not is_first:
            raise KeyboardInterrupt
        self.wake()

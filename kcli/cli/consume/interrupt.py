"""Ctrl-C between records, not inside one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import monotonic
from types import FrameType, TracebackType
from typing import Any

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""What asks a process to end: Ctrl-C, `kill`, and the terminal that was closed."""


class Interrupt:
    """While active, the first Ctrl-C sets `asked` and calls `wakeup`; the second is a KeyboardInterrupt at once.

    So what was begun is printed whole. `signals` may name others to be taken the same way; SIGHUP stays ignored where
    it was, as under nohup. A second signal within `same_wish_s` counts as the first: `timeout` and shells send to the
    process and to its group. Outside the main thread nothing can be caught, and nothing is.
    """

    def __init__(
        self, wakeup: Callable[[], None], signals: tuple[str, ...] = ("SIGINT",), *, same_wish_s: float = 0.0
    ) -> None:
        self.asked = False
        self._asked_s = 0.0
        self._wakeup = wakeup
        self._signals = signals
        self._same_wish_s = same_wish_s
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        for name in self._signals:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is None or (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                continue
            try:
                self._before[number] = signal.signal(number, self._caught)
            except ValueError:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        now_s = monotonic()
        if self.asked:
            if now_s - self._asked_s < self._same_wish_s:
                return
            raise KeyboardInterrupt
        self.asked, self._asked_s = True, now_s
        self._wakeup()

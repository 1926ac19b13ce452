"""Ctrl-C between records, not inside one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType


class Interrupt:
    """While active, the first Ctrl-C sets `asked` and calls `wakeup`; the second is a KeyboardInterrupt at once.

    So what was begun is printed whole. Outside the main thread nothing can be caught, and nothing is.
    """

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self.asked = False
        self._wakeup = wakeup
        self._before: object = None

    def __enter__(self) -> Interrupt:
        try:
            self._before = signal.signal(signal.SIGINT, self._caught)
        except ValueError:
            self._before = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._wakeup()

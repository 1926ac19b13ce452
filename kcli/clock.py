"""Time as a value that is handed in. Ground: imports nothing of kcli."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: a steady one for time-outs and a wall clock for record timestamps."""

    def now_ms(self) -> float:
        """Milliseconds of a steady clock that never goes back; its zero means nothing."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> float:
        return time.monotonic() * 1000.0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that tests move by hand."""

    def __init__(self, now_ms: float = 0.0, wall_ms: int = 1_500_000_000_000) -> None:
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    def now_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, ms: float) -> None:
        """Both clocks go forward by `ms` milliseconds."""
        self._now_ms += ms
        self._wall_ms += int(ms)

"""Clocks: the system's, and a manual one for tests. Ground: imports nothing of kcli."""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock for timeouts and deadlines, and a wall clock for record timestamps."""

    def now_ms(self) -> float:
        """Return milliseconds of the monotonic clock, whose zero has no meaning."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, UTC."""


class SystemClock:
    """The clocks of the operating system."""

    def now_ms(self) -> float:
        return time.monotonic() * 1000.0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that a test advances."""

    def __init__(self, now_ms: float = 0.0, wall_ms: int = 1_500_000_000_000) -> None:
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    def now_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, ms: float) -> None:
        """Advance both clocks by `ms` milliseconds."""
        self._now_ms += ms
        self._wall_ms += int(ms)

"""Pauses after failures in a row, and when a failure that lasts is reported."""

from __future__ import annotations

_FIRST_MS = 20.0
#: The number of equal failures in a row after which the problem is reported.
REPORT_AFTER = 10


class Backoff:
    """A pause after each failure in a row, which doubles from `first_ms` up to `most_ms`.

    `ready_ms` is its end on the steady clock.
    """

    __slots__ = ("_equal_failures", "_first_ms", "_pause_ms", "_problem", "_reported", "most_ms", "ready_ms")

    def __init__(self, most_ms: float, first_ms: float = _FIRST_MS) -> None:
        self.most_ms = most_ms
        self._first_ms = first_ms
        self.ready_ms = 0.0
        self._pause_ms = 0.0
        self._problem = self._reported = ""
        self._equal_failures = 0

    def failed(self, problem: str, now_ms: float, *, report_after: int = REPORT_AFTER) -> bool:
        """Begin the next pause. True if the same problem has occurred `report_after` times in a row, once for each."""
        self._pause_ms = min(max(2 * self._pause_ms, self._first_ms), self.most_ms)
        self.ready_ms = now_ms + self._pause_ms
        self._equal_failures = self._equal_failures + 1 if problem == self._problem else 1
        self._problem = problem
        if self._equal_failures < report_after or problem == self._reported:
            return False
        self._reported = problem
        return True

    def succeeded(self) -> None:
        self.ready_ms = self._pause_ms = 0.0
        self._problem = self._reported = ""

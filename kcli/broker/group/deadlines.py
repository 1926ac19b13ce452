"""Deadlines with names: setting one anew replaces the one before."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.timer import Timer, TimerTask


class Deadlines:
    """At most one task of a timer per key."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._tasks: dict[Hashable, TimerTask] = {}

    def __repr__(self) -> str:
        return f"<Deadlines {len(self._tasks)} set>"

    def __len__(self) -> int:
        return len(self._tasks)

    def set(self, key: Hashable, deadline_ms: float, fn: Callable[[], None]) -> None:
        """Have `fn` called at the deadline, and nothing at an earlier deadline of this key."""
        self.cancel(key)

        def due() -> None:
            del self._tasks[key]
            fn()

        self._tasks[key] = self._timer.call_at(deadline_ms, due)

    def cancel(self, key: Hashable) -> None:
        """Nothing happens at this key's deadline, if there is one."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

"""Delayed operations: requests that wait for an event or their deadline, each completed exactly once.

There is one thread and no locks. Completing an operation removes it from the timer and from all of its keys at once, so
that nothing stale remains to be purged, unlike in Kafka.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from kcli.broker.serving.timer import Timer, TimerTask


class DelayedOperation:
    """An operation that waits until `try_complete` succeeds, at most until `deadline_ms` of the steady clock."""

    def __init__(self, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        self.is_completed = False
        self._purgatory: Purgatory | None = None
        self._task: TimerTask | None = None
        self.keys: tuple[Hashable, ...] = ()  # of the events that may complete it

    def __repr__(self) -> str:
        state = "completed" if self.is_completed else f"until {self.deadline_ms:.0f} ms"
        return f"<{type(self).__name__} {state}, keys={len(self.keys)}>"

    def try_complete(self) -> bool:
        """Return `self.complete()` if it can be completed now, else False. Override this; it is called often."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Deliver the result. Override this; it is called exactly once."""
        raise NotImplementedError

    def on_expire(self) -> None:
        """Prepare the result after the deadline passed, before `on_complete`. May be overridden."""

    def complete(self) -> bool:
        """Complete the operation. False if it was already complete."""
        if self.is_completed:
            return False
        self._unwatch()
        self.on_complete()
        return True

    def expire(self) -> None:
        """Complete the operation because its deadline passed."""
        if not self.is_completed:
            self._unwatch()
            self.on_expire()
            self.on_complete()

    def _unwatch(self) -> None:
        self.is_completed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._purgatory is not None:
            self._purgatory._stop_watching(self)
            self._purgatory = None


class Purgatory:
    """Delayed operations by the keys (topic partitions) whose events may complete them."""

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._delayed = 0

    def __repr__(self) -> str:
        return f"<Purgatory {self.name} {self._delayed} delayed, {len(self._watched)} keys>"

    @property
    def delayed(self) -> int:
        """The number of waiting operations."""
        return self._delayed

    @property
    def watched(self) -> int:
        """The number of watches: an operation counts once for each of its keys."""
        return sum(map(len, self._watched.values()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete the operation now (True), or watch it under `keys` until its deadline (False).

        Nothing can happen between the try and the watch, because there is one thread.
        """
        if operation.try_complete() or operation.is_completed:
            return True
        self.watch(operation, keys)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        """Watch an operation that cannot be completed now."""
        unique = tuple(dict.fromkeys(keys))
        for key in unique:
            self._watched.setdefault(key, {})[operation] = None
        operation.keys, operation._purgatory = unique, self
        operation._task = self._timer.call_at(operation.deadline_ms, operation.expire)
        self._delayed += 1

    def check_and_complete(self, key: Hashable) -> int:
        """Try all operations that wait for `key`, and return the number of completed ones."""
        watchers = self._watched.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in list(watchers):
            if not operation.is_completed and operation.try_complete():
                completed += 1
        return completed

    def _stop_watching(self, operation: DelayedOperation) -> None:
        self._delayed -= 1
        for key in operation.keys:
            watchers = self._watched.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self._watched[key]

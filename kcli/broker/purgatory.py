"""Operations that wait for something to happen, or for their deadline: each is completed exactly once.

One thread, so there are no locks: whoever comes first completes an operation, and with that it is gone from the timer
and from every key it was watched under. Nothing stale is left behind to be purged.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from kcli.broker.timer import Timer, TimerTask


class DelayedOperation:
    """Something that waits until `try_complete` finds that it need not, at the longest until `deadline_ms`."""

    def __init__(self, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        self.is_completed = False
        self._purgatory: Purgatory | None = None
        self._task: TimerTask | None = None
        self._keys: tuple[Hashable, ...] = ()

    def __repr__(self) -> str:
        state = "completed" if self.is_completed else f"until {self.deadline_ms:.0f} ms"
        return f"<{type(self).__name__} {state}, keys={len(self._keys)}>"

    def try_complete(self) -> bool:
        """Look whether it can be completed now, and if so return `self.complete()`. To be overridden; called often."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """What completing means; called exactly once. To be overridden."""
        raise NotImplementedError

    def on_expire(self) -> None:
        """Called before `on_complete` when it was the deadline that completed it. May be overridden."""

    def complete(self) -> bool:
        """Complete it now. False when that was done before."""
        if self.is_completed:
            return False
        self._leave()
        self.on_complete()
        return True

    def expire(self) -> None:
        """The deadline passed."""
        if not self.is_completed:
            self._leave()
            self.on_expire()
            self.on_complete()

    def _leave(self) -> None:
        self.is_completed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._purgatory is not None:
            self._purgatory._forget(self)
            self._purgatory = None


class Purgatory:
    """Operations by the keys (topic partitions, groups) whose events may complete them."""

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._delayed = 0

    def __repr__(self) -> str:
        return f"<Purgatory {self.name} {self._delayed} delayed, {len(self._watched)} keys>"

    @property
    def delayed(self) -> int:
        """How many operations wait."""
        return self._delayed

    @property
    def watched(self) -> int:
        """How many watches there are: an operation counts once for each of its keys."""
        return sum(map(len, self._watched.values()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete it at once if that is possible (True), or park it under `keys` until its deadline.

        Between the try and the parking nothing can happen: there is one thread.
        """
        if operation.try_complete() or operation.is_completed:
            return True
        unique = tuple(dict.fromkeys(keys))
        for key in unique:
            self._watched.setdefault(key, {})[operation] = None
        operation._keys, operation._purgatory = unique, self
        operation._task = self._timer.call_at(operation.deadline_ms, operation.expire)
        self._delayed += 1
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Something happened to `key`: try what waits for it; how many were completed by it."""
        watchers = self._watched.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in list(watchers):
            if not operation.is_completed and operation.try_complete():
                completed += 1
        return completed

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Take out what waits under `key`, uncompleted and without its timer, for the caller to deal with."""
        operations = list(self._watched.get(key, ()))
        for operation in operations:
            operation._leave()
        return operations

    def _forget(self, operation: DelayedOperation) -> None:
        self._delayed -= 1
        for key in operation._keys:
            watchers = self._watched.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self._watched[key]

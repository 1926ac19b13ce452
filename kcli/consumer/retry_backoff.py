"""Who is being left alone after a failure, since when, and why. Pure: time comes in as a number."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from kcli.client.backoff import JITTER, Backoff, uniform
from kcli.errors import KcliError

K = TypeVar("K", bound=Hashable)


class Trouble(NamedTuple):
    """Failing since `since_ms`, `failures` times in a row, last with `error`; not to be tried before `until_ms`."""

    since_ms: float
    failures: int
    until_ms: float
    error: KcliError


class Troubles(Generic[K]):
    """The troubles of partitions, or of nodes. One is over when `clear` says so, not when its wait is.

    Waits vary from one client to another, not among the partitions of one: what failed together is asked together.
    """

    def __init__(self, initial_ms: float, max_ms: float) -> None:
        jitter = uniform(1 - JITTER, 1 + JITTER)
        self._backoff = Backoff(initial_ms, max_ms, uniform=lambda low, high: jitter)
        self._troubles: dict[K, Trouble] = {}
        self._waiting: set[K] = set()

    def __len__(self) -> int:
        return len(self._troubles)

    def get(self, key: K) -> Trouble | None:
        """The trouble of `key`, if it has one."""
        return self._troubles.get(key)

    def items(self) -> Iterable[tuple[K, Trouble]]:
        """Everybody in trouble."""
        return self._troubles.items()

    def add(self, key: K, error: KcliError, now_ms: float) -> Trouble:
        """`key` failed again."""
        before = self._troubles.get(key)
        failures = 1 if before is None else before.failures + 1
        since_ms = now_ms if before is None else before.since_ms
        trouble = Trouble(since_ms, failures, now_ms + self._backoff.after(failures), error)
        self._troubles[key] = trouble
        self._waiting.add(key)
        return trouble

    def clear(self, key: K) -> None:
        """`key` is well."""
        if self._troubles.pop(key, None) is not None:
            self._waiting.discard(key)

    def waits(self, key: K) -> bool:
        """Whether `key` is still to be left alone: until `take_waited` has named it."""
        return key in self._waiting

    def take_waited(self, now_ms: float) -> list[K]:
        """Those whose wait has just ended, to be tried again."""
        over = [key for key in self._waiting if self._troubles[key].until_ms <= now_ms]
        self._waiting.difference_update(over)
        return over

    def end_waits(self) -> list[K]:
        """What everybody waited for may have come: all that still wait, to be tried again at once."""
        waiting, self._waiting = list(self._waiting), set()
        return waiting

    def next_ms(self) -> float:
        """When the next wait ends; infinity if nobody waits."""
        return min((self._troubles[key].until_ms for key in self._waiting), default=float("inf"))

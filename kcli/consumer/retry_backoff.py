"""Retry backoff per partition or node, and the log lines about it. Time is an argument."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from kcli.client.backoff import JITTER, Backoff, uniform
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError
from kcli.logs import RepeatedWarnings
from kcli.structs import TopicPartition

#: Failures in a row after which they are worth a log line: those of a moving leader end before.
LASTING = 5

K = TypeVar("K", bound=Hashable)


class RetryState(NamedTuple):
    """Consecutive failures of one key since `since_ms`; the latest is `error`, the next attempt is at `until_ms`."""

    since_ms: float
    failures: int
    until_ms: float
    error: KcliError

    @property
    def is_worth_a_warning(self) -> bool:
        """True after some failures; false for a topic that does not exist, which `UnknownTopics` logs."""
        code = self.error.code if isinstance(self.error, BrokerError) else None
        return self.failures >= LASTING and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class RetryWarnings:
    """The log lines about partitions that are retried: one for all that a lost broker concerns, else one for each.

    `problem` and `success` are sentences with {} in place of the partition.
    """

    def __init__(self, logger: str, problem: str, success: str) -> None:
        self._warnings = RepeatedWarnings(logger)
        self._problem = problem
        self._success = success

    def failed(self, tp: TopicPartition, state: RetryState, now_ms: float) -> None:
        """Log a failure that lasts."""
        if state.is_worth_a_warning:
            is_lost = isinstance(state.error, DisconnectedError)
            subject = self._problem.format(f"{tp} (and perhaps others)" if is_lost else tp)
            self._warnings.warn("lost" if is_lost else tp, now_ms, f"{subject}: {state.error}")

    def ended(self, tp: TopicPartition, now_ms: float) -> None:
        """Log the first success after a failure that was logged."""
        self._warnings.ended(now_ms, self._success.format(tp), tp, "lost")


class RetryBackoffs(Generic[K]):
    """The retry states of all failing keys (partitions, or nodes).

    A key leaves when `clear` is called, not when its wait ends.

    The jitter differs between clients, but not between the keys of one: keys that failed together are retried together.
    """

    def __init__(self, initial_ms: float, max_ms: float) -> None:
        jitter = uniform(1 - JITTER, 1 + JITTER)
        self._backoff = Backoff(initial_ms, max_ms, uniform=lambda low, high: jitter)
        self._states: dict[K, RetryState] = {}
        self._waiting: set[K] = set()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: K) -> RetryState | None:
        """Return the retry state of `key`; None if it has not failed."""
        return self._states.get(key)

    def items(self) -> Iterable[tuple[K, RetryState]]:
        """Return the retry states of all failing keys."""
        return self._states.items()

    def add(self, key: K, error: KcliError, now_ms: float) -> RetryState:
        """Record another failure of `key` and return its state."""
        before = self._states.get(key)
        failures = 1 if before is None else before.failures + 1
        since_ms = now_ms if before is None else before.since_ms
        state = RetryState(since_ms, failures, now_ms + self._backoff.after(failures), error)
        self._states[key] = state
        self._waiting.add(key)
        return state

    def clear(self, key: K) -> bool:
        """Forget the failures of `key` after a success. Return False if there were none."""
        if self._states.pop(key, None) is None:
            return False
        self._waiting.discard(key)
        return True

    def is_waiting(self, key: K) -> bool:
        """True if the backoff of `key` is in progress: until `take_expired` has returned it."""
        return key in self._waiting

    def take_expired(self, now_ms: float) -> list[K]:
        """Return the keys whose backoff has ended since the last call."""
        expired = [key for key in self._waiting if self._states[key].until_ms <= now_ms]
        self._waiting.difference_update(expired)
        return expired

    def end_all(self) -> list[K]:
        """End all backoffs and return their keys, for an event that may have repaired all of them (new metadata)."""
        waiting, self._waiting = list(self._waiting), set()
        return waiting

    def next_ms(self) -> float:
        """Return the time at which the next backoff ends; infinity if there is none."""
        return min((self._states[key].until_ms for key in self._waiting), default=float("inf"))

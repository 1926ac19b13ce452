"""What partitions fail of, said while the others are still read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kcli.cli.consume import account

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.structs import TopicPartition

_EVERY_MS = 1000.0


class Problems:
    """Says each failure and each gap once: `tick`, as often as the owner likes, looks for new ones now and then.

    Nothing is said if it is all `told_later`, in a footer.
    """

    def __init__(
        self, env: Environment, coverage: Callable[[], Sequence[PartitionCoverage]], *, told_later: bool
    ) -> None:
        self._env = env
        self._coverage = coverage
        self._told: set[tuple[TopicPartition, str]] = set()
        self._told_later = told_later
        self._next_ms = 0.0

    def tick(self) -> None:
        """Look, if it is time to."""
        now_ms = self._env.clock.now_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + _EVERY_MS
            self.tell()

    def tell(self) -> None:
        """Look now, and say what is new."""
        if self._told_later:
            return
        news = [one for one in self._coverage() if (one.tp, one.reason) not in self._told]
        self._told.update((one.tp, one.reason) for one in news)
        for sentence in account.problems(news):
            self._env.say(f"kcli: {sentence}")

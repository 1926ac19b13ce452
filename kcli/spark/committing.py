"""A thread that commits the newest position it was given: Spark's own threads never wait for a broker.

A failure is told once and tried again; while nothing new comes, the same position is committed now and then, because
brokers forget the offsets of a group that is empty (offsets.retention.minutes, KIP-211).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.spark.group_commits import GroupCommits, Position

RETRY_S = 10.0


class Committing:
    """Give it positions; `finish` when there will be no more."""

    def __init__(
        self, commits: GroupCommits, say: Callable[[str], object], idle_s: float = 3_600, retry_s: float = RETRY_S
    ) -> None:
        """`say` gets a sentence for each trouble. `idle_s`: how long before a position is committed again; 0: never."""
        self._commits = commits
        self._say = say
        self._idle_s = idle_s
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._newest: Position | None = None
        self._is_new = False
        self._is_stored = True
        self._finished = False
        self._told: str | None = None
        self._thread = threading.Thread(target=self._work, name="kcli-group-commits", daemon=True)
        self._thread.start()

    def put(self, position: Position) -> None:
        """Commit this one next, unless a later batch of the same query is known."""
        with self._changed:
            if self._newest and self._newest.query_id == position.query_id and position.batch < self._newest.batch:
                return
            self._newest, self._is_new, self._is_stored = position, True, False
            self._changed.notify()

    def finish(self, timeout_s: float) -> bool:
        """No more positions: commit the last one, once more if that has just failed. Whether it is stored by now; the
        thread ends in any case."""
        with self._changed:
            self._finished = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if timeout_s and self._thread.is_alive():
            self._say(f"the last commit for group {self._commits.group} was not over within {timeout_s:g} s")
        return self._is_stored and not self._thread.is_alive()

    def _work(self) -> None:
        pause_s: float | None = None  # None: until something happens
        while (position := self._next(pause_s)) is not None:
            self._is_stored = self._try(position)
            pause_s = (self._idle_s or None) if self._is_stored else self._retry_s
        if self._newest is not None and not self._is_stored:
            self._is_stored = self._try(self._newest)
        self._commits.close()

    def _next(self, pause_s: float | None) -> Position | None:
        """What to commit: a new position at once, the old one again after a pause. None: that was all."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_new or self._finished, pause_s)
            if self._finished and not self._is_new:
                return None
            self._is_new = False
            return self._newest

    def _try(self, position: Position) -> bool:
        try:
            failures = self._commits.commit(position)
        except KcliError as error:
            failures = [str(error)]
        except Exception as error:  # ours, but no reason to leave the group behind without a word
            failures = [f"{type(error).__name__}: {error}"]
        text = "; ".join(failures)
        if text and text != self._told:
            self._say(f"group {self._commits.group} does not show where the query is, which goes on: {text}")
        self._told = text or None
        return not text

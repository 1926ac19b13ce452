"""A lock that a thread in a tight loop cannot keep from the others."""

from __future__ import annotations

import threading
from collections.abc import Callable


class FairLock:
    """Who waits gets it next, even if the holder comes back at once, as a polling loop does. Not reentrant.

    `nudge` makes a holder that sleeps inside let go.
    """

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self._turn = threading.Lock()  # held while waiting: the holder that comes back queues up behind
        self._held = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        with self._turn:
            if not self._held.acquire(blocking=False):
                self._nudge()
                self._held.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._held.release()

    def held_by_another_thread(self) -> bool:
        return self._holder is not None and self._holder != threading.get_ident()

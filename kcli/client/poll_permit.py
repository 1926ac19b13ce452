"""The locks of a client that several threads poll: `PollPermit` for network waits, `FairLock` for short calls."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from kcli import forks

# A thread that waits for the permit wakes up this often, so that it notices signals.
_PERMIT_WAIT_S = 1.0


class FairLock:
    """A lock for which the waiting thread is next, even if the holder acquires it again at once. Not reentrant.

    A thread that polls in a loop would otherwise keep the lock from all others. `interrupt` ends the holder's wait.
    For short calls; two threads that both wait for the network use a `PollPermit`. Raise ForkedClient in a child.

    Python raises KeyboardInterrupt also in these two methods, at each call and at its return. A lock that stays
    acquired then would block `close`. So `__enter__` releases it, or takes it over if `__exit__` has not released it.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        # Held while waiting, so that the former holder queues after the waiting thread.
        self._queue_lock = threading.Lock()
        self._inner_lock = threading.RLock()  # because its owner alone can release it: see `__enter__`
        self._holder: int | None = None
        self._made_in = forks.pid

    def __enter__(self) -> None:
        forks.require_own_process(self._made_in)
        me = threading.get_ident()
        if self._holder == me:  # a signal has interrupted `__exit__`
            return
        try:
            with self._queue_lock:
                if not self._inner_lock.acquire(blocking=False):
                    self._interrupt()
                    self._inner_lock.acquire()
            self._holder = me
        except BaseException:
            with contextlib.suppress(RuntimeError):  # not acquired
                self._inner_lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._inner_lock.release()

    def held_by_another_thread(self) -> bool:
        return self._holder is not None and self._holder != threading.get_ident()


class PollPermit:
    """The permit to wait for the network. Reentrant. `interrupt` ends the network wait of the thread that has it.

    A thread in the foreground keeps it for a whole `poll`. A thread in the background never waits for the permit, and
    gives it back when a thread in the foreground wants it.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        # Locked without the methods of the condition: those are Python code that a signal can interrupt.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._owner: int | None = None
        self._depth = 0
        self._is_in_background = False
        self._waiting = 0

    def acquire(self, is_over: Callable[[], bool], left_ms: Callable[[], float]) -> bool:
        """Wait for the permit; return False without it if `is_over`, or when a thread in the foreground keeps it."""
        me = threading.get_ident()
        with self._lock:
            if self._owner not in (None, me):
                # Once: the owner then sees new requests and deadlines, and a thread in the background gives way.
                self._interrupt()
                self._waiting += 1
                try:
                    while self._owner is not None and not is_over() and (self._is_in_background or left_ms() > 0):
                        self._changed.wait(min(max(left_ms() / 1000, 0.001), _PERMIT_WAIT_S))
                finally:
                    self._waiting -= 1
            if self._owner not in (None, me):
                return False
            self._take(in_background=False)
            return True

    def acquire_if_free(self) -> bool:
        """Take the permit for a thread in the background, if no other thread has it or wants it."""
        with self._lock:
            if self._waiting or self._owner not in (None, threading.get_ident()):
                return False
            self._take(in_background=True)
            return True

    def _take(self, *, in_background: bool) -> None:
        self._owner, self._is_in_background = threading.get_ident(), in_background
        self._depth += 1

    @property
    def is_wanted(self) -> bool:
        """True if another thread waits for the permit."""
        return self._waiting > 0

    def release(self) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                if self._waiting:
                    self._changed.notify_all()

    def notify(self) -> None:
        """Let the waiting threads look at their futures."""
        if self._waiting:
            with self._lock:
                self._changed.notify_all()

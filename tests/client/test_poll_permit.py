"""The locks of a client when a signal interrupts them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kcli.client import poll_permit
from kcli.client.poll_permit import FairLock, PollPermit

FILES = {poll_permit.__file__, threading.__file__}


class Interruption:
    """Raise KeyboardInterrupt at one call or return of the locks' code, where Python does it for a signal."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame: FrameType, event: str, _: Any) -> Interruption | None:
        if frame.f_code.co_filename not in FILES:
            return None
        if event in ("call", "return"):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def use_lock(lock: FairLock) -> None:
    with lock:
        pass


def use_permit(permit: PollPermit) -> None:
    if permit.acquire(lambda: False, lambda: 0.0):
        permit.release()


@pytest.mark.parametrize(("make", "use"), [(FairLock, use_lock), (PollPermit, use_permit)])
def test_a_signal_at_any_moment_leaves_the_locks_usable(
    make: Callable[[Callable[[], None]], Any], use: Callable[[Any], None]
) -> None:
    """A Ctrl-C during a poll left the lock acquired, and `close` waited for it without end."""
    interrupted = []

    def poll_and_close(lock: Any, interruption: Interruption) -> None:
        sys.settrace(interruption)
        try:
            use(lock)
        except KeyboardInterrupt:
            interrupted.append(interruption)
        finally:
            sys.settrace(None)
        use(lock)

    moment = 0
    while len(interrupted) == moment:
        moment += 1
        lock = make(lambda: None)
        for used in (lambda lock=lock, n=moment: poll_and_close(lock, Interruption(n)), lambda lock=lock: use(lock)):
            thread = threading.Thread(target=used, daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive(), f"interrupted at event {moment}"
    assert moment > 4

"""Time limits for the waits of tests: a wait without an end fails instead, and says what was awaited.

The limits are generous, because the machine may be slow and shared.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

LIMIT_S = 120.0


class Limit:
    """The time limit of a loop: `while not is_there(): limit.check()`."""

    def __init__(self, awaited: str, seconds: float = LIMIT_S) -> None:
        """`awaited` is what the loop waits for, in the words of the failure."""
        self._awaited, self._seconds = awaited, seconds
        self._deadline = time.monotonic() + seconds

    def check(self) -> None:
        """Fail if the time is over."""
        assert time.monotonic() < self._deadline, f"not within {self._seconds:g} s: {self._awaited}"


@contextlib.contextmanager
def killed_after(process: subprocess.Popen[Any], awaited: str, seconds: float = LIMIT_S) -> Iterator[None]:
    """Kill the process and fail if the block takes longer: a read from its pipe ends when the process ends."""
    expired = threading.Event()

    def kill() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if expired.is_set():
            raise AssertionError(f"not within {seconds:g} s: {awaited}; the process was killed")


def read_line(process: subprocess.Popen[Any], awaited: str, seconds: float = LIMIT_S) -> Any:
    """Return the next line of the standard output of a process; empty at its end. Kill it and fail after `seconds`."""
    assert process.stdout is not None
    with killed_after(process, awaited, seconds):
        return process.stdout.readline()


def join(thread: threading.Thread, seconds: float = LIMIT_S) -> None:
    """Wait for the end of a thread. Fails after `seconds`."""
    thread.join(seconds)
    assert not thread.is_alive(), f"not within {seconds:g} s: the end of {thread}"

"""The load of the machine, for tests whose limits hold only when a process has a core of its own."""

from __future__ import annotations

import time


def slowness(work_s: float = 0.2) -> float:
    """Return the current slowdown factor: 1 when a process has a core of its own."""
    began, worked = time.monotonic(), time.thread_time()
    while time.thread_time() - worked < work_s:
        pass
    return (time.monotonic() - began) / work_s


def wait_for_a_quiet_moment(at_most_s: float = 60) -> None:
    """Wait until a core is free, or until the time is over."""
    deadline = time.monotonic() + at_most_s
    while slowness() >= 1.5 and time.monotonic() < deadline:
        time.sleep(1)

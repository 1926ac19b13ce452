"""How busy the machine is: for tests whose limits hold only where a process has a core for itself."""

from __future__ import annotations

import time


def slowness(work_s: float = 0.2) -> float:
    """By how much everything takes longer at the moment: 1 where a process has a core for itself."""
    began, worked = time.monotonic(), time.thread_time()
    while time.thread_time() - worked < work_s:
        pass
    return (time.monotonic() - began) / work_s


def wait_for_a_quiet_moment(at_most_s: float = 60) -> None:
    """Until there is a core for us, or the time is over: then it was never quiet."""
    deadline = time.monotonic() + at_most_s
    while slowness() >= 1.5 and time.monotonic() < deadline:
        time.sleep(1)

"""Run a command to its end and tell its wall time, CPU time and peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple


class Measured(NamedTuple):
    """Seconds of wall clock, seconds of user plus system CPU, and peak resident memory in MB (10^6 bytes)."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(command: list[str], output: Path, folder: Path) -> Measured:
    """Run in `folder` with stdout to `output`; a command that fails ends the bench with its words.

    The kernel counts the memory of the process that forks as the child's until it has become the command:
    so the process that measures has to stay smaller than what it measures.
    """
    errors = output.with_suffix(".stderr")
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        started = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=folder)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}:\n{errors.read_text()[-2000:]}")
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)

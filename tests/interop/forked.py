"""kcli runs with their output in files, forked from the preloaded server (`tests.preloaded`)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.preloaded import KcliProcess


class Forker:
    """Starts kcli processes by id. Those that still run when the block ends are killed."""

    def __init__(self) -> None:
        self._processes: dict[int, KcliProcess] = {}

    def __enter__(self) -> Forker:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()

    def start(self, argv: list[str], file: Path, *, append: bool = False) -> int:
        """Run `kcli argv...` with its output in a file and its errors in `file.stderr`; return its process id.

        `append`: as the shell's `>>` instead of `>`.
        """
        mode = "ab" if append else "wb"
        with open(os.devnull) as nothing, file.open(mode) as out, file.with_suffix(".stderr").open("wb") as err:
            process = KcliProcess(argv, stdin=nothing.fileno(), stdout=out.fileno(), stderr=err.fileno())
        self._processes[process.pid] = process
        return process.pid

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal, unless the process has ended."""
        self._processes[pid].send_signal(number)

    def wait(self, pid: int, timeout_s: float = 60) -> int:
        """Return the exit status, negative for a signal. The process is killed after `timeout_s`."""
        process = self._processes[pid]
        if not process.ended_within(timeout_s):
            process.kill()
        status = process.wait()
        del self._processes[pid]
        return status

"""kcli processes without the start of Python and the imports, which take longer than most runs.

One server process per pytest worker (`preloaded_server`) has imported kcli and forks a process for each run. Such a
process differs from a real one only in the start of Python, which tests/cli/test_process.py and
tests/cli/broker/test_run.py cover.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_START_LIMIT_S = 120  # the server imports kcli before the first process


class Ended(NamedTuple):
    """The end of a process: its exit status (negative for a signal) and its peak resident memory in KiB."""

    status: int
    peak_kb: int


class KcliProcess:
    """A running kcli with the methods of `subprocess.Popen`. It is killed when the process that started it dies."""

    def __init__(self, arguments: Sequence[str], *, stdin: int, stdout: int, stderr: int, cwd: Path = ROOT) -> None:
        """Run `kcli arguments...` on these open files, in a new session, with the current environment."""
        self._answers, theirs = socket.socketpair()
        task = {"argv": list(arguments), "environ": dict(os.environ), "cwd": str(cwd)}
        with theirs:
            socket.send_fds(_server(os.getpid()), [json.dumps(task).encode()], [stdin, stdout, stderr, theirs.fileno()])
        self._received = b""
        self._ended: Ended | None = None
        self.pid = int(self._line(_START_LIMIT_S))

    def _line(self, timeout_s: float | None) -> str:
        """Return the next line of the server. Raises TimeoutExpired after `timeout_s`."""
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._received:
            left_s = None if timeout_s is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], left_s)[0]:
                raise subprocess.TimeoutExpired("kcli", timeout_s or 0)
            received = self._answers.recv(1024)
            assert received, "the preloaded server has ended"
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def end(self, timeout_s: float | None = None) -> Ended:
        """Wait for the end of the process. Raises TimeoutExpired after `timeout_s`."""
        if self._ended is None:
            status, peak_kb = map(int, self._line(timeout_s).split())
            self._ended = Ended(status, peak_kb)
            self._answers.close()
        return self._ended

    @property
    def returncode(self) -> int | None:
        """The exit status seen by the last `poll` or `wait`; None if it was still running."""
        return self._ended.status if self._ended else None

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        self.ended_within(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises TimeoutExpired after `timeout` seconds."""
        return self.end(timeout).status

    def ended_within(self, timeout_s: float) -> bool:
        """Wait for the end; False if the process still runs after `timeout_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.end(timeout_s)
        return self._ended is not None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _server(_owner: int) -> socket.socket:
    """Return the socket to the preloaded server of this process; start the server first if necessary."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.preloaded_server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        server.wait(30)

    atexit.register(end)
    return ours

"""kcli as a process, as a user would run it: to its end with status and peak memory, or in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
KCLI = (sys.executable, "-m", "kcli")
LAUNCHER = (sys.executable, "-I", "-S", str(ROOT / "tests" / "launcher.py"))


class Finished(NamedTuple):
    """How a run ended. `peak_mb` is in 10^6 bytes of resident memory."""

    status: int
    out: bytes
    err: str
    peak_mb: float

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines()


def kcli(*arguments: str, stdin: bytes = b"", timeout_s: float = 90) -> Finished:
    """Run `kcli arguments...` to its end. One that does not end is killed, and the test fails."""
    with tempfile.NamedTemporaryFile() as costs:
        command = [*LAUNCHER, costs.name, *KCLI, *arguments]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(stdin, timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"kcli {' '.join(arguments)} hung: {err.decode()}") from None
        return Finished(process.returncode, out, err.decode(), int(costs.read().split()[2]) * 1024 / 1e6)


@contextlib.contextmanager
def kcli_running(*arguments: str, stdout: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kcli arguments...` in the background with its stdout in a file; killed at the end if it still runs."""
    with stdout.open("wb") as out, stdout.with_suffix(".stderr").open("wb") as err:
        process = subprocess.Popen([*KCLI, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_lines(file: Path, count: int, process: subprocess.Popen[bytes], timeout_s: float = 60) -> list[bytes]:
    """The lines of a growing file once there are `count` of them; fails when the writer ends or time is over."""
    deadline = time.monotonic() + timeout_s
    while len(lines := file.read_bytes().splitlines()) < count:
        told = file.with_suffix(".stderr").read_text()
        assert process.poll() is None, f"kcli ended with {process.returncode} after {len(lines)} lines: {told}"
        assert time.monotonic() < deadline, f"{len(lines)} of {count} lines came: {told}"
        time.sleep(0.05)
    return lines

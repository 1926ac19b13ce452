"""kcli as a process, as a user runs it: to its end with status and peak memory, or in the background."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.preloaded import KcliProcess

ROOT = Path(__file__).parent.parent.parent
KCLI = (sys.executable, "-m", "kcli")


class Finished(NamedTuple):
    """The end of a run. `peak_mb` is resident memory in units of 10^6 bytes."""

    status: int
    out: bytes
    err: str
    peak_mb: float

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines()


def kcli(*arguments: str, stdin: bytes = b"", timeout_s: float = 90) -> Finished:
    """Run `kcli arguments...` to its end. A run that does not end is killed, and the test fails."""
    pipes = [os.pipe() for _ in range(3)]
    (read_in, write_in), (read_out, write_out), (read_err, write_err) = pipes
    try:
        process = KcliProcess(arguments, stdin=read_in, stdout=write_out, stderr=write_err)
    finally:
        for end in (read_in, write_out, write_err):
            os.close(end)
    hung = threading.Event()

    def stop() -> None:
        hung.set()
        process.kill()

    timer = threading.Timer(timeout_s, stop)
    timer.start()
    with ThreadPoolExecutor(2) as pool, open(read_out, "rb") as out_pipe, open(read_err, "rb") as err_pipe:
        pool.submit(_feed, write_in, stdin)
        err = pool.submit(err_pipe.read)
        out = out_pipe.read()
        stderr = err.result().decode()
    ended = process.end()
    timer.cancel()
    assert not hung.is_set(), f"kcli {' '.join(arguments)} hung: {stderr}"
    return Finished(ended.status, out, stderr, ended.peak_kb * 1024 / 1e6)


def _feed(pipe: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as stream:
        stream.write(data)


@contextlib.contextmanager
def kcli_running(*arguments: str, stdout: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `kcli arguments...` in the background with its stdout in a file. It is killed at the end of the block."""
    with stdout.open("wb") as out, stdout.with_suffix(".stderr").open("wb") as err:
        process = subprocess.Popen([*KCLI, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_lines(file: Path, count: int, process: subprocess.Popen[bytes], timeout_s: float = 60) -> list[bytes]:
    """Return the lines of a growing file when it has `count` of them. Fails if the writer ends or time runs out."""
    deadline = time.monotonic() + timeout_s
    while len(lines := file.read_bytes().splitlines()) < count:
        stderr = file.with_suffix(".stderr").read_text()
        assert process.poll() is None, f"kcli ended with {process.returncode} after {len(lines)} lines: {stderr}"
        assert time.monotonic() < deadline, f"{len(lines)} of {count} lines came: {stderr}"
        time.sleep(0.05)
    return lines

"""Supervised processes: their output, their ends, and what happens to them when the supervisor is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from kcli.cli.broker.supervisor import Process
from tests.limits import killed_after

COMMAND = [sys.executable, "-m", "tests.cli.broker.supervised"]


def test_output_and_ends_are_reported_and_a_stubborn_process_is_killed() -> None:
    """`good` is stopped with SIGSTOP before: it must still shut down in order."""
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Output and status come through two pipes, so only lines of one pipe, and the end after both, have an order.
    assert [line for line in lines if line.startswith("good: ")] == ["good: one", "good: two"]
    assert "address 127.0.0.1:1" in lines
    assert [line for line in lines if line.startswith("bad")] == [
        "bad: num.partitions: 'x' is not valid",
        "bad ended with status 2",
    ]
    assert "killed was killed by SIGKILL" in lines
    assert lines[-3:] == ["good ended with status 0", "deaf was killed by SIGKILL", "late ['deaf']"]


def test_processes_end_when_their_supervisor_is_killed() -> None:
    supervisor = subprocess.Popen([*COMMAND, "wait"], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    with killed_after(supervisor, "the process id of a child"):
        pid = next(int(line.split()[1]) for line in supervisor.stdout if line.startswith("pid "))
    os.kill(pid, 0)
    supervisor.kill()
    supervisor.wait(30)
    deadline = time.monotonic() + 30
    while _exists(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        # An orphan that has ended remains as a zombie in a container without an init process.
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_long_line_is_not_copied_again_with_each_read() -> None:
    """A node may print megabytes without a line feed, such as a traceback with a record in it."""
    reads, lines = [b"x" * 1000] * 2000 + [b"\na\nb", b"c\n", b"last", b""], list[str]()
    status_fd, other_end = os.pipe()
    process = Process("node", 1, status_fd, other_end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", lambda fd, size: reads.pop(0))
        tracemalloc.start()
        try:
            while reads:
                process.read(other_end, lambda name, line: lines.append(line))
                if len(reads) == 5:
                    assert tracemalloc.get_traced_memory()[1] < 1_000_000  # 2,000 references to one object
        finally:
            tracemalloc.stop()
    os.close(status_fd)
    assert lines == ["x" * 2_000_000, "a", "bc", "last"]
    assert process.open_fds == {status_fd}

"""The time limits of tests: a wait that does not end fails with what was awaited."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.limits import Limit, join, killed_after, read_line

WAITING = [sys.executable, "-I", "-S", "-c", "import sys; print('one', flush=True); sys.stdin.read()"]


def test_a_loop_fails_after_its_limit() -> None:
    Limit("a miracle").check()
    with pytest.raises(AssertionError, match="not within 0 s: a miracle"):
        Limit("a miracle", 0).check()


def test_a_process_that_prints_no_line_is_killed() -> None:
    with subprocess.Popen(WAITING, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert read_line(process, "the first line") == "one\n"
        with pytest.raises(AssertionError, match=r"not within 0\.05 s: the second line; the process was killed"):
            read_line(process, "the second line", 0.05)
    assert process.returncode == -9


def test_a_process_is_not_killed_after_the_block() -> None:
    with subprocess.Popen(WAITING, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        with killed_after(process, "nothing"):
            pass
        _, _ = process.communicate()
    assert process.returncode == 0


def test_a_thread_that_does_not_end_is_reported() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    with pytest.raises(AssertionError, match="the end of <Thread"):
        join(thread, 0.05)
    over.set()
    join(thread)

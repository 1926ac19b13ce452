"""The time of a TAB, from the start of `kcli __complete` to its end: `python -m tests.bench.completion [--rounds N]`.

It measures the entry-point script of a temporary installation of this tree: the values of an option, topics of a
scripted broker that are asked for and that are cached, and clusters that refuse connections, that accept them and do
not answer, and that do not even accept them (the queue of connections of the socket is full). It prints medians and the
slowest runs. The target is 200 ms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.bench.startup import ROOT, install
from tests.cli.loopback import loopback_broker

TARGET_MS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        kcli = install(ROOT, folder)
        broker = stack.enter_context(loopback_broker(topics={f"orders-{number}": 3 for number in range(100)}))
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more are not answered
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        questions = {
            "a value of an option": ("kcli topic list --output j", False),
            "topics, asked for": (f"kcli consume -b {broker.address} o", True),
            "topics, cached": (f"kcli consume -b {broker.address} o", False),
            "connection refused": ("kcli consume -b 127.0.0.1:1 o", True),
            "no answer": (f"kcli consume -b 127.0.0.1:{silent.getsockname()[1]} o", True),
            "no connection": (f"kcli consume -b 127.0.0.1:{full.getsockname()[1]} o", True),
            "no answer, again": (f"kcli consume -b 127.0.0.1:{silent.getsockname()[1]} o", False),
        }
        for title, (line, is_first) in questions.items():
            report(title, *run(kcli, line, folder, options.rounds, is_first=is_first))


def run(kcli: list[str], line: str, home: Path, rounds: int, *, is_first: bool) -> tuple[list[float], int]:
    """Return the wall-clock milliseconds of each round, and the rounds with an answer. `is_first`: without a cache."""
    environ = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    times, answered = [], 0
    for number in range(rounds + 1):
        if is_first:
            shutil.rmtree(home / "cache", ignore_errors=True)
        began = time.monotonic()
        done = subprocess.run([*kcli, "__complete", "bash"], input=line, env=environ, capture_output=True, text=True)
        if number:
            times.append((time.monotonic() - began) * 1000)
            answered += len(done.stdout.splitlines()) > 1
        assert (done.returncode, done.stderr) == (0, "")
        if is_first:
            time.sleep(0.3)  # the child process of this round may still work
    return times, answered


def report(title: str, times: list[float], answered: int) -> None:
    missed = "" if max(times) < TARGET_MS else "   target missed"
    median = statistics.median(times)
    print(f"{title:22} {median:6.1f} ms   max {max(times):6.1f}   answered {answered} of {len(times)}{missed}")


if __name__ == "__main__":
    main()

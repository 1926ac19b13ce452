"""kcli as processes that need not start Python and import numpy each time, which takes longer than most runs do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.interop.process import ROOT


class Forker:
    """Starts kcli as often as one likes; see `forker.py`. Ended with its processes when the block is left."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.interop.forker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._read() == "ready"

    def __enter__(self) -> Forker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def start(self, argv: list[str], file: Path) -> int:
        """Run `kcli argv...` with its output in a file, errors beside it; returns its process id."""
        return int(self._ask({"argv": argv, "stdout": str(file), "stderr": str(file.with_suffix(".stderr"))}))

    def wait(self, pid: int, timeout_s: float = 60) -> int:
        """Its exit status, negative for a signal; killed when it takes too long."""
        hung = threading.Timer(timeout_s, os.kill, (pid, signal.SIGKILL))
        hung.start()
        try:
            return int(self._ask({"wait": pid}))
        finally:
            hung.cancel()

    def _ask(self, task: dict[str, object]) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

"""A Java application in its own process, which tests kill and start again."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.real_kafka import VERSION, _logging, die_with_parent

_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaProcess:
    """The main class and arguments of an application, and its process while it runs.

    All processes append what they print to `log_file`.
    """

    def __init__(self, class_path: str, arguments: Sequence[str], log_file: Path) -> None:
        self.log_file = log_file
        self._command = ["java", *_JVM, *_logging(VERSION, "warn"), "-cp", class_path, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def kill(self) -> bool:
        """Send SIGKILL and wait for the end of the process. False if none runs."""
        process, self._process = self._process, None
        if process is None:
            return False
        process.kill()
        process.wait()
        return True

    def stop(self, timeout_s: float) -> None:
        """Send SIGTERM and wait for the end of the process."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout_s)
        self._process = None

    def log_end(self) -> str:
        """Return the last 4000 characters of the log."""
        return self.log_file.read_text(errors="replace")[-4000:]

"""Kafka's tools in one JVM that lives as long as this process, because most tools take less time than a JVM's start."""

from __future__ import annotations

import atexit
import functools
import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.java_driver import compiled

SOURCE = Path(__file__).parent / "KafkaTools.java"
_OF_A_CLIENT = re.compile(r"\[[^]]+\] WARN \[\w+ clientId=.*\(/?([\d.]+:\d+)\) could not be established")


class JavaTools:
    """The shared JVM. It starts on first use, and again after a tool that hung; it ends with this process."""

    def __init__(self, jars: Path, command: Sequence[str]) -> None:
        """`command` is the JVM with its options."""
        self._jars = jars
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._lock = threading.Lock()

    def run(self, tool: str, words: Sequence[str], stdin: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Call the `main` of a class. Raises TimeoutExpired after `timeout_s`, AssertionError if the JVM ended."""
        question = {"tool": tool, "words": list(words), "stdin": stdin}
        with self._lock:
            process = self._process = self._process or self._start()
            assert process.stdin
            assert process.stdout
            hung = threading.Event()
            timer = threading.Timer(timeout_s, lambda: (hung.set(), process.kill()))
            timer.start()
            try:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            finally:
                timer.cancel()
            if not line:
                self._process = None
                process.wait()
                if hung.is_set():
                    raise subprocess.TimeoutExpired([tool, *words], timeout_s)
                self._stderr.seek(0)
                raise AssertionError(f"the JVM of {tool} ended with {process.returncode}:\n{self._stderr.read()}")
        answer = json.loads(line)
        stderr = own_warnings(answer["stderr"], words)
        return subprocess.CompletedProcess([tool, *words], answer["status"], answer["stdout"], stderr)

    def close(self) -> None:
        """End the JVM."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        path = f"{self._jars}/*:{compiled(SOURCE, self._jars)}"  # the class-data archive requires the jars first
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._command, "-cp", path, SOURCE.stem],
            stdin=pipe,
            stdout=pipe,
            stderr=self._stderr,
            encoding="utf-8",
            start_new_session=True,
        )


def own_warnings(stderr: str, words: Sequence[str]) -> str:
    """Return the text without warnings of other tools' clients: tools leave clients open, and these report that they
    cannot reach brokers that the arguments `words` do not name."""
    lines = stderr.splitlines(keepends=True)
    found = [(line, _OF_A_CLIENT.match(line)) for line in lines]
    return "".join(line for line, match in found if match is None or any(match[1] in word for word in words))


@functools.cache
def java_tools(jars: Path, command: tuple[str, ...]) -> JavaTools:
    """Return the JVM that all tests of this process share."""
    tools = JavaTools(jars, command)
    atexit.register(tools.close)
    return tools

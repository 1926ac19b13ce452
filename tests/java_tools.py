"""Kafka's own tools in a JVM that stays for as long as this process: most of them take less time than a JVM's start."""

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
    """The JVM. It is started when it is first needed, and again after a tool that hung; it ends with this process."""

    def __init__(self, jars: Path, command: Sequence[str]) -> None:
        """`command` is a JVM with its options."""
        self._jars = jars
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._one_at_a_time = threading.Lock()

    def run(self, tool: str, words: Sequence[str], stdin: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Call the `main` of a class. TimeoutExpired when it takes too long; AssertionError when the JVM ended."""
        question = {"tool": tool, "words": list(words), "stdin": stdin}
        with self._one_at_a_time:
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
                self._complaints.seek(0)
                raise AssertionError(f"the JVM of {tool} ended with {process.returncode}:\n{self._complaints.read()}")
        answer = json.loads(line)
        complaints = without_others(answer["stderr"], words)
        return subprocess.CompletedProcess([tool, *words], answer["status"], answer["stdout"], complaints)

    def close(self) -> None:
        """End the JVM."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        path = f"{self._jars}/*:{compiled(SOURCE, self._jars)}"  # the archive of classes begins with the jars
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._command, "-cp", path, SOURCE.stem],
            stdin=pipe,
            stdout=pipe,
            stderr=self._complaints,
            encoding="utf-8",
            start_new_session=True,
        )


def without_others(complaints: str, words: Sequence[str]) -> str:
    """Without what clients of earlier tools, which those have not closed, say of brokers that these words do not name:
    that they are gone."""
    lines = complaints.splitlines(keepends=True)
    found = [(line, _OF_A_CLIENT.match(line)) for line in lines]
    return "".join(line for line, it in found if it is None or any(it[1] in word for word in words))


@functools.cache
def java_tools(jars: Path, command: tuple[str, ...]) -> JavaTools:
    """The JVM that all tests of this process share."""
    tools = JavaTools(jars, command)
    atexit.register(tools.close)
    return tools

"""Transactional producers of foreign clients as processes with one interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.foreign import node_with, python_with
from tests.java_driver import compiled
from tests.limits import read_line
from tests.real_kafka import TOOL_JVM, VERSION, Kafka, _logging, archived_tool, die_with_parent

HERE = Path(__file__).parent
JAVA = HERE / "TransactionalClient.java"
CLIENTS = ("java", "confluent-kafka", "kafka-python", "aiokafka", "kafkajs")


class ClientError(Exception):
    """An error of a foreign client; `name` is its class or its code."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Client:
    """A process with producers and consumers of one client, by name. Methods are the `do` of its orders."""

    def __init__(self, library: str, kafka: Kafka) -> None:
        self.library = library
        self._process = subprocess.Popen(
            _command(library, kafka),
            env={**os.environ, "NODE_PATH": str(node_with("kafkajs@2.2.4"))} if library == "kafkajs" else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=die_with_parent,
        )

    def __call__(self, do: str, name: str = "p", **more: Any) -> dict[str, Any]:
        """Give an order and return its result. Raises ClientError."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": do, "name": name, **more}) + "\n")
        self._process.stdin.flush()
        line = read_line(self._process, f"the answer of {self.library} to {do}", 180)
        assert line, f"{self.library}: the process has ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"], answer["message"])
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _command(library: str, kafka: Kafka) -> list[str]:
    if library == "java":
        jars = kafka.jars
        flags = [*TOOL_JVM, *archived_tool(jars, VERSION), *_logging(VERSION, "error")]
        return ["java", *flags, "-cp", f"{jars}/*:{compiled(JAVA, jars)}", JAVA.stem]
    if library == "kafkajs":
        return ["node", str(HERE / "kafkajs_client.js")]
    python = python_with("aiokafka==0.14.0") if library == "aiokafka" else Path(sys.executable)
    return [str(python), str(HERE / "python_client.py"), library]

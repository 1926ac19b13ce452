"""The real Kafka that other tests rely on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_kafka import Kafka, KafkaNode, KafkaUnavailable, answers, fetch_jars, pom


def test_java_tools_write_and_read_a_new_topic(real_kafka: Kafka) -> None:
    topic = real_kafka.new_topic(partitions=2)
    to = ("--bootstrap-server", real_kafka.bootstrap_servers, "--topic", topic)
    real_kafka.tool("ConsoleProducer", *to, stdin="one\ntwo\n")
    read = real_kafka.tool("ConsoleConsumer", *to, "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
    assert sorted(read.stdout.split()) == ["one", "two"]


def test_the_error_of_a_failing_tool_holds_its_output(real_kafka: Kafka) -> None:
    with pytest.raises(AssertionError, match="nosuch"):
        real_kafka.tool(
            "TopicCommand", "--bootstrap-server", real_kafka.bootstrap_servers, "--describe", "--topic", "nosuch"
        )


def test_a_killed_kafka_restarts_with_its_topics(own_kafka: Callable[..., KafkaNode]) -> None:
    node = own_kafka()
    node.create_topic("kept", partitions=3)
    node.kill()
    assert not answers(node.port)
    node.start()
    listed = node.tool("TopicCommand", "--bootstrap-server", node.bootstrap_servers, "--list")
    assert "kept" in listed.stdout.split()


def test_a_broker_ends_with_the_process_that_started_it(kafka_jars: Path, tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from tests.real_kafka import KafkaNode\n"
        "node = KafkaNode(Path(sys.argv[1]), Path(sys.argv[2])); node.start()\n"
        "print(node.port, flush=True); os.kill(os.getpid(), 9)\n"
    )
    here = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "node"), str(kafka_jars)],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -9
    port = int(done.stdout)
    deadline = time.monotonic() + 30
    while answers(port):
        assert time.monotonic() < deadline, f"the broker on port {port} outlived its starter"


def test_the_reason_names_a_missing_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KafkaUnavailable, match="java"):
        fetch_jars()


def test_only_kafka_4_needs_a_logging_library() -> None:
    assert "log4j-slf4j-impl" in pom("4.3.1")
    assert "log4j-slf4j-impl" not in pom("3.9.2")

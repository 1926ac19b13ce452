"""Standard output on a full disk, or a closed pipe, after a change: the change is made, and is not hidden."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_kafka import Kafka

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")

FULL = "kcli: standard output: No space left on device; "


@pytest.fixture
def kcli(any_kafka: Kafka, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command line with its standard output on a full disk, or in a closed pipe."""

    def run(*words: str, stdin: str = "", closed: bool = False) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "kcli", *words]
        at = "--bootstrap-server" if words[0] == "compat" else "-b"
        environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        reader, writer = os.pipe()
        os.close(reader)
        with open("/dev/full", "w") as full, open(writer, "w") as pipe:
            return subprocess.run(
                [*line, at, any_kafka.bootstrap_servers], input=stdin, text=True, timeout=120, env=environ,
                stdout=pipe if closed else full, stderr=subprocess.PIPE,
            )  # fmt: skip

    return run


def test_a_full_disk_does_not_hide_a_change(
    any_kafka: Kafka, kcli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name()
    created = f"{topic}-created"

    def said(*words: str, stdin: str = "") -> str:
        done = kcli(*words, stdin=stdin)
        assert done.returncode == 1, done.stderr
        return done.stderr

    apache = ("compat", "consumer-groups", "--group", group)
    reset = ("--topic", topic, "--to-earliest", "--execute")
    assert f"{FULL}3 records stored\n" in said("produce", topic, "-O", "json", stdin="a\nb\nc\n")
    assert f"{FULL}created: {created}\n" in said("topic", "create", created, "-p", "1")
    assert f"{FULL}altered: {created} partitions\n" in said("topic", "alter", created, "--partitions", "2", "--execute")
    assert "1 partition moved" in said("offsets", "reset", group, *reset, "-O", "json")
    assert f"{FULL}committed: {group} {topic}-0\n" in said(*apache, "--reset-offsets", *reset)
    assert f"{FULL}deleted: {topic}-0\n" in said(*apache, "--delete-offsets", "--topic", topic)
    assert "1 partition moved" in said("offsets", "reset", group, *reset, "-O", "json")
    assert f"{FULL}deleted: {group}\n" in said("group", "delete", group, "--execute")
    assert f"{FULL}nothing was truncated" in said("topic", "truncate", topic, "--before", "end")
    assert f"{FULL}truncated: {topic}-0\n" in said("topic", "truncate", topic, "--before", "end", "--execute")
    assert f"{FULL}deleted: {created}\n" in said("topic", "delete", created, "--execute", "--yes")


def test_a_reset_that_cannot_be_shown_is_not_made(
    any_kafka: Kafka, kcli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    topic = any_kafka.new_topic()
    done = kcli("offsets", "reset", f"{topic}-group", "--topic", topic, "--to-earliest", "--execute")
    assert done.returncode == 4
    assert "cannot show the plan: No space left on device; nothing was written" in done.stderr


def test_a_closed_pipe_does_not_hide_a_failure(
    any_kafka: Kafka, kcli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    topic = any_kafka.new_topic()
    assert kcli("topic", "create", topic, "-p", "1", closed=True).returncode == 1  # it exists
    assert kcli("topic", "delete", f"{topic}-absent", "--execute", "--yes", closed=True).returncode == 3
    assert kcli("topic", "delete", topic, "--execute", "--yes", closed=True).returncode == 0

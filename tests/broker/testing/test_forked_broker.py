"""The embedded broker in a process that forks, as tests with multiprocessing do: the child leaves it alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcli import Producer
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.errors import KcliError
from tests.children import idle_child, in_child


def test_a_broker_restarts_while_a_child_lives() -> None:
    with EmbeddedBroker() as broker, idle_child():
        broker.restart()
        assert broker.is_running


def test_a_child_leaves_the_broker_of_its_parent_alone() -> None:
    with EmbeddedBroker() as broker:
        topic = broker.create_topic("t")

        def end() -> bool:
            with pytest.raises(KcliError, match="not running"):
                broker.create_topic("u")
            broker.stop()
            broker.kill()
            broker.close()
            return broker.is_running

        assert in_child(end) is False
        assert broker.is_running
        assert list(broker.topics) == [topic]
        assert Path(broker.data_dir, "t-0").is_dir()
        with Producer(bootstrap_servers=broker.address) as producer:
            producer.send(topic, b"v")


def test_the_end_of_a_child_removes_no_data_of_the_broker_of_its_parent() -> None:
    """`sys.exit` in a child runs the finalizers that the parent has registered."""
    program = """
import os, sys
from kcli.broker.testing.embedded import EmbeddedBroker
with EmbeddedBroker() as broker:
    if os.fork() == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
    assert broker.data_dir.is_dir(), "removed"
    broker.restart()
assert not broker.data_dir.exists(), "not removed"
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

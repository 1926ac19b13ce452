"""EmbeddedBroker: start, stop, kill, close, and failures of its loop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.broker import Broker
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.errors import BrokerError, ConfigError, KcliError

Loops = Callable[[], list[threading.Thread]]


@pytest.fixture
def loops() -> Loops:
    """The loop threads of brokers that the test started; fixtures of the session have brokers, too."""
    before = set(threading.enumerate())
    return lambda: [it for it in threading.enumerate() if it.name == "kcli-broker" and it not in before]


def test_address_is_known_after_the_first_start(loops: Loops) -> None:
    broker = EmbeddedBroker()
    with pytest.raises(ValueError, match="no address before its first start"):
        _ = broker.address
    with broker:
        host, port = broker.address.split(":")
        socket.create_connection((host, int(port)), 5).close()
        with pytest.raises(ValueError, match="is already running"):
            broker.start()
        assert len(loops()) == 1
    assert not broker.is_running
    assert loops() == []
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), 5)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_topics_and_port_survive_stop_and_kill(end: str, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker:
        address = broker.address
        assert broker.create_topic("t", 3, {"retention_ms": 1_000}) == "t"
        getattr(broker, end)()
        getattr(broker, end)()  # no-op
        with pytest.raises(KcliError, match="is not running"):
            _ = broker.topics
        broker.start()
        assert (broker.topics, broker.address) == ({"t": 3}, address)
        assert broker.call(lambda inner: inner.cluster.topic_configs("t")) == {"retention.ms": "1000"}
    assert (tmp_path / "data" / "t-0").is_dir()  # a given directory is kept
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_kill_leaves_no_clean_shutdown_marker(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.kill()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_invalid_calls_raise_the_errors_of_a_client() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t")
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
            broker.create_topic("t")
        with pytest.raises(ValueError, match="not the name of an API"):
            broker.intercept("Prodouce", lambda request, context: None)


def test_misspelt_setting_raises_and_removes_the_directory(loops: Loops) -> None:
    broker = EmbeddedBroker(num_partitoins=3)
    with pytest.raises(ConfigError, match=r"num\.partitions"), broker:
        pass
    assert not broker.data_dir.exists()
    assert loops() == []


def test_second_broker_on_a_directory_fails(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as first:
        with pytest.raises(KcliError, match=r"\.lock|in use|another"), EmbeddedBroker(tmp_path):
            pass
        assert first.is_running
        first.create_topic("still-works")


def test_failure_of_the_loop_is_raised_by_close(loops: Loops) -> None:
    broker = EmbeddedBroker()
    broker.start()

    def break_it(inner: Broker) -> None:
        def broken(timeout_ms: float) -> Any:
            raise RuntimeError("a bug")

        inner.server.poll = broken  # type: ignore[method-assign]

    [loop] = loops()
    broker.call(break_it)
    loop.join(10)
    assert "failed" in repr(broker)
    with pytest.raises(KcliError, match="is not running"):
        broker.create_topic("t")
    with pytest.raises(KcliError, match="a bug"):
        broker.close()
    assert not broker.data_dir.exists()

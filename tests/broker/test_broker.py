"""Broker: start, loop, calls from other threads, failures, and shutdown."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.broker import Broker, BrokerFailed
from kcli.broker.config import BrokerConfig
from kcli.errors import ConfigError, KcliError
from tests.broker.single_broker import Changing
from tests.broker.wire import Wire, fetch


def make(folder: Path, logged: list[str] | None = None, **settings: str) -> Broker:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    own = {"log.dirs": str(folder / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    return Broker(BrokerConfig.from_properties({**own, **properties}), log=([] if logged is None else logged).append)


class Served:
    """A broker whose loop runs in a thread until `end`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.leave = threading.Event()
        self.failure: BaseException | None = None
        broker.start()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.broker.run(self.leave.is_set)
        except BaseException as failure:
            self.failure = failure

    def end(self, *, clean: bool = True) -> None:
        self.leave.set()
        self.broker.wakeup()
        self.thread.join(10)
        self.broker.shutdown(clean=clean)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(logged: list[str] | None = None, **settings: str) -> Served:
        running.append(Served(make(tmp_path, logged, **settings)))
        return running[-1]

    yield start
    for one in running:
        if one.thread.is_alive():
            one.end(clean=False)


def test_records_survive_a_clean_shutdown_and_a_kill(serve: Callable[..., Served], tmp_path: Path) -> None:
    logged: list[str] = []
    for round, clean in enumerate([True, False, True]):
        served = serve(logged)
        served.broker.call(
            lambda broker=served.broker: broker.cluster.topics.get("t") or broker.alone.create_topic("t")  # type: ignore[misc]
        )
        with Wire(served.broker.address) as wire:
            (partition,) = wire.ask(fetch("t"), 11).responses[0].partitions
            assert partition.high_watermark == round
            assert wire.produce("t", b"one more") == 0
            served.end(clean=clean)
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() == clean


def test_call_runs_in_the_loop_thread(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.broker.call(threading.get_ident) == served.thread.ident
    with pytest.raises(ZeroDivisionError):
        served.broker.call(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    nested = served.broker.call(lambda: served.broker.call(lambda: "from the loop itself"))
    assert nested == "from the loop itself"


def test_call_times_out_when_the_loop_is_blocked(serve: Callable[..., Served]) -> None:
    served = serve()
    served.broker.call(lambda: None)
    held = threading.Event()
    served.broker._calls.add(lambda: held.wait(10) and None)  # type: ignore[arg-type,return-value]
    served.broker.wakeup()
    with pytest.raises(KcliError, match="did not run the call"):
        served.broker.call(lambda: None, timeout_s=0.1)
    held.set()


def test_exception_in_a_due_task_is_logged_and_the_loop_continues(serve: Callable[..., Served]) -> None:
    logged: list[str] = []
    served = serve(logged)
    broker = served.broker

    def fail() -> None:
        raise KeyError("oops")

    done = threading.Event()
    broker.call(lambda: [broker.timer.call_at(broker.clock.now_ms(), one) for one in (fail, done.set)])
    assert done.wait(5)
    assert logged == ["a due task failed: KeyError: 'oops'"]


def test_failed_maintenance_is_not_retried_immediately(serve: Callable[..., Served]) -> None:
    logged: list[str] = []
    served = serve(logged)
    broker = served.broker
    ran: list[int] = []

    def fail(*_: Any) -> float:
        ran.append(1)
        raise RuntimeError("oops")

    def inject_fault() -> None:
        broker.offsets.tick = fail  # type: ignore[method-assign]
        broker._maintenance_due_ms = 0.0

    broker.call(inject_fault)
    for _ in range(50):
        broker.call(lambda: None)
    assert (len(ran), len(logged)) == (1, 1)


def test_calls_that_never_end_do_not_keep_the_loop_from_due_tasks(serve: Callable[..., Served]) -> None:
    broker, done, deadline = serve().broker, threading.Event(), time.monotonic() + 5

    def again() -> None:
        if not done.is_set() and time.monotonic() < deadline:
            broker.post(again)

    broker.call(lambda: (broker.timer.call_at(broker.clock.now_ms(), done.set), broker.post(again)))
    assert done.wait(60)
    assert time.monotonic() < deadline


def test_failed_directory_stops_the_loop_after_the_answer_is_sent(serve: Callable[..., Served]) -> None:
    served = serve()
    served.broker.call(lambda: served.broker.alone.create_topic("t"))

    def no_space(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    def inject_fault() -> None:
        for partition in served.broker.replica_manager.partitions.values():
            partition.log.append = no_space  # type: ignore[method-assign,assignment]

    served.broker.call(inject_fault)
    with Wire(served.broker.address) as wire:
        assert wire.produce("t", b"lost") == 56
    served.thread.join(5)
    assert isinstance(served.failure, BrokerFailed)
    assert "No space left" in str(served.failure)
    served.broker.shutdown(clean=False)


def test_disconnect_during_a_long_poll_removes_the_delayed_fetch(serve: Callable[..., Served]) -> None:
    served = serve()
    broker = served.broker
    broker.call(lambda: broker.alone.create_topic("t"))
    with Wire(broker.address) as wire:
        wire.request(fetch("t", max_wait_ms=300), 11)
        until(lambda: broker.call(lambda: broker.replica_manager.fetches.watched) == 1)
    until(lambda: broker.call(lambda: len(broker.server.quotas)) == 0)
    assert broker.call(lambda: (broker.replica_manager.fetches.watched, len(broker.timer))) == (0, 0)


def until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_failed_start_leaves_nothing_open(tmp_path: Path) -> None:
    logged: list[str] = []
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "kcli-topics.json").write_text("garbage")
    broken = make(tmp_path, logged)
    with pytest.raises(ConfigError, match=r"kcli-topics\.json"):
        broken.start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broken.port))
    (tmp_path / "data" / "kcli-topics.json").unlink()
    mended = make(tmp_path)
    mended.start()
    mended.shutdown()


def test_start_without_data_directory_raises() -> None:
    broker = Broker(BrokerConfig.from_properties({"listeners": "PLAINTEXT://127.0.0.1:0"}))
    with pytest.raises(ConfigError, match=r"log\.dirs"):
        broker.start()


def test_advertised_listener_is_the_address_for_clients(serve: Callable[..., Served]) -> None:
    served = serve(advertised_listeners="PLAINTEXT://kafka.example.org:19092")
    assert served.broker.cluster.address("PLAINTEXT") == ("kafka.example.org", 19092)


def test_ipv6_address_has_brackets(serve: Callable[..., Served]) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    served = serve(listeners="PLAINTEXT://[::1]:0")
    assert served.broker.address == f"[::1]:{served.broker.port}"
    with socket.create_connection(("::1", served.broker.port)):
        pass


@pytest.mark.parametrize("size", [-1, 40_000])
def test_connections_have_the_configured_socket_buffers(serve: Callable[..., Served], size: int) -> None:
    settings = {"socket_send_buffer_bytes": str(size), "socket_receive_buffer_bytes": str(size)}
    served = serve(**settings)
    with Wire(served.broker.address) as wire, socket.socket() as other:
        wire.ask(fetch("t"), 11)
        accepted = served.broker.call(
            lambda: socket.fromfd(_accepted(served.broker), socket.AF_INET, socket.SOCK_STREAM)
        )
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            if size > 0:
                other.setsockopt(socket.SOL_SOCKET, buffer, size)
                assert accepted.getsockopt(socket.SOL_SOCKET, buffer) == other.getsockopt(socket.SOL_SOCKET, buffer)
            else:
                assert accepted.getsockopt(socket.SOL_SOCKET, buffer) > 100_000, "left to the operating system"
        accepted.close()


def _accepted(broker: Broker) -> int:
    """Return the descriptor of the first connection."""
    channel = broker.server._selector.channel("1")
    assert channel is not None
    return channel.transport.fileno()


def test_settings_without_effect_are_logged_at_start_and_when_they_are_set(serve: Callable[..., Served]) -> None:
    logged: list[str] = []
    broker = serve(logged, num_io_threads="4", num_partitions="2", broker_session_timeout_ms="1").broker
    assert logged == ["num.io.threads, broker.session.timeout.ms have no effect in this broker"]
    broker.call(lambda: broker.alone.create_topic("t", 1, 1, {"preallocate": "true", "segment.bytes": "2000000"}))
    broker.call(
        lambda: Changing(broker.alone).set_topic_configs("t", {"preallocate": "true", "compression.lz4.level": "3"})
    )
    broker.call(
        lambda: Changing(broker.alone).set_broker_configs("", {"min.insync.replicas": "1", "log.preallocate": "true"})
    )
    with Wire(broker.address) as wire:
        wire.ask(fetch("t"), 11)
    assert logged[1:] == [
        "topic t: preallocate has no effect in this broker",
        "topic t: compression.lz4.level has no effect in this broker",
        "log.preallocate has no effect in this broker",
    ]


def test_properties_of_listeners_that_do_not_exist_are_reported(serve: Callable[..., Served]) -> None:
    logged: list[str] = []
    serve(
        logged,
        **{"listener.name.outside.ssl.key.password": "geheim", "listener.name.plaintext.ssl.client.auth": "none"},
    )
    assert logged == ["listener.name.outside.ssl.key.password: listeners has no such listener, so this has no effect"]

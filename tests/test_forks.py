"""A fork leaves the connections, the poller and the files of its parent alone, and closes its copies of them."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from kcli import Admin, Consumer, Producer, forks
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.connect import connect
from kcli.client.poll_permit import FairLock
from kcli.client.request_future import RequestFuture
from kcli.clock import SystemClock
from kcli.consumer.merged_reader import MergedReader
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.consumer.share.share_consumer import ShareConsumer
from kcli.errors import ForkedClient, KcliError
from kcli.log_place import LOG_START
from kcli.network.selector import Selector
from kcli.other_clients import METHODS
from kcli.structs import TopicPartition
from tests.children import idle_child, in_child
from tests.network.harness import Harness, SocketHarness

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with closing(SocketHarness()) as found:
        yield found


def descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/dev/fd")}


# --- connections


def test_the_parent_still_waits_for_its_connections_after_a_child_has_closed_its_copies(harness: Harness) -> None:
    """A socket that the child unregistered from its copy of an epoll would be unregistered in the parent, too."""
    peer = harness.connect("1")
    in_child(harness.selector.close_all)
    peer.deliver(b"answer")
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("1", b"answer")]


def test_a_connection_that_the_parent_closes_is_closed_while_its_child_lives(harness: Harness) -> None:
    peer = harness.connect("1")
    with idle_child():
        harness.selector.close("1")
        assert peer.is_hung_up()


@pytest.mark.parametrize("kind", ["EpollSelector", "PollSelector", "SelectSelector"])
def test_every_poller_of_a_child_is_closed_with_all_its_descriptors(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(selectors, kind):
        pytest.skip(f"this system has no {kind}")
    monkeypatch.setattr(selectors, "DefaultSelector", getattr(selectors, kind))
    before = descriptors()
    with closing(SocketHarness()) as harness:
        peer = harness.connect("1")
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        harness.selector.listen_on(listening)
        opened = descriptors() - before - {harness.listener.fileno(), peer.sock.fileno()}
        assert len(opened) >= 4  # two of the poller, one of the connection, one that listens
        assert not in_child(descriptors) & opened
        peer.deliver(b"answer")
        harness.poll_until(lambda: harness.receives)


def test_a_wakeup_of_a_child_does_not_end_a_wait_of_its_parent() -> None:
    with connect(ClientConfig.from_properties({"bootstrap.servers": NOWHERE})) as client:
        with pytest.raises(ForkedClient):
            in_child(client.wakeup)
        assert client.poll(timeout_ms=0) is False
        assert client._network._selector._poller._select.select(0) == []


# --- clients


def test_the_error_names_both_processes_and_the_cure() -> None:
    with pytest.raises(ForkedClient) as caught:
        forks.require_own_process(7)
    assert str(caught.value) == (
        f"the client was made in process 7, and cannot be used in its fork {os.getpid()}; "
        "make a new one in this process"
    )
    assert caught.value.evidence == {"made_in": 7, "used_in": os.getpid()}


def test_a_lock_that_another_thread_holds_at_the_fork_is_not_waited_for() -> None:
    lock = FairLock(lambda: None)
    held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            is_over.wait(30)

    def take() -> None:
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        with pytest.raises(ForkedClient):
            in_child(take)
    finally:
        is_over.set()
        thread.join()


def test_a_child_does_not_wait_for_the_locks_of_a_client_that_another_thread_polls() -> None:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    consumer = Consumer(bootstrap_servers=address, group_id="g")
    consumer.subscribe(["t"])
    begun = threading.Event()

    def poll() -> None:
        begun.set()
        with pytest.raises(KcliError):
            consumer.poll(60_000)

    thread = threading.Thread(target=poll)
    thread.start()
    begun.wait(30)

    def use() -> list[str]:
        found = []
        for call in (consumer.commit, lambda: consumer.poll(0), consumer.wakeup, consumer.metrics):
            with pytest.raises(ForkedClient) as caught:
                call()
            found.append(type(caught.value).__name__)
        consumer.close()
        return found

    try:
        assert in_child(use) == ["ForkedClient"] * 4
    finally:
        consumer.wakeup()
        thread.join()
        consumer.close()
        silent.close()


def own_methods(kind: type) -> set[str]:
    """The public methods and properties of a class, without the names of other clients that only give advice."""
    return (
        {name for name in dir(kind) if not name.startswith("_")}
        - METHODS.keys()
        - METHODS.get(kind.__name__, {}).keys()
    )


TP = TopicPartition("t", 0)
PRODUCER: dict[str, Any] = {
    "send": lambda producer: producer.send("t", b"v"),
    "send_many": lambda producer: producer.send_many("t", None, print, checked=True),
    "poll": lambda producer: producer.poll(0),
    "flush": lambda producer: producer.flush(),
    "transaction": lambda producer: producer.transaction().__enter__(),
    "init_transactions": lambda producer: producer.init_transactions(),
    "begin_transaction": lambda producer: producer.begin_transaction(),
    "send_offsets": lambda producer: producer.send_offsets({}, "g"),
    "commit_transaction": lambda producer: producer.commit_transaction(),
    "abort_transaction": lambda producer: producer.abort_transaction(),
    "metrics": lambda producer: producer.metrics(),
    "partitions": lambda producer: producer.partitions("t"),
    "wait_for": lambda producer: producer.wait_for(RequestFuture(), None),
}
CONSUMER: dict[str, Any] = {
    "assign": lambda consumer: consumer.assign([TP]),
    "assignment": lambda consumer: consumer.assignment,
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([TP]),
    "check_range": lambda consumer: consumer.check_range([TP]),
    "columns": lambda consumer: next(consumer.columns()),
    "commit": lambda consumer: consumer.commit(),
    "commit_async": lambda consumer: consumer.commit_async(),
    "committed": lambda consumer: consumer.committed([TP]),
    "end_offsets": lambda consumer: consumer.end_offsets([TP]),
    "group_metadata": lambda consumer: consumer.group_metadata(),
    "membership": lambda consumer: consumer.membership,
    "metrics": lambda consumer: consumer.metrics(),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({TP: 0}),
    "pause": lambda consumer: consumer.pause([TP]),
    "poll": lambda consumer: consumer.poll(0),
    "position": lambda consumer: consumer.position(TP),
    "records": lambda consumer: next(consumer.records()),
    "resume": lambda consumer: consumer.resume([TP]),
    "retry_states": lambda consumer: consumer.retry_states(),
    "seek": lambda consumer: consumer.seek(TP, 0),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning([TP]),
    "seek_to_end": lambda consumer: consumer.seek_to_end([TP]),
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "take_resets": lambda consumer: consumer.take_resets(),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "wakeup": lambda consumer: consumer.wakeup(),
}
#: What has no connection: constructors, `close`, and attributes of this process' memory.
HARMLESS = {"close", "from_config", "subscription", "awaits_transaction_end"}


def outcomes(client: Any, calls: dict[str, Any]) -> dict[str, str]:
    """Return what each call in this process ends with, and close the client, twice."""
    found = {}
    for name, call in calls.items():
        try:
            call(client)
            found[name] = "returned"
        except BaseException as error:
            found[name] = type(error).__name__
    client.close()
    client.__exit__(None, None, None)
    client.__exit__(ValueError, ValueError(), None)
    return found


def test_every_method_of_a_producer_raises_in_a_child() -> None:
    assert own_methods(Producer) - HARMLESS == PRODUCER.keys()
    with Producer(bootstrap_servers=NOWHERE, transactional_id="t") as producer:
        assert set(in_child(lambda: outcomes(producer, PRODUCER)).items()) == {
            (name, "ForkedClient") for name in PRODUCER
        }


def test_every_method_of_a_consumer_raises_in_a_child() -> None:
    assert own_methods(Consumer) - HARMLESS == CONSUMER.keys()
    with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer:
        consumer.subscribe(["t"])
        assert set(in_child(lambda: outcomes(consumer, CONSUMER)).items()) == {
            (name, "ForkedClient") for name in CONSUMER
        }


def test_every_method_of_an_admin_that_uses_the_client_raises_in_a_child() -> None:
    calls: dict[str, Any] = {
        "describe_cluster": lambda admin: admin.describe_cluster(),
        "create_topic": lambda admin: admin.create_topic("t"),
        "delete_topics": lambda admin: admin.delete_topics(None),
        "group_lag": lambda admin: admin.group_lag("g"),
        "metrics": lambda admin: admin.metrics(),
        "plan_member_removal": lambda admin: admin.plan_member_removal("g"),
    }
    with Admin(NOWHERE) as admin:
        found = in_child(lambda: outcomes(admin, calls))
    assert {name for name, outcome in found.items() if outcome != "ForkedClient"} <= {"delete_topics"}


def test_the_readers_of_ranges_and_a_share_consumer_raise_in_a_child() -> None:
    config = ConsumerConfig.from_properties({"bootstrap.servers": NOWHERE})
    with connect(config) as client:
        reader = RangeReader(client, {TP: ReadRange(LOG_START)}, config)
        merged = MergedReader(reader, client.clock)
        share = ShareConsumer(client, config, "g", ["t"])
        calls: dict[str, Any] = {
            "resolve": lambda _: reader.resolve(0),
            "poll": lambda _: reader.poll(0),
            "merged": lambda _: merged.poll(0),
            "share": lambda _: share.poll(0),
        }

        class All:
            def close(self) -> None:
                reader.close()
                merged.close()
                share.close(30_000)
                client.close()

            def __exit__(self, *_: object) -> None:
                self.close()

        assert set(in_child(lambda: outcomes(All(), calls)).values()) == {"ForkedClient"}


def test_a_fork_that_python_is_not_told_of_is_noticed_before_the_network_is_used() -> None:
    """uWSGI forks without Python's functions, unless it is configured to call them."""
    client = connect(ClientConfig.from_properties({"bootstrap.servers": NOWHERE}))

    def use() -> str:
        forks.pid = os.getppid()  # what a child that was not told has
        with pytest.raises(ForkedClient) as caught:
            client.poll(timeout_ms=0)
        return str(caught.value)

    with client:
        assert f"process {os.getpid()}," in in_child(use)


def test_a_record_for_a_producer_in_a_fork_that_python_is_not_told_of_raises_when_it_is_the_first() -> None:
    """It would never be sent: the child has no thread of the producer."""

    def use() -> None:
        producer._closed, forks.pid = False, os.getppid()
        producer.send("t", b"v")

    with EmbeddedBroker() as broker, Producer(bootstrap_servers=broker.address) as producer:
        producer.send(broker.create_topic("t"), b"v").result(30_000)
        with pytest.raises(ForkedClient):
            in_child(use)


def test_a_child_makes_clients_of_its_own_and_so_does_its_child() -> None:
    parents = connect(ClientConfig.from_properties({"bootstrap.servers": NOWHERE}))

    def use() -> list[bool]:
        with connect(ClientConfig.from_properties({"bootstrap.servers": NOWHERE})) as own:
            own.poll(timeout_ms=0)
            in_grandchild = in_child(lambda: own.is_forked)
            return [parents.is_forked, own.is_forked, in_grandchild]

    with parents:
        assert in_child(use) == [True, False, True]
        assert not parents.is_forked


def test_a_selector_that_nobody_needs_is_not_kept_for_a_fork() -> None:
    before = len(forks._methods)
    Selector(SystemClock()).close_all()
    assert len(forks._methods) == before

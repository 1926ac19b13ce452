"""The end of a consumer: close, wakeup, constructors that fail, use by two threads, use after the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kcli.admin.client import Admin
from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConcurrentUse, ConfigError, KcliError, WakeupError
from kcli.network.poller import Poller
from kcli.producer.producer import Producer
from kcli.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.registry import ApiKey
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.consumer.cluster import FakeCluster
from tests.consumer.group.classic_cluster import ClassicCluster, Member
from tests.consumer.partition_reader import PartitionReader

T0 = TopicPartition("t", 0)


def one_topic() -> FakeCluster:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b")
    return cluster


def reader_of(cluster: FakeCluster) -> Consumer:
    """Return a consumer without a group that owns its client."""
    client, config = cluster.client(auto_offset_reset="earliest")
    consumer = Consumer.from_config(config, client, in_background=False)
    consumer._own_client = True
    return consumer


def member_of(cluster: ClassicCluster) -> Member:
    """Return a member with automatic commits that owns its client."""
    member = Member(cluster, enable_auto_commit="true")
    member.consumer._own_client = True
    return member


# --- close


def test_a_wakeup_does_not_interrupt_close() -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a", "b")
    member = member_of(cluster)
    assert member.poll() == ["a", "b"]
    commits = len(cluster.asked(ApiKey.OFFSET_COMMIT))
    member.consumer.wakeup()
    member.consumer.close()
    assert member.callbacks.taken() == [("assigned", [0]), ("revoked", [0])]
    assert len(cluster.asked(ApiKey.OFFSET_COMMIT)) == commits + 1
    assert cluster.committed == {T0: 2}
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1
    assert all(peer.closed for peer in cluster.selector.peers)


def test_a_wakeup_during_the_wait_for_the_last_commit_is_ignored() -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    member = member_of(cluster)
    assert member.poll() == ["a"]

    def interrupt(request: Any) -> Any:
        member.consumer.wakeup()
        return cluster._offset_commit(1, request)

    cluster.answer_next(ApiKey.OFFSET_COMMIT, interrupt)
    member.consumer.close()
    assert cluster.committed == {T0: 1}
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1


def test_a_second_close_does_nothing() -> None:
    cluster = one_topic()
    consumer = reader_of(cluster)
    consumer.assign([T0])
    consumer.poll(100)
    consumer.close()
    requests = len(cluster.requests)
    consumer.wakeup()
    consumer.close()
    assert len(cluster.requests) == requests


def test_close_closes_the_connections_after_the_error_of_a_callback() -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    member = member_of(cluster)
    member.poll()

    def fail(partitions: object) -> None:
        raise RuntimeError("a callback")

    member.consumer._group._on_revoked = fail  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="a callback"):
        member.consumer.close()
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1
    assert all(peer.closed for peer in cluster.selector.peers)


def test_a_pending_wakeup_of_a_shared_client_is_kept_for_its_owner() -> None:
    cluster = one_topic()
    client, config = cluster.client(auto_offset_reset="earliest")
    consumer = Consumer.from_config(config, client, in_background=False)
    consumer.assign([T0])
    client.wakeup()
    consumer.close()
    with pytest.raises(WakeupError):
        client.poll(timeout_ms=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.poll(0),
        lambda consumer: consumer.assign([T0]),
        lambda consumer: consumer.end_offsets([T0]),
        lambda consumer: next(iter(consumer)),
    ],
)
def test_a_closed_consumer_cannot_be_used(call: Callable[[Consumer], object]) -> None:
    consumer = reader_of(one_topic())
    consumer.assign([T0])
    consumer.close()
    with pytest.raises(KcliError, match="the consumer is closed"):
        call(consumer)


def test_a_partition_reader_closes_with_a_pending_wakeup_and_only_once() -> None:
    cluster = one_topic()
    client, config = cluster.client()
    reader = PartitionReader(config, T0, 0, 2, client)
    reader._own_client = True
    assert [len(columns) for columns in reader] == [2]
    client.wakeup()
    reader.close()
    assert all(peer.closed for peer in cluster.selector.peers)
    reader.close()


def test_an_admin_closes_with_a_pending_wakeup_and_only_once() -> None:
    admin = Admin("127.0.0.1:1")
    admin._client.wakeup()
    admin.close()
    admin.close()
    with pytest.raises(KcliError, match="the client is closed"):
        admin.list_topics()


# --- wakeup


def test_wakeup_interrupts_one_waiting_call_and_the_consumer_remains_usable() -> None:
    cluster = one_topic()
    consumer = reader_of(cluster)
    consumer.assign([T0])
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(1_000)
    assert [len(columns) for columns in consumer.poll(1_000).values()] == [2]


def test_wakeup_interrupts_a_commit() -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    member = member_of(cluster)
    member.poll()
    member.consumer.wakeup()
    with pytest.raises(WakeupError):
        member.consumer.commit({T0: OffsetAndMetadata(1)})


def test_a_wakeup_does_not_interrupt_the_commit_before_partitions_are_revoked() -> None:
    """It ends the poll after that: a revocation without its commit would have the records read twice."""
    cluster = ClassicCluster()
    cluster.topic("t").append("a", "b")
    member = member_of(cluster)
    assert member.poll() == ["a", "b"]
    cluster.committed.clear()

    def interrupt(request: Any) -> None:
        """No answer, so that the commit still waits."""
        member.consumer.wakeup()

    cluster.answer_next(ApiKey.OFFSET_COMMIT, interrupt)
    cluster.rebalances = True
    with pytest.raises(WakeupError):
        member.poll(80)
    assert cluster.committed == {T0: 2}
    assert member.callbacks.taken() == [("assigned", [0]), ("revoked", [0])]


# --- threads


def test_a_second_thread_is_refused_while_a_call_runs() -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    member = member_of(cluster)
    member.poll()
    consumer = member.consumer
    errors: list[str] = []

    def use() -> None:
        for call in (lambda: consumer.poll(0), lambda: consumer.seek(T0, 0), consumer.close):
            with pytest.raises(ConcurrentUse) as raised:
                call()
            errors.append(str(raised.value))
        consumer.wakeup()

    def in_a_callback(partitions: object) -> None:
        assert consumer.position(T0) == 1, "a callback may use its consumer"
        thread = threading.Thread(target=use)
        thread.start()
        thread.join(10)

    member.consumer._group._on_revoked = in_a_callback  # type: ignore[union-attr]
    with pytest.raises(WakeupError):
        consumer.unsubscribe()
    text = "thread 'MainThread' is using this consumer; it belongs to one thread at a time, and others may only call "
    assert errors == [text + "wakeup"] * 3


def test_threads_may_use_a_consumer_in_turn() -> None:
    consumer = reader_of(one_topic())
    consumer.assign([T0])
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(len(it) for it in consumer.poll(1_000).values()))
    thread.start()
    thread.join(10)
    assert found == [2]
    consumer.close()


# --- calls that cannot return anything


def test_a_poll_without_topics_and_partitions_is_an_error() -> None:
    consumer = reader_of(one_topic())
    for call in (lambda: consumer.poll(0), lambda: next(consumer.records(to_end=True)), lambda: next(iter(consumer))):
        with pytest.raises(KcliError, match="call subscribe or assign first"):
            call()
    consumer.assign([T0])
    consumer.assign([])
    with pytest.raises(KcliError, match="call subscribe or assign first"):
        consumer.poll(0)


@pytest.mark.parametrize("timeout_ms", [-1, float("nan")])
def test_a_negative_timeout_is_an_error(timeout_ms: float) -> None:
    consumer = reader_of(one_topic())
    consumer.assign([T0])
    for call in (consumer.poll, lambda it: consumer.end_offsets([T0], it), consumer.close):
        with pytest.raises(ValueError, match="timeout_ms must not be negative"):
            call(timeout_ms)
    assert consumer.poll(1_000), "it is not closed"


# --- commits that nobody waits for


def test_a_failed_asynchronous_commit_without_a_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    member = Member(cluster)
    member.poll()

    def refuse(_: object) -> OffsetCommitResponse:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])

    cluster.answer_next(ApiKey.OFFSET_COMMIT, refuse, refuse)
    failed: list[KcliError | None] = []
    with caplog.at_level(logging.WARNING, "kcli.consumer"):
        member.consumer.commit_async({T0: OffsetAndMetadata(1)}, lambda _, error: failed.append(error))
        member.poll(3)
        assert isinstance(failed[0], BrokerError)
        assert not caplog.messages
        member.consumer.commit_async({T0: OffsetAndMetadata(1)})
        member.poll(3)
    (message,) = caplog.messages
    assert message.startswith("asynchronous commit of group billing failed: TOPIC_AUTHORIZATION_FAILED")


# --- constructors


@pytest.fixture
def open_pollers(monkeypatch: pytest.MonkeyPatch) -> list[Poller]:
    """The pollers, each with three descriptors, that are open."""
    pollers: list[Poller] = []
    begin, close = Poller.__init__, Poller.close
    monkeypatch.setattr(Poller, "__init__", lambda self: (begin(self), pollers.append(self))[0])
    monkeypatch.setattr(Poller, "close", lambda self: (close(self), pollers.remove(self))[0])
    return pollers


def broken(*_: object, **__: object) -> None:
    raise OSError("no more descriptors")


UNREACHABLE = {"bootstrap_servers": "127.0.0.1:1", "default_api_timeout_ms": 20}


@pytest.mark.parametrize(
    ("construct", "module"),
    [
        (lambda: Consumer("t", **UNREACHABLE), None),
        (lambda: Consumer("t", bootstrap_servers="nowhere:port"), None),
        (lambda: Consumer("t", group_id="g", partition_assignment_strategy="", **UNREACHABLE), None),
        (lambda: Consumer(**UNREACHABLE), "kcli.consumer.consumer.FetchLoop"),
        (lambda: PartitionReader(ConsumerConfig.from_properties({}), T0, 0, 1), "kcli.consumer.range_reader.FetchLoop"),
        (lambda: PartitionReader(ConsumerConfig.from_properties({}), T0, -7, 1), None),
        (lambda: Producer(bootstrap_servers="127.0.0.1:1"), "kcli.producer.send_loop.Sender"),
        (lambda: Producer(bootstrap_servers="nowhere:port"), None),
        (lambda: Admin("nowhere:port"), None),
    ],
)
def test_a_constructor_that_fails_closes_what_it_opened(
    construct: Callable[[], object],
    module: str | None,
    open_pollers: list[Poller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if module is not None:
        monkeypatch.setattr(module, broken)
    with pytest.raises((KcliError, ConfigError, OSError, ValueError)):
        construct()
    assert not open_pollers

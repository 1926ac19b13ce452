"""Repeated fetches of idle consumers: the answers with and without the shortcut are the same bytes at the same time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.fetch_sessions import FetchSessionCache
from kcli.broker.handlers import fetch as fetch_handler
from kcli.broker.log.log_config import LogConfig
from kcli.broker.security.authorizer import AclBinding, Authorizer
from kcli.broker.serving.idle_fetch import IdleFetch
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import read_request, response_parts
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kcli.structs import TopicPartition
from tests.broker.rig import Rig, batch

TOPICS = {"orders": UUID(int=1), "payments": UUID(int=2)}
VERSIONS = (4, 7, 11, 12, 13, 15, 17, 18)
WAIT_MS = 500


class Consumer:
    """One connection: its position per topic, its fetch session, and the answers with their times."""

    def __init__(self, rig: Rig, name: str, version: int, *, in_session: bool, shortcut: bool) -> None:
        self.rig = rig
        self.version = version
        self.in_session = in_session
        self.shortcut = shortcut
        self.name = name
        self.topics = list(TOPICS)
        self.offsets = dict.fromkeys(TOPICS, 0)
        self.session_id, self.epoch = 0, 0 if in_session else -1
        self.idle: IdleFetch | None = None
        self.is_waiting = False
        self.answers: list[tuple[float, bytes]] = []
        self.resumed = 0

    def fetch(self, *, forget: str | None = None) -> None:
        """Send the next request; in a session, without the partitions that the session has."""
        topics = [] if self.session_id else self.topics
        request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, session_id=self.session_id, session_epoch=self.epoch)
        request.topics = [self._topic(topic) for topic in topics]
        if forget is not None and self.session_id:
            named = {"topic_id": TOPICS[forget]} if self.version >= 13 else {"topic": forget}
            request.forgotten_topics_data = [ForgottenTopic(partitions=[0], **named)]
        self.send(request)

    def _topic(self, name: str) -> FetchTopic:
        named: dict[str, Any] = {"topic_id": TOPICS[name]} if self.version >= 13 else {"topic": name}
        partition = FetchPartition(fetch_offset=self.offsets[name], partition_max_bytes=1 << 20)
        return FetchTopic(partitions=[partition], **named)

    def send(self, request: FetchRequest) -> None:
        correlation_id = len(self.answers)
        frame = bytearray(encode_request(request, self.version, correlation_id, "idle"))
        now_ms, now_wall_ms = self.rig.clock.now_ms(), self.rig.clock.wall_ms()
        idle, self.idle, self.is_waiting = self.idle, None, True
        resumed = idle.resume(frame, now_ms, now_wall_ms) if idle is not None and self.shortcut else None
        if resumed is None:
            arrived, context = read_request(frame, self.name, "127.0.0.1", now_ms, now_wall_ms)
            answer: Any = fetch_handler.handle(self.rig, arrived, context)  # type: ignore[arg-type]
        else:
            self.resumed += 1
            answer, context = resumed
        if not isinstance(answer, Pending):
            self._receive(answer, None, context)
        else:
            answer.on_done(lambda response: self._receive(response, answer, context))

    def _receive(self, response: Any, pending: Any, context: Any) -> None:
        sent = b"".join(bytes(part) for part in response_parts(response, context))
        self.answers.append((self.rig.clock.now_ms(), sent))
        self.idle = None if pending is None else pending.repeatable
        self.is_waiting = False
        self._advance(decode_response(FetchResponse, self.version, sent)[1])

    def _advance(self, response: FetchResponse) -> None:
        if self.in_session:
            if response.error_code or not response.session_id:
                self.session_id = self.epoch = 0
            else:
                self.session_id, self.epoch = response.session_id, self.epoch + 1
        for topic in response.responses:
            for data in topic.partitions:
                name = topic.topic or next(name for name, id in TOPICS.items() if id == topic.topic_id)
                if data.records:
                    self.offsets[name] = data.high_watermark
                    if self.in_session:
                        self.session_id = self.epoch = 0  # a new session, with the new position


def make(shortcut: bool) -> tuple[Rig, list[Consumer]]:
    rig = Rig()
    ids = iter(range(1, 1_000_000))
    rig.replica_manager.fetch_sessions = FetchSessionCache(100, new_id=lambda: next(ids))
    for name in TOPICS:
        create(rig, name)
    return rig, [
        Consumer(rig, f"{version} {in_session}", version, in_session=in_session, shortcut=shortcut)
        for version in VERSIONS
        for in_session in ((False, True) if version >= 7 else (False,))
    ]


def create(rig: Rig, name: str) -> None:
    rig.replica_manager.create_partition(TopicPartition(name, 0), TOPICS[name], LogConfig())


def produce(rig: Rig, name: str) -> None:
    rig.replica_manager.append(
        {TopicPartition(name, 0): memoryview(bytearray(batch("x")))},
        acks=1,
        timeout_ms=0,
        now_ms=rig.clock.now_ms(),
        now_wall_ms=rig.clock.wall_ms(),
    )


def event(rig: Rig, consumer: Consumer, kind: str, topic: str) -> None:
    """Let something happen at the broker, or between a consumer's requests."""
    manager, tp = rig.replica_manager, TopicPartition(topic, 0)
    partition = manager.partition(tp)
    if kind == "lost session":
        manager.fetch_sessions.sessions.pop(consumer.session_id, None)
    elif kind == "another user of the session":
        if consumer.session_id:
            by_id, now_ms = consumer.version >= 13, rig.clock.now_ms()
            manager.fetch_sessions.begin(consumer.session_id, consumer.epoch, (), (), by_id=by_id, now_ms=now_ms)
    elif partition is None:
        create(rig, topic)
    elif not partition.is_leader:
        partition.is_leader = True
    elif kind == "delete topic":
        manager.delete_partition(tp)
    elif kind == "another leader":
        partition.is_leader = False
    elif kind == "produce":
        produce(rig, topic)
    else:
        manager.delete_records({tp: -1}, timeout_ms=0, now_ms=0)


KINDS = ("produce", "delete records", "delete topic", "another leader", "lost session", "another user of the session")


def run(seed: int, shortcut: bool) -> tuple[list[list[tuple[float, bytes]]], int]:
    """Return the answers of each consumer, and the number of resumed requests."""
    chance = random.Random(seed)
    rig, consumers = make(shortcut)
    for _ in range(60):
        for consumer in consumers:
            if not consumer.is_waiting:
                forget = chance.random() < 0.05
                consumer.fetch(forget="payments" if forget else None)
        if chance.random() < 0.4:
            event(rig, chance.choice(consumers), chance.choice(KINDS), chance.choice(list(TOPICS)))
        rig.wait(chance.choice((1, 250, WAIT_MS + 20)))
    return [consumer.answers for consumer in consumers], sum(consumer.resumed for consumer in consumers)


@pytest.mark.slow
def test_answers_are_the_same_with_and_without_the_shortcut() -> None:
    resumed = 0
    for seed in range(20):
        shortened, count = run(seed, True)
        assert shortened == run(seed, False)[0], f"seed {seed}"
        resumed += count
    assert resumed > 1000


def quiet_consumer(version: int = 17, *, in_session: bool = True) -> tuple[Rig, Consumer]:
    """Return a consumer whose next request can be resumed."""
    rig, consumers = make(True)
    (consumer,) = (c for c in consumers if (c.version, c.in_session) == (version, in_session))
    while consumer.idle is None:
        consumer.fetch()
        rig.wait(WAIT_MS + 20)
    return rig, consumer


@pytest.mark.parametrize(("version", "in_session"), [(17, True), (12, True), (7, True), (11, False), (4, False)])
def test_repeated_request_waits_again_without_being_decoded(version: int, in_session: bool) -> None:
    rig, consumer = quiet_consumer(version, in_session=in_session)
    for _ in range(5):
        consumer.fetch()
        assert consumer.is_waiting
        assert rig.replica_manager.fetches.delayed == 1
        rig.wait(WAIT_MS + 20)
    assert consumer.resumed == 5
    assert rig.replica_manager.fetches.delayed == rig.replica_manager.fetches.watched == len(rig.timer) == 0


def test_request_after_a_new_leader_epoch_is_decoded() -> None:
    """The client may have sent the old one, which is refused then."""
    rig, consumer = quiet_consumer()
    rig.replica_manager.partitions[TopicPartition("orders", 0)].leader_epoch += 1
    consumer.fetch()
    assert consumer.resumed == 0


def test_resumed_fetch_is_answered_when_a_record_is_appended() -> None:
    rig, consumer = quiet_consumer()
    consumer.fetch()
    rig.wait(100)
    produce(rig, "orders")
    assert not consumer.is_waiting
    assert consumer.resumed == 1
    assert consumer.offsets["orders"] == 1
    assert consumer.idle is None


@pytest.mark.parametrize(
    "change",
    [
        lambda rig: produce(rig, "orders"),
        lambda rig: rig.replica_manager.log_manager.fail("no space"),
        lambda rig: rig.replica_manager.fetch_sessions.sessions.clear(),
    ],
)
def test_change_between_two_requests_is_answered_at_once(change: Callable[[Rig], object]) -> None:
    rig, consumer = quiet_consumer()
    change(rig)
    consumer.fetch()
    assert not consumer.is_waiting
    assert consumer.resumed == 0


def test_a_changed_acl_ends_the_shortcut() -> None:
    readable = [AclBinding(2, name, 3, "User:*", "*", 3, 3) for name in TOPICS]
    rig, consumers = make(True)
    rig.authorizer = authorizer = Authorizer(readable)
    consumer = next(one for one in consumers if one.version == 12 and not one.in_session)
    for _ in range(3):
        consumer.fetch()
        rig.wait(WAIT_MS + 20)
    assert consumer.resumed == 2
    authorizer.replace(readable[:1])
    consumer.fetch()
    rig.wait(WAIT_MS + 20)
    assert consumer.resumed == 2
    response = decode_response(FetchResponse, 12, consumer.answers[-1][1])[1]
    assert [topic.partitions[0].error_code for topic in response.responses] == [0, 29]

"""The classic member on our broker and Apache's: assumptions of the in-memory tests, and behaviour that takes real
time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.producer.producer import Producer
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.real_kafka import Kafka, OwnBroker

pytestmark = pytest.mark.slow

QUICK = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "enable.auto.commit": "false",
}


class Member:
    """A consumer, its callbacks' arguments, and the records that it has read."""

    def __init__(self, kafka: Kafka, group: str, *topics: str, pattern: str | None = None, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        at = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
        self.events: list[tuple[str, list[int]]] = []
        self.values: list[str] = []
        self.consumer = Consumer.from_config(ConsumerConfig.from_properties({**at, **QUICK, **named}))
        hooks: dict[str, Any] = {f"on_{what}": self._hook(what) for what in ("assigned", "revoked", "lost")}
        self.consumer.subscribe(topics, pattern=pattern, **hooks)

    def _hook(self, what: str) -> Any:
        return lambda partitions: self.events.append((what, [tp.partition for tp in partitions]))

    def poll(self, timeout_ms: float = 20) -> None:
        for columns in self.consumer.poll(timeout_ms).values():
            self.values += [value.decode() for value in columns.values() if value is not None]

    def owned(self) -> list[int]:
        return sorted(tp.partition for tp in self.consumer.subscription.partitions())


@contextmanager
def members(*wanted: Member) -> Iterator[tuple[Member, ...]]:
    try:
        yield wanted
    finally:
        for member in wanted:
            member.consumer.close()


def poll_until(condition: Callable[[], bool], *polled: Member, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, [(it.events, it.consumer) for it in polled]
        for member in polled:
            member.poll()


def produce(kafka: Kafka, topic: str, *values: str, partition: int = 0) -> None:
    config = ProducerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})
    with Producer.from_config(config) as producer:
        for value in values:
            producer.send(topic, value.encode(), partition=partition)
        producer.flush()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_two_members_share_partitions_and_the_remaining_one_gets_all(any_kafka: Kafka, strategy: str) -> None:
    topic = any_kafka.new_topic(4)
    produce(any_kafka, topic, "a", "b", partition=0)
    first = Member(any_kafka, topic, topic, partition_assignment_strategy=strategy)
    second = Member(any_kafka, topic, topic, partition_assignment_strategy=strategy)
    with members(first, second):
        poll_until(lambda: len(first.owned()) == 4 and len(first.values) == 2, first)
        first.consumer.commit()
        poll_until(lambda: len(first.owned()) == len(second.owned()) == 2, first, second)
        assert sorted(first.owned() + second.owned()) == [0, 1, 2, 3]
        second.consumer.close()
        poll_until(lambda: len(first.owned()) == 4, first)
        assert (first.values, second.values) == (["a", "b"], [])
    revoked = [partitions for what, partitions in first.events if what == "revoked"]
    if strategy == "cooperative-sticky":
        assert [len(partitions) for partitions in revoked] == [2, 4]
    else:
        assert [len(partitions) for partitions in revoked] == [4, 2, 4]
    assert not any(what == "lost" for what, _ in first.events + second.events)


def test_heartbeats_keep_a_busy_member_in_the_group(any_kafka: Kafka) -> None:
    """Heartbeats have their own thread, until the poll interval is exceeded."""
    topic = any_kafka.new_topic(2)
    quick = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 100, "max_poll_interval_ms": 6000}
    member = Member(any_kafka, topic, topic, **quick)
    with members(member):
        poll_until(lambda: len(member.owned()) == 2, member)
        before = member.consumer.group_metadata()
        time.sleep(3)
        member.consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0)})
        poll_until(lambda: True, member)
        assert member.consumer.group_metadata() == before
        time.sleep(6.5)
        assert "kcli heartbeat" in "".join(thread.name for thread in threading.enumerate())
        poll_until(lambda: len(member.events) == 3, member)
        assert member.events == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
        assert member.consumer.group_metadata().member_id != before.member_id
    assert "kcli heartbeat" not in "".join(thread.name for thread in threading.enumerate())


def test_a_static_member_regains_its_partitions_and_fences_the_old_instance(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(2)
    other = Member(any_kafka, topic, topic, group_instance_id="other")
    first = Member(any_kafka, topic, topic, group_instance_id="one")
    with members(other, first):
        poll_until(lambda: len(first.owned()) == len(other.owned()) == 1, first, other)
        generation = other.consumer.group_metadata().generation
        second = Member(any_kafka, topic, topic, group_instance_id="one")
        with members(second):
            poll_until(lambda: second.owned() == first.owned(), second, other)
            assert other.consumer.group_metadata().generation == generation
            with pytest.raises(BrokerError) as fenced:
                poll_until(lambda: False, first)
            assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID
            poll_until(lambda: True, second, other)
        third = Member(any_kafka, topic, topic, group_instance_id="one")
        with members(third):
            poll_until(lambda: len(third.owned()) == 1, third, other)
            assert other.consumer.group_metadata().generation == generation


def test_a_pattern_subscription_includes_new_topics(any_kafka: Kafka) -> None:
    prefix = any_kafka.new_name("p")
    any_kafka.create_topic(f"{prefix}-a", 1)
    member = Member(any_kafka, prefix, pattern=f"{prefix}-.*", metadata_max_age_ms=300)
    with members(member):
        poll_until(lambda: len(member.owned()) == 1, member)
        any_kafka.create_topic(f"{prefix}-b", 2)
        poll_until(lambda: len(member.owned()) == 3, member)


def test_added_partitions_are_assigned(any_kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = any_kafka.new_topic(1)
    first, second = (Member(any_kafka, topic, topic, metadata_max_age_ms=300) for _ in range(2))
    with members(first, second):
        poll_until(lambda: len(first.owned() + second.owned()) == 1 and bool(second.events), first, second)
        admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
        poll_until(lambda: len(first.owned()) == len(second.owned()) == 2, first, second)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"session_timeout_ms": 3_600_000}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"partition_assignment_strategy": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_errors_of_a_join_are_reported(any_kafka: Kafka, settings: dict[str, Any], code: ErrorCode) -> None:
    topic = any_kafka.new_topic(1)
    first = Member(any_kafka, topic, topic, partition_assignment_strategy="range")
    second = Member(any_kafka, topic, topic, **settings)
    with members(first, second):
        poll_until(lambda: first.owned() == [0], first)
        with pytest.raises(BrokerError) as refused:
            poll_until(lambda: False, first, second)
        assert refused.value.code is code


def test_a_member_survives_a_coordinator_restart(any_own_kafka: Any) -> None:
    """The restarted broker has loaded the group again: nobody rejoins, and commits continue."""
    kafka: OwnBroker = any_own_kafka(group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1")
    topic = kafka.new_topic(1)
    member = Member(kafka, topic, topic)
    with members(member):
        poll_until(lambda: member.owned() == [0], member)
        before = member.consumer.group_metadata()
        kafka.kill()
        member.poll(500)
        kafka.restart()
        produce(kafka, topic, "after")
        poll_until(lambda: member.values == ["after"], member)
        member.consumer.commit()
        assert member.consumer.group_metadata() == before
        assert member.events == [("assigned", [0])]
        assert member.consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] is not None


def test_a_cooperative_member_commits_when_it_leaves_during_a_rebalance(any_kafka: Kafka) -> None:
    """Java loses this commit: the member read on while it waited for the others, and nobody has its partitions yet."""
    topic = any_kafka.new_topic(2)
    how = {"partition_assignment_strategy": "cooperative-sticky", "max_poll_interval_ms": 20_000}
    slow = Member(any_kafka, topic, topic, **how)
    second = Member(any_kafka, topic, topic, **{**how, "enable_auto_commit": "true"})
    third = Member(any_kafka, topic, topic, **how)
    with members(slow, second, third):
        poll_until(lambda: len(slow.owned()) == len(second.owned()) == 1, slow, second)
        for _ in range(20):
            slow.poll()
            second.poll()
        poll_until(lambda: second.consumer.membership.state == "preparing", second, third)  # type: ignore[union-attr]
        produce(any_kafka, topic, "late", partition=second.owned()[0])
        owned = TopicPartition(topic, second.owned()[0])
        poll_until(lambda: second.values == ["late"], second, third)
        began = time.monotonic()
        second.consumer.close()
        assert time.monotonic() - began < 10
        assert second.events[-1] == ("revoked", [owned.partition])
        assert _committed(any_kafka, topic, owned) == 1


def _committed(kafka: Kafka, group: str, tp: TopicPartition) -> int | None:
    config = ConsumerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    with Consumer.from_config(config) as consumer:
        found = consumer.committed([tp])[tp]
    return None if found is None else found.offset


def test_leave_does_not_wait_for_a_slow_member(any_kafka: Kafka) -> None:
    """The slow member does not poll, so the rebalance lasts; LeaveGroup must not wait for JoinGroup."""
    topic = any_kafka.new_topic(2)
    slow = Member(any_kafka, topic, topic, max_poll_interval_ms=20_000)
    second = Member(any_kafka, topic, topic)
    with members(slow, second):
        poll_until(lambda: len(slow.owned()) == 2, slow)
        poll_until(lambda: second.consumer.membership.state == "preparing", second)  # type: ignore[union-attr]
        second.poll(300)
        began = time.monotonic()
        second.consumer.close()
        assert time.monotonic() - began < 10
        poll_until(lambda: len(slow.events) >= 3 or len(slow.owned()) == 2, slow)

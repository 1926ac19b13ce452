"""confluent-kafka (librdkafka 2.16): classic groups that share partitions and commit offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.real_kafka import Kafka

FAST = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest", "log_level": 0}


class Member:
    """A group member that records its assignments and the records that it read."""

    def __init__(self, kafka: Kafka, group: str, topic: str, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **FAST, **named})
        self.values: list[bytes] = []
        self.consumer.subscribe([topic])

    def poll(self) -> None:
        for message in self.consumer.consume(500, 0.05):
            assert message.error() is None, message.error()
            self.values.append(message.value())

    @property
    def partitions(self) -> list[int]:
        return sorted(assigned.partition for assigned in self.consumer.assignment())


Make = Callable[..., Member]


@pytest.fixture
def member(any_kafka: Kafka) -> Iterator[Make]:
    members: list[Member] = []

    def join(group: str, topic: str, **settings: Any) -> Member:
        members.append(Member(any_kafka, group, topic, **settings))
        return members[-1]

    yield join
    for one in members:
        one.consumer.close()


def poll_until(condition: Callable[[], bool], *members: Member, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, [m.partitions for m in members]
        for one in members:
            one.poll()


def fill(kafka: Kafka, topic: str, numbers: range, partitions: int = 4) -> None:
    producer = kafka.ordered_producer()
    for n in numbers:
        producer.produce(topic, b"%d" % n, partition=n % partitions)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_the_group_rebalances_when_a_member_joins_or_leaves(strategy: str, any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    how = {"partition_assignment_strategy": strategy}
    first = member(group, topic, **how)
    poll_until(lambda: first.partitions == [0, 1, 2, 3], first)
    second = member(group, topic, **how)
    poll_until(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
    third = member(group, topic, **how)
    trio = (first, second, third)
    poll_until(lambda: sorted(len(m.partitions) for m in trio) == [1, 1, 2], *trio)
    assert sorted(p for m in trio for p in m.partitions) == [0, 1, 2, 3]
    first.consumer.close()
    rest = (second, third)
    poll_until(lambda: sorted(p for m in rest for p in m.partitions) == [0, 1, 2, 3], *rest)


def test_every_record_goes_to_exactly_one_member(any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    members = [member(group, topic) for _ in range(3)]
    poll_until(lambda: sorted(len(m.partitions) for m in members) == [1, 1, 2], *members)
    assert sorted(p for m in members for p in m.partitions) == [0, 1, 2, 3]
    fill(any_kafka, topic, range(2_000))
    poll_until(lambda: sum(len(m.values) for m in members) >= 2_000, *members)
    assert sorted(int(value) for m in members for value in m.values) == list(range(2_000))
    assert all(m.values for m in members)


def test_a_dead_member_is_removed_after_its_session(any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    quick = {"session_timeout_ms": 1_000}
    survivor, doomed = member(group, topic, **quick), member(group, topic, max_poll_interval_ms=4_000, **quick)
    poll_until(lambda: len(survivor.partitions) == len(doomed.partitions) == 2, survivor, doomed)
    poll_until(lambda: survivor.partitions == [0, 1, 2, 3], survivor)  # the other one polls no more


def test_committed_offsets_are_where_the_next_member_starts(any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    fill(any_kafka, topic, range(100), partitions=1)
    by_hand = {"enable_auto_commit": False}
    first = member(group, topic, **by_hand)
    poll_until(lambda: len(first.values) == 100, first)
    place = TopicPartition(topic, 0, 40, metadata="where I was")
    [committed] = first.consumer.commit(offsets=[place], asynchronous=False)
    assert (committed.offset, committed.error) == (40, None)
    first.consumer.close()
    second = member(group, topic, **by_hand)
    [found] = second.consumer.committed([TopicPartition(topic, 0)], timeout=30)
    assert (found.offset, found.metadata) == (40, "where I was")
    poll_until(lambda: len(second.values) == 60, second)
    assert second.values == [b"%d" % n for n in range(40, 100)]


def test_offsets_are_committed_while_reading_and_at_the_end(any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    fill(any_kafka, topic, range(100), partitions=1)
    reader = member(group, topic, auto_commit_interval_ms=100)
    poll_until(lambda: len(reader.values) == 100, reader)

    def committed() -> int:
        return int(reader.consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset)

    poll_until(lambda: committed() == 100, reader)
    fill(any_kafka, topic, range(100, 150), partitions=1)
    poll_until(lambda: len(reader.values) == 150, reader)
    reader.consumer.close()
    other = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    assert other.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 150
    other.close()


def test_a_static_member_keeps_its_partitions_over_its_restart(any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    pair = [member(group, topic, group_instance_id=name) for name in ("one", "two")]
    poll_until(lambda: len(pair[0].partitions) == len(pair[1].partitions) == 2, *pair)
    before = [m.partitions for m in pair]
    pair[1].consumer.close()  # a static member does not leave
    pair[1] = member(group, topic, group_instance_id="two")
    poll_until(lambda: bool(pair[1].partitions), *pair)
    assert [m.partitions for m in pair] == before


def test_the_same_instance_twice_fences_the_first(any_kafka: Kafka, member: Make) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    first = member(group, topic, group_instance_id="only")
    poll_until(lambda: first.partitions == [0, 1, 2, 3], first)
    second = member(group, topic, group_instance_id="only")
    poll_until(lambda: second.partitions == [0, 1, 2, 3], second)
    fenced = None
    deadline = time.monotonic() + 30
    while fenced is None and time.monotonic() < deadline:
        try:
            message = first.consumer.poll(0.1)
            fenced = message.error() if message is not None else None
        except KafkaException as failure:
            fenced = failure.args[0]
    assert fenced is not None
    assert fenced.code() in (KafkaError._FENCED, KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def test_a_pattern_subscription_includes_topics_created_later(any_kafka: Kafka, member: Make) -> None:
    prefix, group = any_kafka.new_name("pattern"), any_kafka.new_name("group")
    any_kafka.create_topic(f"{prefix}-a")
    reader = member(group, f"^{prefix}-.*", topic_metadata_refresh_interval_ms=200)

    def names() -> list[str]:
        return sorted(tp.topic for tp in reader.consumer.assignment())

    poll_until(lambda: names() == [f"{prefix}-a"], reader)
    any_kafka.create_topic(f"{prefix}-b")
    poll_until(lambda: names() == [f"{prefix}-a", f"{prefix}-b"], reader)


def test_a_commit_of_a_removed_member_is_refused(any_kafka: Kafka, member: Make) -> None:
    """A commit without member and generation is accepted only for groups without members."""
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    active = member(group, topic)
    poll_until(lambda: active.partitions == [0], active)
    outsider = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    with pytest.raises(KafkaException) as refused:
        outsider.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    outsider.close()

"""KIP-848 groups on our broker and Apache Kafka: kcli's members alone, beside Java's and librdkafka's, and migrating.

Both brokers expect a heartbeat every 300 ms and remove a member after 6 s of silence (tests/real_kafka.py). Some
groups here have 3 s; where no member may be removed, 60 s.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.structs import TopicPartition
from tests.broker.wire import Wire
from tests.interop.groups.group_configs import LONGEST_SESSION_S, new_group
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.real_kafka import Kafka, OwnBroker

pytestmark = pytest.mark.slow

SESSION_S = 3.0
Start = Callable[..., MemberProcess]


@pytest.fixture
def start(any_kafka: Kafka) -> Iterator[Start]:
    """Return `start("java", group, topic, protocol="classic", ...)`, whose members end with the test."""
    with ExitStack() as ends:

        def begin(maker: str, group: str, topic: str, *, protocol: str = "consumer", **how: Any) -> MemberProcess:
            return ends.enter_context(MAKERS[maker](any_kafka, group, topic, protocol=protocol, **how))

        yield begin


def here(kafka: Kafka, group: str, **properties: Any) -> Consumer:
    """Return a member in this process."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    how = {"group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": "false", **named}
    return Consumer.from_config(
        ConsumerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **how})
    )


def produce(kafka: Kafka, topic: str, partitions: int, each: int) -> None:
    producer = kafka.ordered_producer()
    for number in range(partitions):
        for _ in range(each):
            producer.produce(topic, b"x", partition=number)
    producer.flush()


def read_by(*members: MemberProcess) -> Counter[tuple[str, int, int]]:
    return Counter(record for member in members for record in member.records())


def wait_read(count: int, *members: MemberProcess) -> None:
    """Wait until `members` together have read this number of distinct records."""
    members[0].wait(lambda: len(read_by(*members)) >= count, f"{count} records of all")


def poll_until(consumer: Consumer, condition: Callable[[], bool], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, repr(consumer)
        consumer.poll(100)


# --- alone


def test_each_record_is_read_once_though_a_member_leaves(any_kafka: Kafka, start: Start) -> None:
    group, topic = new_group(any_kafka, LONGEST_SESSION_S), any_kafka.new_topic(6)
    produce(any_kafka, topic, 6, 50)
    first, second = start("kcli", group, topic), start("kcli", group, topic)
    assert not first.wait_assigned(3) & second.wait_assigned(3)
    wait_read(300, first, second)
    second.leave()
    assert len(first.wait_assigned(6, timeout_s=LONGEST_SESSION_S / 3)) == 6, "the broker knows that the other has left"
    produce(any_kafka, topic, 6, 50)
    wait_read(600, first, second)
    first.leave()
    assert set(read_by(first, second).values()) == {1}


def test_a_silent_member_is_removed_and_a_busy_one_is_not(any_kafka: Kafka, start: Start) -> None:
    group, topic = new_group(any_kafka, SESSION_S), any_kafka.new_topic(4)
    silent = start("kcli", group, topic)
    silent.wait_assigned(4)
    lost: list[TopicPartition] = []
    with here(any_kafka, group) as busy:
        busy.subscribe([topic], on_lost=lost.extend)
        poll_until(busy, lambda: len(busy.subscription.partitions()) == 2)
        silent.pause()
        time.sleep(SESSION_S + 1.5)  # its own thread speaks for it meanwhile
        poll_until(busy, lambda: len(busy.subscription.partitions()) == 4)
        silent.resume()
        poll_until(busy, lambda: len(busy.subscription.partitions()) == 2)
        assert lost == []
    assert len(silent.events_of("lost")[0]["partitions"]) == 2
    silent.wait_assigned(4)


def test_a_returning_static_member_regains_its_partitions_without_a_rebalance(any_kafka: Kafka, start: Start) -> None:
    group, topic = new_group(any_kafka, LONGEST_SESSION_S), any_kafka.new_topic(4)
    first = start("kcli", group, topic, instance_id="one")
    first.wait_assigned(4)
    second = start("kcli", group, topic, instance_id="two")
    mine, before = second.wait_assigned(2), len(first.events_of("assigned", "revoked"))
    second.leave()
    again = start("kcli", group, topic, instance_id="two")
    assert again.wait_assigned(2) == mine
    assert len(first.events_of("assigned", "revoked")) <= before + 1, "at most the end of the rebalance before"
    assert first.events_of("revoked")[1:] == []


def test_the_broker_resolves_a_pattern(any_kafka: Kafka) -> None:
    prefix = any_kafka.new_name("family")
    for name in ("a", "b"):
        any_kafka.create_topic(f"{prefix}-{name}", 1)
    produce(any_kafka, f"{prefix}-a", 1, 3)
    with here(any_kafka, any_kafka.new_name("group")) as consumer:
        consumer.subscribe(pattern=rf"{prefix}-[[:alpha:]]")  # no pattern of Python's
        poll_until(consumer, lambda: len(consumer.subscription.partitions()) == 2)
        poll_until(consumer, lambda: consumer.position(TopicPartition(f"{prefix}-a", 0)) == 3)


def test_a_subscription_changes_without_leaving(any_kafka: Kafka) -> None:
    one, two = any_kafka.new_topic(1), any_kafka.new_topic(1)
    said: list[tuple[str, str]] = []
    with here(any_kafka, any_kafka.new_name("group")) as consumer:
        for topic in (one, two):
            consumer.subscribe(
                [topic],
                on_assigned=lambda tps: said.extend(("assigned", tp.topic) for tp in tps),
                on_revoked=lambda tps: said.extend(("revoked", tp.topic) for tp in tps),
            )
            poll_until(consumer, lambda: ("assigned", topic) in said)  # noqa: B023
        assert said == [("assigned", one), ("revoked", one), ("assigned", two)]


# --- in company


def test_three_clients_share_a_group_and_survive_a_death(any_kafka: Kafka, start: Start) -> None:
    group, topic = new_group(any_kafka, SESSION_S), any_kafka.new_topic(6)
    members = [start(maker, group, topic) for maker in ("kcli", "java", "confluent")]
    owned = [member.wait_assigned(2) for member in members]
    assert len(set().union(*owned)) == 6
    produce(any_kafka, topic, 6, 50)
    wait_read(300, *members)
    kcli, java, confluent = members
    java.kill()
    assert len(kcli.wait_assigned(3) | confluent.wait_assigned(3)) == 6
    produce(any_kafka, topic, 6, 50)
    wait_read(600, *members)
    confluent.leave()
    kcli.wait_assigned(6)
    kcli.leave()
    assert kcli.events_of("lost", "commit_failed") == []


def test_a_group_migrates_to_kip848_and_back(any_kafka: Kafka, start: Start) -> None:
    """KIP-848's online migration: the first new member converts the group, the last one to leave converts it back."""
    group, topic = any_kafka.new_name("group"), any_kafka.new_topic(4)
    produce(any_kafka, topic, 4, 25)
    classic = start("kcli", group, topic, protocol="classic")
    classic.wait_assigned(4)
    new = start("kcli", group, topic)
    assert not classic.wait_assigned(2) & new.wait_assigned(2)
    wait_read(100, classic, new)
    new.leave()
    classic.wait_assigned(4)
    successor = start("kcli", group, topic)
    successor.wait_assigned(2)
    classic.leave()
    successor.wait_assigned(4)
    produce(any_kafka, topic, 4, 25)
    wait_read(200, successor, new, classic)
    assert set(read_by(classic, new, successor).values()) == {1}
    assert not any(member.events_of("commit_failed", "lost") for member in (classic, new, successor))


@pytest.mark.parametrize(("older", "newer"), [("java", "confluent"), ("confluent", "java")])
def test_a_group_of_other_clients_migrates_member_by_member(
    any_kafka: Kafka, start: Start, older: str, newer: str
) -> None:
    """Two classic members are replaced one by one, as in a rolling upgrade; the last one leaves and comes back."""
    group, topic = any_kafka.new_name("group"), any_kafka.new_topic(4)
    produce(any_kafka, topic, 4, 25)
    first = start(older, group, topic, protocol="classic", assignor="cooperative-sticky")
    first.wait_assigned(4)
    second = start(newer, group, topic)
    assert not first.wait_assigned(2) & second.wait_assigned(2)
    wait_read(100, first, second)
    first.leave()
    second.wait_assigned(4)
    third = start(newer, group, topic, protocol="classic", assignor="cooperative-sticky")
    assert not second.wait_assigned(2) & third.wait_assigned(2)
    second.leave()
    third.wait_assigned(4)
    produce(any_kafka, topic, 4, 25)
    wait_read(200, third, second, first)
    assert set(read_by(first, second, third).values()) == {1}


# --- refusals


@pytest.mark.parametrize(
    ("properties", "pattern", "code", "words"),
    [
        ({"group_remote_assignor": "nope"}, "t.*", ErrorCode.UNSUPPORTED_ASSIGNOR, "uniform, range"),
        ({}, "((", ErrorCode.INVALID_REGULAR_EXPRESSION, "missing "),
    ],
)
def test_refusals_hold_the_brokers_message(
    any_kafka: Kafka, properties: dict[str, str], pattern: str, code: ErrorCode, words: str
) -> None:
    group = any_kafka.new_name("group")
    with here(any_kafka, group, **properties) as consumer:
        consumer.subscribe(pattern=pattern)
        with pytest.raises(BrokerError) as refused:
            poll_until(consumer, lambda: False)
    assert (refused.value.code, words in str(refused.value), f"group {group}" in str(refused.value)) == (
        code,
        True,
        True,
    )


def test_a_used_instance_id_is_refused(any_kafka: Kafka) -> None:
    group, topic = any_kafka.new_name("group"), any_kafka.new_topic(1)
    with (
        here(any_kafka, group, group_instance_id="i") as owner,
        here(any_kafka, group, group_instance_id="i") as late,
    ):
        owner.subscribe([topic])
        poll_until(owner, lambda: len(owner.subscription.partitions()) == 1)
        late.subscribe([topic])
        with pytest.raises(BrokerError, match=r"UNRELEASED_INSTANCE_ID.*instance i"):
            poll_until(late, lambda: False)
        owner.poll(1000)
        assert owner.group_metadata().generation > 0


def test_a_cluster_without_the_feature_is_reported(any_own_kafka: Callable[..., OwnBroker]) -> None:
    kafka = any_own_kafka()
    downgrade = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    with Wire(kafka.bootstrap_servers) as wire:
        answer = wire.ask(UpdateFeaturesRequest(feature_updates=[downgrade]), 2)
    assert answer.error_code == 0, answer
    with here(kafka, "g") as consumer:
        consumer.subscribe([kafka.new_topic()])
        with pytest.raises(BrokerError, match=r"set group\.protocol=classic, or use Kafka 4\.0 or newer"):
            poll_until(consumer, lambda: False)

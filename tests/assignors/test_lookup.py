"""Assignors by name, and the user data that members of each send to their leader."""

from __future__ import annotations

import pytest

from kcli.assignors.lookup import STRATEGIES, find_strategy
from kcli.errors import ConfigError
from kcli.protocol.consumer_protocol import Subscription, TopicPartitions
from kcli.structs import TopicPartition

OWNED = (TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("u", 7))
STICKY, COOPERATIVE = STRATEGIES["sticky"], STRATEGIES["cooperative-sticky"]
# StickyAssignor: [topic [partitions]] generation. CooperativeStickyAssignor: generation.
STICKY_V1 = bytes.fromhex("00000002000174000000020000000100000000000175000000010000000700000009")
# What confluent-kafka 2 (librdkafka) says as a cooperative member that owns t-2 and t-3 of generation 2, in a v3
# subscription. Before its v2 a subscription had no other place for the generation.
LIBRDKAFKA = bytes.fromhex("0000000100017400000002000000020000000300000002")


def test_strategies_are_found_by_kafkas_name_and_by_java_class() -> None:
    assert find_strategy("sticky") is STRATEGIES["sticky"]
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    assert find_strategy(java) is STRATEGIES["cooperative-sticky"]
    assert [each.name for each in STRATEGIES.values() if each.cooperative] == ["cooperative-sticky"]


def test_an_unknown_strategy_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match="'fair' is not a known assignor; use one of range, roundrobin, sticky, cooperative-sticky"
    ):
        find_strategy("fair")


def test_range_and_round_robin_write_no_user_data() -> None:
    assert find_strategy("range").user_data(OWNED, 9) is None
    assert find_strategy("roundrobin").user_data(OWNED, 9) is None


def test_sticky_writes_its_last_assignment_and_generation() -> None:
    assert STICKY.user_data(OWNED, 9) == STICKY_V1
    assert STICKY.user_data((), 9) == bytes.fromhex("0000000000000009")
    assert STICKY.user_data((), -1) is None


def test_cooperative_sticky_writes_its_generation() -> None:
    assert COOPERATIVE.user_data(OWNED, 9) == bytes.fromhex("00000009")
    assert COOPERATIVE.user_data((), -1) == bytes.fromhex("ffffffff")


def test_the_sticky_leader_reads_user_data_only() -> None:
    given_members = Subscription(
        topics=["t"],
        user_data=STICKY_V1,
        owned_partitions=[TopicPartitions(topic="else", partitions=[1])],
        generation_id=3,
        rack_id="r1",
    )
    member = STICKY.member("m-1", given_members, "i-1")
    assert (member.owned, member.generation) == (OWNED, 9)
    assert (member.id, member.topics, member.rack, member.instance_id) == ("m-1", {"t"}, "r1", "i-1")


def test_the_sticky_leader_reads_user_data_without_a_generation() -> None:
    member = STICKY.member("m-1", Subscription(topics=["t"], user_data=STICKY_V1[:-4]), None)
    assert (member.owned, member.generation) == (OWNED, -1)


@pytest.mark.parametrize("data", [None, b"", b"\0", b"nonsense", STICKY_V1[:9], b"\x7f\xff\xff\xff"])
def test_malformed_user_data_counts_as_absent(data: bytes | None) -> None:
    member = STICKY.member("m-1", Subscription(topics=["t"], user_data=data), None)
    assert (member.owned, member.generation) == ((), -1)


def test_the_cooperative_leader_reads_the_subscription_and_before_its_v2_the_user_data() -> None:
    owned = [TopicPartitions(topic="t", partitions=[1, 0]), TopicPartitions(topic="u", partitions=[7])]
    new = Subscription(topics=["t"], user_data=b"\0\0\0\1", owned_partitions=owned, generation_id=9)
    old = Subscription(topics=["t"], user_data=b"\0\0\0\1", owned_partitions=owned)
    broken = Subscription(topics=["t"], user_data=b"\1", owned_partitions=owned)
    assert [COOPERATIVE.member("m", each, None)[2:4] for each in (new, old, broken)] == [
        (OWNED, 9),
        (OWNED, 1),
        (OWNED, -1),
    ]


def test_librdkafka_writes_its_generation_after_the_owned_partitions() -> None:
    owned = [TopicPartitions(topic="t", partitions=[2, 3])]
    for generation in (2, -1):
        given_members = Subscription(
            topics=["t"], user_data=LIBRDKAFKA, owned_partitions=owned, generation_id=generation
        )
        member = COOPERATIVE.member("m", given_members, None)
        assert (member.owned, member.generation) == ((TopicPartition("t", 2), TopicPartition("t", 3)), 2)

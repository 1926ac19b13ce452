"""Classic groups with members of kcat, confluent-kafka, Java and kcli; KIP-848 groups with all but kcat."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from kcli.admin.groups.survey import survey_groups
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import TopicPartition
from tests.interop.clients.test_confluent_groups import fill
from tests.interop.groups.group_configs import LONGEST_SESSION_S, new_group
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

Start = Callable[..., MemberProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return `start("java", kafka, group, topics, ...)`; members that still run are killed after the test."""
    with contextlib.ExitStack() as members:
        yield lambda maker, *where, **how: members.enter_context(MAKERS[maker](*where, **how))


def partitions(topic: str, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}


def in_order(member: MemberProcess, topic: str) -> dict[int, list[int]]:
    """Return the offsets that it read, by partition."""
    found: dict[int, list[int]] = {}
    for name, number, offset in member.records():
        assert name == topic
        found.setdefault(number, []).append(offset)
    return found


def seen(kafka: Kafka, group: str) -> dict[str, tuple[set[TopicPartition], dict[TopicPartition, int]]]:
    """Return what kcli reports of a group: by client id the owned partitions, and their committed offsets."""
    client = connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))
    try:
        surveyed = survey_groups(client, [group], client.clock.now_ms() + 10_000)
    finally:
        client.close()
    found = surveyed.values[group]
    assert not surveyed.errors
    assert found.group.state == "Stable"
    result: dict[str, tuple[set[TopicPartition], dict[TopicPartition, int]]] = {}
    for member in found.group.members:
        mine = [row for row in found.partitions if row.member is not None and row.member.id == member.id]
        result[member.client_id] = set(member.owned), {row.tp: row.committed.offset for row in mine if row.committed}
    return result


def a_life(kafka: Kafka, start: Start, maker: str, how: dict[str, str]) -> None:
    """One member reads all, a second joins and gets half, kcli describes both, the first leaves."""
    topic = kafka.new_topic(partitions=4)
    if how.get("protocol") == "consumer":
        group = new_group(kafka, LONGEST_SESSION_S)
    else:
        group, how = kafka.new_name("group"), {**how, "session_timeout_ms": f"{LONGEST_SESSION_S * 1000:.0f}"}
    fill(kafka, topic, range(40))
    whole = partitions(topic, 0, 1, 2, 3)
    seldom = {"auto_commit_interval_ms": "600000"} if maker == "kcat" else {}  # else after 5 s, wherever we are then
    first = start(maker, kafka, group, [topic], client_id="first", **how, **seldom)
    first.wait_assigned(whole)
    first.wait_records(40)
    assert in_order(first, topic) == {number: list(range(10)) for number in range(4)}
    second = start("confluent", kafka, group, [topic], client_id="second", **how)
    share = second.wait_assigned(2)
    first.wait_assigned(whole - share)
    offsets = {} if maker == "kcat" else dict.fromkeys(whole - share, 10)  # kcat commits when revoked and leaving
    expected = {"first": (whole - share, offsets), "second": (share, dict.fromkeys(share, 10))}
    first.wait(lambda: seen(kafka, group) == expected, "kcli to see what they say")
    first.leave()
    assert first.assigned() == set()
    second.wait_assigned(whole, timeout_s=LONGEST_SESSION_S / 3)  # it left the group: its session has not ended
    fill(kafka, topic, range(40))
    second.wait_records(40)
    assert in_order(second, topic) == {number: list(range(10, 20)) for number in range(4)}, "what was not committed"
    second.leave()


@pytest.mark.parametrize("maker", ["kcat", "confluent", "kcli"])
def test_members_of_a_classic_group_on_our_broker(our_kafka: Kafka, start: Start, maker: str) -> None:
    a_life(our_kafka, start, maker, {"assignor": "range" if maker == "confluent" else "cooperative-sticky"})


@pytest.mark.parametrize("maker", ["java", "kcli"])
def test_members_of_a_classic_group_on_apache_kafka(real_kafka: Kafka, start: Start, maker: str) -> None:
    a_life(real_kafka, start, maker, {"assignor": "cooperative-sticky"})


@pytest.mark.parametrize("maker", ["confluent", "java", "kcli"])
def test_members_of_a_kip848_group(real_kafka: Kafka, start: Start, maker: str) -> None:
    """KIP-848."""
    a_life(real_kafka, start, maker, {"protocol": "consumer", "assignor": "uniform"})


def test_a_killed_or_stopped_member_loses_its_partitions(our_kafka: Kafka, start: Start) -> None:
    """The test helpers themselves, with a client that is known to be right."""
    topic, group = our_kafka.new_topic(partitions=2), our_kafka.new_name("group")
    first = start("confluent", our_kafka, group, topic, session_timeout_ms=1_000)
    second = start("confluent", our_kafka, group, topic, session_timeout_ms=1_000)
    second.wait_assigned(1)
    first.wait_assigned(1)  # it had both until then
    second.pause()
    first.wait_assigned(2)
    assert len(second.assigned()) == 1, "it does not know"
    second.resume()
    second.wait(lambda: bool(second.events_of("lost")), "the loss of its partition")
    first.wait_assigned(1)
    first.kill()
    second.wait_assigned(2)
    with pytest.raises(AssertionError, match=r"confluent member .*waited 0.2 s, for the assignment 3; its last words"):
        second.wait_assigned(3, timeout_s=0.2)
    with pytest.raises(AssertionError, match=r"ended with -9, for 5 records"):
        first.wait_records(5)

"""Classic groups driven by kcat, confluent-kafka, Java and kcli; KIP-848 groups by confluent-kafka, Java and kcli."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from kcli.structs import TopicPartition
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.interop.strangers.test_confluent_groups import fill
from tests.real_kafka import Kafka, KafkaNode

Start = Callable[..., MemberProcess]

# Members of KIP-848 beat as often as their broker says; its default is every 5 s.
NEXT_GENERATION = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}


@pytest.fixture
def start() -> Iterator[Start]:
    """`start("java", kafka, group, topics, ...)`; what runs at the end of the test is killed."""
    with contextlib.ExitStack() as members:
        yield lambda maker, *where, **how: members.enter_context(MAKERS[maker](*where, **how))


@pytest.fixture(scope="module")
def next_generation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """A Kafka whose KIP-848 members beat often; one for all tests of a file."""
    node = KafkaNode(tmp_path_factory.mktemp("kafka"), request.getfixturevalue("kafka_jars"), settings=NEXT_GENERATION)
    node.start()
    yield node
    node.kill()


def partitions(topic: str, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}


def in_order(member: MemberProcess, topic: str) -> dict[int, list[int]]:
    """The offsets it read, by partition."""
    found: dict[int, list[int]] = {}
    for name, number, offset in member.records():
        assert name == topic
        found.setdefault(number, []).append(offset)
    return found


def a_life(kafka: Kafka, topic: str, start: Start, maker: str, how: dict[str, str]) -> None:
    """One member reads all, a second of the same maker takes half, the first leaves, the second goes on alone."""
    group = kafka.new_name("group")
    first = start(maker, kafka, group, [topic], **how)
    first.wait_assigned(partitions(topic, 0, 1, 2, 3))
    first.wait_records(40)
    assert in_order(first, topic) == {number: list(range(10)) for number in range(4)}
    second = start(maker, kafka, group, [topic], **how)
    share = second.wait_assigned(2)
    first.wait_assigned(partitions(topic, 0, 1, 2, 3) - share)
    first.leave()
    assert first.assigned() == set()
    second.wait_assigned(partitions(topic, 0, 1, 2, 3), timeout_s=4)  # at once: the session is 6 s
    fill(kafka, topic, range(40))
    second.wait_records(40)
    assert in_order(second, topic) == {number: list(range(10, 20)) for number in range(4)}, "what was committed"
    second.leave()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("maker", ["kcat", "confluent", "java", "kcli"])
def test_members_of_a_classic_group(any_kafka: Kafka, start: Start, maker: str, assignor: str) -> None:
    topic = any_kafka.new_topic(partitions=4)
    fill(any_kafka, topic, range(40))
    a_life(any_kafka, topic, start, maker, {"assignor": assignor})


@pytest.mark.parametrize("assignor", ["range", "uniform"])
@pytest.mark.parametrize("maker", ["confluent", "java", "kcli"])
def test_members_of_a_group_that_its_broker_assigns(
    next_generation: KafkaNode, start: Start, maker: str, assignor: str
) -> None:
    """KIP-848."""
    topic = next_generation.new_topic(partitions=4)
    fill(next_generation, topic, range(40))
    a_life(next_generation, topic, start, maker, {"protocol": "consumer", "assignor": assignor})


def test_a_member_that_is_killed_or_stopped_loses_its_partitions(our_kafka: Kafka, start: Start) -> None:
    """The drivers' own tools, with a client that is known to be right."""
    topic, group = our_kafka.new_topic(partitions=2), our_kafka.new_name("group")
    first = start("confluent", our_kafka, group, topic, session_timeout_ms=1_000)
    second = start("confluent", our_kafka, group, topic, session_timeout_ms=1_000)
    second.wait_assigned(1)
    second.pause()
    first.wait_assigned(2)
    assert len(second.assigned()) == 1, "it does not know"
    second.resume()
    second.wait(lambda: bool(second.told("lost")), "the loss of its partition")
    first.wait_assigned(1)
    first.kill()
    second.wait_assigned(2)
    with pytest.raises(AssertionError, match=r"confluent member .*waited 0.2 s, for the assignment 3; its last words"):
        second.wait_assigned(3, timeout_s=0.2)
    with pytest.raises(AssertionError, match=r"ended with -9, for 5 records"):
        first.wait_records(5)

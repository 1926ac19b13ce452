"""The server assignors against Kafka's group coordinator: its classes on thousands of groups, and a live one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from kcli.admin.topics import create_partitions
from kcli.assignors import lookup
from kcli.assignors.java_hashing import hash_of_text, timeline_walk
from kcli.assignors.model import Assignment, Member, Topic
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.structs import TopicPartition
from tests.assignors.server_cases import make_server_cases
from tests.interop.assignors.compare import compare_servers
from tests.interop.assignors.live_group import LiveGroup, targets, topic_ids
from tests.interop.assignors.oracle import SERVERS_CLASSES, Oracle
from tests.needs import SUMMARY
from tests.real_kafka import Kafka

CASES = 2_000
STEPS = 14


def test_two_thousand_groups_are_assigned_as_the_coordinators_classes_do(
    kafka_jars: Path, record_property: Callable[[str, object], None]
) -> None:
    """Equal and unequal subscriptions, static members, previous targets of every kind, large groups."""
    with Oracle(kafka_jars, source=SERVERS_CLASSES) as oracle:
        wrong = compare_servers(oracle, list(make_server_cases(CASES, seed=20261121)))
    assert not wrong, "\n".join(wrong[:3])
    record_property(SUMMARY, f"{CASES} groups under the server's assignors beside the group coordinator's classes")


@pytest.fixture
def client(real_kafka: Kafka) -> Iterator[ConsumerNetworkClient]:
    with connect(ClientConfig.from_properties({"bootstrap.servers": real_kafka.bootstrap_servers})) as connected:
        yield connected


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_live_group_gets_the_forecast_target(real_kafka: Kafka, client: ConsumerNetworkClient, assignor: str) -> None:
    """Members join, leave and change subscriptions, topics grow; each target of the coordinator is forecast."""
    sizes = dict.fromkeys((real_kafka.new_topic(each) for each in (9, 4, 5, 6)), 0)
    random = Random(assignor)
    group = LiveGroup(client, real_kafka.new_name("group"), assignor)
    group.join("first", sizes)
    described = group.at_rest()
    ids = topic_ids(described)
    sizes = {name: sum(each.topic == name for each in targets(described)["first"]) for name in sizes}
    instances: dict[str, str] = {}
    for step in range(STEPS):
        before = targets(described)
        _something_happens(client, random, group, sizes, instances, step)
        described = group.at_rest(described.group_epoch)
        after = targets(described)
        expected = _foresee(assignor, group, before, {n: Topic(sizes[n], id=ids[n]) for n in sizes}, instances)
        assert {member: sorted(partitions) for member, partitions in after.items()} == expected, step
        assert list(after) == timeline_walk(after, hash_of_text), "members in the order that is taken for usual"
    assert len(after) > 3
    group.leave_all()


def _something_happens(
    client: ConsumerNetworkClient,
    random: Random,
    group: LiveGroup,
    sizes: dict[str, int],
    instances: dict[str, str],
    step: int,
) -> None:
    some = random.sample(list(sizes), random.randint(1, len(sizes))) if step >= STEPS // 2 else list(sizes)
    what = random.choice(("join", "join", "join", "leave", "grow", "subscribe" if step >= STEPS // 2 else "join"))
    if what == "leave" and len(group.topics) > 3:
        group.leave(random.choice(list(group.topics)))
    elif what == "grow":
        name = random.choice([topic for topics in group.topics.values() for topic in topics])
        sizes[name] += random.randint(1, 20)
        create_partitions(client, {name: sizes[name]}, client.clock.now_ms() + 20_000)
    elif what == "subscribe" and len(group.topics) > 1 and (who := random.choice(list(group.topics))):
        group.subscribe(who, set(sizes) - set(group.topics[who]) or some[:1])
    else:
        newcomer = str(UUID(int=random.getrandbits(128)))
        if random.random() < 0.3:
            instances[newcomer] = f"instance-{random.random()}"
        group.join(newcomer, some, instances.get(newcomer))


def _foresee(
    assignor: str,
    group: LiveGroup,
    before: dict[str, tuple[TopicPartition, ...]],
    topics: dict[str, Topic],
    instances: dict[str, str],
) -> Assignment:
    """Return the target of the current members; new members come after the previous ones."""
    order = [*(each for each in before if each in group.topics), *(each for each in group.topics if each not in before)]
    members = [
        Member(each, frozenset(group.topics[each]), before.get(each, ()), instance_id=instances.get(each))
        for each in order
    ]
    return lookup.SERVER_ASSIGNORS[lookup.name_on_server(assignor)](topics, members)

"""`kcli group describe` and Apache's group tool report the same about the same group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.interop.clients.test_confluent_groups import fill
from tests.interop.clients.test_java_groups import group_table
from tests.interop.groups.members import MAKERS
from tests.interop.groups.test_group_reads import commit, items, kcli_group
from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka

READ, STORED = 3, 2  # partitions of the subscribed topic, and of one with committed offsets only


class Scene(NamedTuple):
    kafka: Kafka
    group: str


@contextlib.contextmanager
def a_group_with_everything(kafka: Kafka, protocol: str) -> Iterator[Scene]:
    """Partitions owned and committed, owned but never committed, committed but unowned, with and without lag; two
    members.
    """
    read, stored = kafka.new_topic(partitions=READ), kafka.new_topic(partitions=STORED, prefix="a")
    group = kafka.new_name("group")
    fill(kafka, read, range(30), READ)
    fill(kafka, stored, range(10), STORED)
    commit(kafka, group, (read, 0, 4), (read, 1, 10), (stored, 0, 0), (stored, 1, 5))
    how = {"protocol": protocol, "commit": "none"}
    with (
        MAKERS["confluent"](kafka, group, read, client_id="one", **how) as first,
        MAKERS["confluent"](kafka, group, read, client_id="two", instance_id="till-2", **how) as second,
    ):
        wait_until(lambda: {len(first.assigned()), len(second.assigned())} == {1, 2}, f"shares: {first} {second}", 30)
        yield Scene(kafka, group)


@pytest.fixture(scope="module")
def classic(any_kafka: Kafka) -> Iterator[Scene]:
    with a_group_with_everything(any_kafka, "classic") as scene:
        yield scene


@pytest.fixture(scope="module")
def consumer(real_kafka: Kafka) -> Iterator[Scene]:
    with a_group_with_everything(real_kafka, "consumer") as scene:
        yield scene


def same_partitions(scene: Scene) -> None:
    """Return group, topic, partition, committed, end, lag, member, host (Apache's has a slash), client id."""
    theirs = group_table(scene.kafka, "--describe", "--group", scene.group)
    ours = [line.split() for line in kcli_group(scene.kafka, "describe", scene.group).text.splitlines()]
    at = [ours[0].index(name) for name in ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST")]
    at.append(ours[0].index("CLIENT-ID"))
    assert len(ours) == 1 + READ + STORED
    assert sorted([row[column] for column in at] for row in ours[1:]) == sorted(
        [*row[:7], row[7].removeprefix("/"), *row[8:]] for row in theirs
    )


def test_the_partitions_of_a_classic_group_are_equal(classic: Scene) -> None:
    same_partitions(classic)


def test_the_partitions_of_a_kip848_group_are_equal(consumer: Scene) -> None:
    same_partitions(consumer)


def test_the_members_are_equal(consumer: Scene) -> None:
    """Member id, instance id, client id, number of partitions, epoch, assignment, target epoch, target."""
    theirs = group_table(consumer.kafka, "--describe", "--group", consumer.group, "--members", "--verbose")
    (group,) = items(consumer.kafka, "describe", consumer.group, "--members")
    ours = []
    for it in group["members"]:
        who = [it["member"], it["instance_id"] or "-", it["client_id"], it["partition_count"]]
        what = [it["epoch"], _words(it, "assignment"), group["target_epoch"], _words(it, "target")]
        ours.append([str(word) for word in who + what])
    whole = [row if len(row) == 10 else [*row[:2], "-", *row[2:]] for row in theirs]  # no instance id is just blank
    assert sorted(ours) == sorted([*row[1:3], *row[4:]] for row in whole)


def _words(member: dict[str, dict[str, list[int]]], field: str) -> str:
    """Return `topic:0,1;other:2`."""
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in member[field].items())


def test_the_state_is_equal(consumer: Scene) -> None:
    """Coordinator, strategy, state, group epoch, target epoch, members."""
    (theirs,) = group_table(consumer.kafka, "--describe", "--group", consumer.group, "--state", "--verbose")
    (ours,) = items(consumer.kafka, "describe", consumer.group, "--state")
    node = ours["coordinator"]
    assert theirs == [
        *(consumer.group, f"{node['host']}:{node['port']}", f"({node['node']})", ours["assignor"], ours["state"]),
        *(str(ours[field]) for field in ("epoch", "target_epoch", "member_count")),
    ]

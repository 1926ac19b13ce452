"""Forecasts of `kcli assignor diff` come true in live groups of the Java client and of others.

The numbers of partitions divide evenly. Otherwise hash codes of member ids decide in Kafka's sticky assignors which of
several members gets one partition more, and a forecast cannot know them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from kcli.admin.topics import create_partitions
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import TopicPartition
from tests.cli.fake import run_kcli
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

Start = Callable[..., MemberProcess]
Shares = dict[str, set[TopicPartition]]

QUICK = {"commit": "none", "metadata_max_age_ms": "500"}


@pytest.fixture
def start() -> Iterator[Start]:
    """Return `start("java", kafka, group, topics, client_id=...)`; members that still run are killed after the test."""
    with contextlib.ExitStack() as members:
        yield lambda maker, *where, **how: members.enter_context(MAKERS[maker](*where, **QUICK, **how))


def forecast(kafka: Kafka, group: str, *words: str) -> dict[str, Any]:
    """Return the only item of `kcli assignor diff`."""
    done = run_kcli("assignor", "diff", group, *words, "-b", kafka.bootstrap_servers, "--output", "json")
    assert (done.status, done.err) == (0, ""), done.err
    (item,) = json.loads(done.out)["items"]
    found: dict[str, Any] = item
    return found


def partitions(result: dict[str, list[int]] | None) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for topic, numbers in (result or {}).items() for number in numbers}


def shares(item: dict[str, Any]) -> Shares:
    """Return the forecast partitions by client id, which also names new members."""
    return {it["client_id"] or it["member"]: partitions(it["assignment"]) for it in item["members"]}


def grow(kafka: Kafka, topic: str, count: int) -> None:
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))) as client:
        assert create_partitions(client, {topic: count}, client.clock.now_ms() + 10_000).errors == {}


def wait_for(members: dict[str, MemberProcess], wanted: Shares) -> None:
    """Wait until all members report exactly these partitions at the same time."""
    assert wanted.keys() == members.keys()

    def reached() -> bool:
        return {name: member.assigned() for name, member in members.items()} == wanted

    next(iter(members.values())).wait(reached, f"{wanted} of {members}")


def taken_since(member: MemberProcess, before: int) -> set[TopicPartition]:
    """Return the partitions that the member had to revoke after so many events."""
    return {TopicPartition(*tp) for event in member.events_of("revoked")[before:] for tp in event["partitions"]}


class Newcomer(NamedTuple):
    """A member that joins a group of two that read two topics: its topics, and its instance id."""

    topics: slice
    instance_id: str | None = None

    def words(self, topics: list[str]) -> str:
        return f"b={','.join(topics[self.topics])}" + (f":{self.instance_id}" if self.instance_id else "")


BOTH, FIRST, SECOND = slice(0, 2), slice(0, 1), slice(1, 2)
STORIES = {
    "range": Newcomer(FIRST, "static-b"),  # the only static member stands before the others
    "roundrobin": Newcomer(SECOND),
    "sticky": Newcomer(BOTH),
    "cooperative-sticky": Newcomer(BOTH),
}


def a_life(kafka: Kafka, start: Start, maker: str, assignor: str) -> None:
    """Members a and c exist; b joins and sorts between them; a topic grows; a leaves. Every step is forecast."""
    topics, group = [kafka.new_topic(6), kafka.new_topic(3)], kafka.new_name("group")
    newcomer = STORIES[assignor]
    members = {name: start(maker, kafka, group, topics, client_id=name, assignor=assignor) for name in "ac"}
    members["a"].wait(lambda: all(map(MemberProcess.assigned, members.values())), "both to have something")

    item = forecast(kafka, group, "--add", newcomer.words(topics))
    revocations = {name: len(member.events_of("revoked")) for name, member in members.items()}
    before = {name: member.assigned() for name, member in members.items()}
    static = {} if newcomer.instance_id is None else {"instance_id": newcomer.instance_id}
    others = start(maker, kafka, group, topics[newcomer.topics], client_id="b", assignor=assignor, **static)
    wait_for({**members, "b": others}, shares(item))
    given_up = {name: taken_since(member, revocations[name]) for name, member in members.items()}
    if assignor == "cooperative-sticky":
        assert item["rebalances"] == 2
        assert given_up["a"] | given_up["c"] == partitions(item["withheld"])
        assert len(given_up["a"] | given_up["c"]) == item["stopped"]["cooperative"] == item["moved"]
    else:
        assert item["rebalances"] == 1
        assert given_up == before
        assert sum(map(len, given_up.values())) == item["stopped"]["eager"]
    members["b"] = others
    assert forecast(kafka, group)["moves"] == [], "at rest nothing more would move"

    item = forecast(kafka, group, "--partitions", f"{topics[0]}=9")
    grow(kafka, topics[0], 9)
    wait_for(members, shares(item))

    item = forecast(kafka, group, "--remove", "a")
    members["a"].leave()
    del members["a"]
    wait_for(members, {name: share for name, share in shares(item).items() if name != "a"})
    assert item["given_up"] == 0


@pytest.mark.parametrize("assignor", STORIES)
def test_java_members_get_the_forecast_assignment(real_kafka: Kafka, start: Start, assignor: str) -> None:
    a_life(real_kafka, start, "java", assignor)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_our_members_on_our_broker_get_the_forecast_assignment(our_kafka: Kafka, start: Start, assignor: str) -> None:
    a_life(our_kafka, start, "kcli", assignor)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_broker_assigns_as_forecast(real_kafka: Kafka, start: Start, assignor: str) -> None:
    """KIP-848: member ids are random, so instance ids put b between the others."""
    topic, group = real_kafka.new_topic(6), real_kafka.new_name("group")

    def enter(name: str) -> MemberProcess:
        how = {"protocol": "consumer", "assignor": assignor, "instance_id": name, "client_id": name}
        return start("kcli", real_kafka, group, topic, **how)

    members = {name: enter(name) for name in "ac"}
    members["a"].wait(lambda: all(len(it.assigned()) == 3 for it in members.values()), "both to have their half")
    item = forecast(real_kafka, group, "--add", "b=:b")
    assert item["assignor"] == {"uniform": "uniform", "range": "server-range"}[assignor]
    members["b"] = enter("b")
    wait_for(members, shares(item))
    assert forecast(real_kafka, group)["moves"] == []

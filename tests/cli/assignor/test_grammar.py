"""Members, topics and what is owned, as the command line writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.assignors.model import Member, Topic
from kcli.cli.assignor.assignors import on_server, parse_assignor, parse_assignors
from kcli.cli.assignor.grammar import parse_counts, parse_members, parse_owned, parse_topic_facts, shown_partitions
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("a", Member("a", NONE)),
        ("a=orders,payments", Member("a", frozenset({"orders", "payments"}))),
        ("a=orders@use1-az1", Member("a", frozenset({"orders"}), rack="use1-az1")),
        ("a=orders:worker-7", Member("a", frozenset({"orders"}), instance_id="worker-7")),
        ("a=orders@r 1:worker-7", Member("a", frozenset({"orders"}), rack="r 1", instance_id="worker-7")),
        ("a=:worker-7", Member("a", NONE, instance_id="worker-7")),
        ("me@host:1", Member("me@host:1", NONE)),
        ("consumer-g-1-2ae7=orders", Member("consumer-g-1-2ae7", frozenset({"orders"}))),
    ],
)
def test_a_member_says_what_it_reads_and_where_it_is(text: str, member: Member) -> None:
    assert parse_members("--member", [text]) == [member]


def test_topics_have_partitions_and_these_have_racks() -> None:
    both, second = frozenset({"a", "b"}), frozenset({"b", "c"})
    assert parse_topic_facts(["orders", "bills=6", "ghost=0", "near=3@a+b,b+c"]) == {
        "orders": None,
        "bills": Topic(6),
        "ghost": Topic(0),
        "near": Topic(3, (both, second, both)),
    }
    assert parse_counts("--partitions", ["orders=24"]) == {"orders": 24}


def test_what_is_owned_adds_up_and_is_of_generation_1_unless_it_says_so() -> None:
    members = parse_members("--member", ["a", "b", "c"])
    a, b, c = parse_owned(["a=orders:0-1,5;bills:1", "b=orders:2@7", "a=orders:3"], members)
    assert list(map(str, a.owned)) == ["orders-0", "orders-1", "orders-5", "bills-1", "orders-3"]
    assert (a.generation, b.generation, b.owned) == (1, 7, (TopicPartition("orders", 2),))
    assert c == Member("c", NONE), "it has just come"


def test_partitions_are_shown_as_they_are_read() -> None:
    (member,) = parse_owned(["a=orders:0-3,7,9-10;bills:1"], [Member("a", NONE)])
    assert shown_partitions(member.owned) == "bills:1;orders:0-3,7,9-10"
    assert shown_partitions(()) is None


def test_an_assignor_is_named_as_kafka_names_it() -> None:
    assert parse_assignors("--compare", ["range,sticky", "range, uniform"]) == ["range", "sticky", "uniform"]
    assert parse_assignor("--to", "org.apache.kafka.clients.consumer.StickyAssignor") == "sticky"
    assert (on_server("range"), on_server("uniform"), on_server("sticky")) == ("server-range", "uniform", "sticky")


def owned(texts: list[str]) -> list[Member]:
    return parse_owned(texts, [Member("a", NONE)])


def members(texts: list[str]) -> list[Member]:
    return parse_members("--member", texts)


def counts(texts: list[str]) -> dict[str, int]:
    return parse_counts("--partitions", texts)


def assignors(texts: list[str]) -> list[str]:
    return parse_assignors("--compare", texts)


@pytest.mark.parametrize(
    ("parse", "texts", "words"),
    [
        (members, [""], "--member is NAME[=TOPIC,TOPIC...[@RACK][:INSTANCE]], not ''"),
        (members, ["a="], "not 'a='"),
        (members, ["=orders"], "not '=orders'"),
        (members, ["a=orders@"], "not 'a=orders@'"),
        (members, ["a=orders:"], "not 'a=orders:'"),
        (members, ["a=orders,"], "'' cannot be the name of a topic"),
        (members, ["a=or ders"], "'or ders' cannot be the name of a topic"),
        (members, ["a=orders", "a=bills"], "there is a member a already"),
        (parse_topic_facts, ["orders="], "--topic is TOPIC=N, N partitions up to 1000000, not 'orders='"),
        (parse_topic_facts, ["orders=-1"], "not 'orders=-1'"),
        (parse_topic_facts, ["orders=1000001"], "not 'orders=1000001'"),
        (parse_topic_facts, ["orders=two"], "not 'orders=two'"),
        (parse_topic_facts, [".."], "'..' cannot be the name of a topic"),
        (parse_topic_facts, ["orders=1", "orders=2"], "topic orders was given before"),
        (counts, ["orders"], "--partitions is TOPIC=N"),
        (owned, ["a"], "--owned is NAME=TOPIC:0,1,2[;TOPIC:3...][@GENERATION], not 'a'"),
        (owned, ["a=orders:0@x"], "not 'a=orders:0@x'"),
        (owned, ["a=orders"], "say which partitions of orders, as orders:0,1"),
        (owned, ["a=orders:x"], "'x' is not a valid list of partitions"),
        (owned, ["b=orders:0"], "there is no --member b"),
        (assignors, ["rnge"], "there is no assignor 'rnge'; did you mean range?"),
        (assignors, ["mine"], "there are range, roundrobin, sticky, cooperative-sticky, uniform, server-range"),
        (assignors, ["range,"], "one is missing in 'range,'"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(parse: Callable[[list[str]], Any], texts: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(texts)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)

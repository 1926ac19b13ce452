"""Grammar of members, topics and owned partitions on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.assignors.lookup import assignor_name, name_on_server
from kcli.assignors.model import Member, Topic
from kcli.cli.assignor.grammar import (
    format_assignment,
    parse_assignors,
    parse_counts,
    parse_described_topics,
    parse_members,
    parse_owned,
)
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

NO_TOPICS: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("a", Member("a", NO_TOPICS)),
        ("a=orders,payments", Member("a", frozenset({"orders", "payments"}))),
        ("a=orders@use1-az1", Member("a", frozenset({"orders"}), rack="use1-az1")),
        ("a=orders:worker-7", Member("a", frozenset({"orders"}), instance_id="worker-7")),
        ("a=orders@r 1:worker-7", Member("a", frozenset({"orders"}), rack="r 1", instance_id="worker-7")),
        ("a=:worker-7", Member("a", NO_TOPICS, instance_id="worker-7")),
        ("me@host:1", Member("me@host:1", NO_TOPICS)),
        ("consumer-g-1-2ae7=orders", Member("consumer-g-1-2ae7", frozenset({"orders"}))),
    ],
)
def test_a_member_has_topics_a_rack_and_an_instance_id(text: str, member: Member) -> None:
    assert parse_members("--member", [text]) == [member]


def test_topics_have_partitions_and_racks() -> None:
    both, second = frozenset({"a", "b"}), frozenset({"b", "c"})
    assert parse_described_topics(["orders", "bills=6", "ghost=0", "near=3@a+b,b+c"]) == {
        "orders": None,
        "bills": Topic(6),
        "ghost": Topic(0),
        "near": Topic(3, (both, second, both)),
    }
    assert parse_counts("--partitions", ["orders=24"]) == {"orders": 24}


def test_owned_partitions_add_up_and_default_to_generation_1() -> None:
    members = parse_members("--member", ["a", "b", "c"])
    a, b, c = parse_owned(["a=orders:0-1,5;bills:1", "b=orders:2@7", "a=orders:3"], members)
    assert list(map(str, a.owned)) == ["orders-0", "orders-1", "orders-5", "bills-1", "orders-3"]
    assert (a.generation, b.generation, b.owned) == (1, 7, (TopicPartition("orders", 2),))
    assert c == Member("c", NO_TOPICS), "without --owned it is a new member"


def test_an_assignment_is_formatted_as_it_is_parsed() -> None:
    (member,) = parse_owned(["a=orders:0-3,7,9-10;bills:1"], [Member("a", NO_TOPICS)])
    assert format_assignment(member.owned) == "bills:1;orders:0-3,7,9-10"
    assert format_assignment(()) is None


def test_assignors_have_kafkas_names() -> None:
    assert parse_assignors("--to", "uniform", ["range,sticky", "range, uniform"]) == ["uniform", "range", "sticky"]
    assert assignor_name("org.apache.kafka.clients.consumer.StickyAssignor") == "sticky"
    assert tuple(map(name_on_server, ("range", "uniform", "sticky"))) == ("server-range", "uniform", "sticky")


def owned(texts: list[str]) -> list[Member]:
    return parse_owned(texts, [Member("a", NO_TOPICS)])


def members(texts: list[str]) -> list[Member]:
    return parse_members("--member", texts)


def counts(texts: list[str]) -> dict[str, int]:
    return parse_counts("--partitions", texts)


def assignors(texts: list[str]) -> list[str]:
    return parse_assignors("--to", None, texts)


@pytest.mark.parametrize(
    ("parse", "texts", "words"),
    [
        (members, [""], "--member: '' is not valid; write NAME[=TOPIC,TOPIC...[@RACK][:INSTANCE]]"),
        (members, ["a="], "'a=' is not valid"),
        (members, ["=orders"], "'=orders' is not valid"),
        (members, ["a=orders@"], "'a=orders@' is not valid"),
        (members, ["a=orders:"], "'a=orders:' is not valid"),
        (members, ["a=orders,"], "'' is not a valid topic name"),
        (members, ["a=or ders"], "'or ders' is not a valid topic name"),
        (members, ["a=orders", "a=bills"], "member a is given twice"),
        (
            parse_described_topics,
            ["orders="],
            "--topic: 'orders=' is not valid; write TOPIC=N with 0 to 1000000 partitions",
        ),
        (parse_described_topics, ["orders=-1"], "'orders=-1' is not valid"),
        (parse_described_topics, ["orders=1000001"], "'orders=1000001' is not valid"),
        (parse_described_topics, ["orders=two"], "'orders=two' is not valid"),
        (parse_described_topics, [".."], "'..' is not a valid topic name"),
        (parse_described_topics, ["orders=1", "orders=2"], "topic orders is given twice"),
        (counts, ["orders"], "--partitions: 'orders' is not valid; write TOPIC=N"),
        (owned, ["a"], "--owned: 'a' is not valid; write NAME=TOPIC:0,1,2[;TOPIC:3...][@GENERATION]"),
        (owned, ["a=orders:0@x"], "'a=orders:0@x' is not valid"),
        (owned, ["a=orders"], "the partitions of orders are missing; write orders:0,1"),
        (owned, ["a=orders:x"], "'x' is not a valid list of partitions"),
        (owned, ["b=orders:0"], "member b is not given; add --member b"),
        (assignors, ["rnge"], "'rnge' is not a known assignor; did you mean range?"),
        (assignors, ["mine"], "use one of range, roundrobin, sticky, cooperative-sticky, uniform, server-range"),
        (assignors, ["range,"], "--compare: 'range,' has an empty name"),
    ],
)
def test_an_invalid_value_is_one_error_line(parse: Callable[[list[str]], Any], texts: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(texts)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)

"""`kcli assignor show`: without a cluster where it is told all topics."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.cli.fake import Result, run_kcli
from tests.real_kafka import Kafka

NOBODY = ("-b", "127.0.0.1:1", "--timeout", "2")  # no broker is there: whoever asks one fails


def show(*words: str) -> Result:
    return run_kcli("assignor", "show", *words, *NOBODY)


# Written as the fact cases are: topics, members, and what Kafka 4.3.1 computes.
CASES = {
    "R1": (
        "--strategy range --topic topic1=3 --topic topic2=2 "
        "--member consumer1=topic1 --member consumer2=topic1,topic2 --member consumer3=topic1",
        "consumer1=topic1:0 consumer2=topic1:1;topic2:0-1 consumer3=topic1:2",
    ),
    "R3": (
        "--strategy range --topic topic1=3 --topic topic2=3 --member consumer-b=:instance1 --member consumer-a",
        "consumer-b=topic1:0-1;topic2:0-1 consumer-a=topic1:2;topic2:2",
    ),
    "R8-rack-all-everywhere": (
        "--strategy range --topic t1=4@a+b --member c1=t1@b --member c2=t1@a",
        "c1=t1:0-1 c2=t1:2-3",
    ),
    "R9-missing-topic": (
        "--strategy range --topic t1=2 --topic ghost=0 --member c1=t1,ghost --member c2=ghost",
        "c1=t1:0-1 c2=-",
    ),
    "RR3-static": (
        "--strategy roundrobin --topic topic1=5 --topic topic2=5 "
        "--member z=:instance1 --member y=:instance2 --member x=:instance3",
        "z=topic1:0,3;topic2:1,4 y=topic1:1,4;topic2:2 x=topic1:2;topic2:0,3",
    ),
    "S5-remove-two": (
        "--strategy sticky --topic topic1=3 --topic topic2=4 --member consumer3 --member consumer4 "
        "--owned consumer3=topic1:2;topic2:3 --owned consumer4=topic2:2",
        "consumer3=topic1:0,2;topic2:1,3 consumer4=topic1:1;topic2:0,2",
    ),
    "CS3 after CS2": (
        "--strategy cooperative-sticky --topic topic=3 --member consumer1 --member consumer2 "
        "--owned consumer1=topic:0-2",
        "consumer1=topic:0-1 consumer2=topic:2",
    ),
    "S7-double-claim-same-gen": (
        "--strategy sticky --topic topic=3 --member consumer1 --member consumer2 --member consumer3 "
        "--owned consumer1=topic:0-1 --owned consumer2=topic:0,2",
        "consumer1=topic:1 consumer2=topic:2 consumer3=topic:0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_outcome_is_kafkas_own(name: str) -> None:
    words, expected = CASES[name]
    shown = show(*words.split(), "--output", "csv")
    assert shown.status == 0, shown.err
    rows = csv.DictReader(io.StringIO(shown.text))
    assert " ".join(f"{row['member']}={row['partitions'] or '-'}" for row in rows) == expected


def test_a_table_for_people_and_how_even_it_is() -> None:
    shown = show("-s", "range", "-m", "a=orders,bills", "-m", "b=orders@r1", "-t", "orders=3", "-t", "bills=1")
    assert [line.split() for line in shown.text.splitlines()] == [
        ["MEMBER", "RACK", "COUNT", "PARTITIONS"],
        ["a", "-", "3", "bills:0;orders:0-1"],
        ["b", "r1", "1", "orders:2"],
    ]
    assert shown.err == "range: 4 partitions for 2 members\nskew (most by mean): partitions 1.50\n"


def test_what_is_owned_is_kept_or_lost_and_two_rebalances_are_told() -> None:
    words = ("-m", "a", "-m", "b", "-t", "orders=4", "--owned", "a=orders:0-3")
    shown = show("-s", "cooperative-sticky", *words)
    assert [line.split() for line in shown.text.splitlines()] == [
        ["MEMBER", "COUNT", "PARTITIONS", "KEPT", "GAINED", "LOST"],
        ["a", "2", "orders:0-1", "2", "-", "orders:2-3"],
        ["b", "2", "orders:2-3", "0", "orders:2-3", "-"],
    ]
    assert "2 rebalances; between the first and the last nobody has orders:2-3" in shown.err
    assert "4 under the eager protocol, 2 under the cooperative one" in shown.err
    (item,) = json.loads(show("-s", "cooperative-sticky", *words, "--output", "json").out)["items"]
    assert (item["moved"], item["kept"], item["rebalances"], item["withheld"]) == (2, 2, 2, {"orders": [2, 3]})
    assert item["members"][0]["assignment"] == {"orders": [0, 1]}
    assert item["skew"]["before"]["partitions"] == {"most": 4, "mean": 2, "ratio": 2}
    assert item["skew"]["after"]["partitions"]["ratio"] == 1


def test_assignors_side_by_side() -> None:
    words = ("--compare", "range,roundrobin,uniform,server-range", "-m", "a", "-m", "b", "-t", "x=1", "-t", "y=1")
    rows = [line.split() for line in show(*words).text.splitlines()]
    place = rows[0].index("SKEW")
    assert [(row[0], row[place]) for row in rows[1:]] == [
        ("range", "2"),
        ("roundrobin", "1"),
        ("uniform", "1"),
        ("server-range", "2"),
    ]
    items = json.loads(show(*words, "--output", "json").out)["items"]
    assert [(item["assignor"], item["idle"]) for item in items][:2] == [("range", ["b"]), ("roundrobin", [])]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("", 2, "say which assignor: --strategy NAME, or --compare NAME,NAME for several"),
        ("-s range", 2, "say who the members are: --member NAME=TOPIC,TOPIC for each"),
        ("-s rang -m a", 2, "--strategy: there is no assignor 'rang'; did you mean range?"),
        ("-s range -m a", 2, "say what the members read: --member NAME=TOPIC,TOPIC, or --topic TOPIC=PARTITIONS"),
        ("-s range -m a -t x=1 --owned b=x:0", 2, "there is no --member b"),
        ("-s range -m a -t x=1 --owned a=y:0", 2, "--owned: no member reads topic y, and no --topic names it"),
        ("-s range -m a -t x=1 --owned a=x:1", 2, "--owned: there is no x-1; topic x has 1"),
        ("-s range -m a=x", 5, "the cluster was asked for x; --topic NAME=N tells without it"),
    ],
)
def test_one_line_for_what_is_wrong(words: str, status: int, told: str) -> None:
    refused = show(*words.split())
    assert (refused.status, refused.out) == (status, b"")
    assert told in refused.err
    assert refused.err.count("\n") == 1


def test_topics_may_come_from_the_cluster(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(3)
    where = ("-b", any_kafka.bootstrap_servers)
    shown = run_kcli("assignor", "show", "-s", "range", "-m", f"a={topic},new", "-m", "b", "-t", "new=2", *where)
    assert [line.split()[1:] for line in shown.text.splitlines()[1:]] == [
        ["3", f"new:0;{topic}:0-1"],
        ["2", f"new:1;{topic}:2"],
    ], "b says nothing and reads all that is named"
    gone = run_kcli("assignor", "show", "-s", "range", "-m", f"a={topic},{topic}-gone", *where)
    assert (gone.status, gone.err.count("\n")) == (3, 1)
    assert f"there is no topic {topic}-gone (did you mean {topic}" in gone.err

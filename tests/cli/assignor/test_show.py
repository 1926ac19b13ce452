"""`kcli assignor show`: it needs no cluster if all topics are given."""

from __future__ import annotations

import csv
import io

import pytest

from tests.cli.fake import Result, run_kcli
from tests.real_kafka import Kafka

NOBODY = ("-b", "127.0.0.1:1", "--timeout", "2")  # no broker listens there: a request fails


def show(*words: str) -> Result:
    return run_kcli("assignor", "show", *words, *NOBODY)


# Topics, members, and the assignment that Kafka 4.3.1 computes.
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
def test_the_assignment_is_kafkas(name: str) -> None:
    words, expected = CASES[name]
    shown = show(*words.split(), "--output", "csv")
    assert shown.status == 0, shown.err
    rows = csv.DictReader(io.StringIO(shown.text))
    assert " ".join(f"{row['member']}={row['partitions'] or '-'}" for row in rows) == expected


def test_the_table_and_the_skew() -> None:
    shown = show("-s", "range", "-m", "a=orders,bills", "-m", "b=orders@r1", "-t", "orders=3", "-t", "bills=1")
    assert [line.split() for line in shown.text.splitlines()] == [
        ["MEMBER", "RACK", "COUNT", "PARTITIONS"],
        ["a", "-", "3", "bills:0;orders:0-1"],
        ["b", "r1", "1", "orders:2"],
    ]
    assert shown.err == "range: 4 partitions for 2 members\nskew (largest / mean): partitions 1.50\n"


def test_owned_partitions_are_kept_or_lost_and_two_rebalances_are_reported() -> None:
    words = ("-m", "a", "-m", "b", "-t", "orders=4", "--owned", "a=orders:0-3")
    shown = show("-s", "cooperative-sticky", *words)
    assert [line.split() for line in shown.text.splitlines()] == [
        ["MEMBER", "COUNT", "PARTITIONS", "KEPT", "GAINED", "LOST"],
        ["a", "2", "orders:0-1", "2", "-", "orders:2-3"],
        ["b", "2", "orders:2-3", "0", "orders:2-3", "-"],
    ]
    assert "2 rebalances; between the first and the last no member has orders:2-3" in shown.err
    assert "4 with the eager protocol, 2 with the cooperative protocol" in shown.err
    (item,) = show("-s", "cooperative-sticky", *words, "--output", "json").document["items"]
    assert (item["moved"], item["kept"], item["rebalances"], item["withheld"]) == (2, 2, 2, {"orders": [2, 3]})
    assert item["members"][0]["assignment"] == {"orders": [0, 1]}
    assert item["skew"]["before"]["partitions"] == {"most": 4, "mean": 2, "ratio": 2}
    assert item["skew"]["after"]["partitions"]["ratio"] == 1


def test_compare_has_one_row_per_assignor() -> None:
    words = ("--compare", "range,roundrobin,uniform,server-range", "-m", "a", "-m", "b", "-t", "x=1", "-t", "y=1")
    rows = [line.split() for line in show(*words).text.splitlines()]
    place = rows[0].index("SKEW")
    assert [(row[0], row[place]) for row in rows[1:]] == [
        ("range", "2"),
        ("roundrobin", "1"),
        ("uniform", "1"),
        ("server-range", "2"),
    ]
    items = show(*words, "--output", "json").document["items"]
    assert [(item["assignor"], item["idle"]) for item in items][:2] == [("range", ["b"]), ("roundrobin", [])]


@pytest.mark.parametrize(
    ("words", "status", "expected_error"),
    [
        ("", 2, "the assignor is missing; give --strategy NAME, or --compare NAME,NAME for several"),
        ("-s range", 2, "the members are missing; give --member NAME=TOPIC,TOPIC for each"),
        ("-s rang -m a", 2, "--strategy: 'rang' is not a known assignor; did you mean range?"),
        (
            "-s range -m a",
            2,
            "no topic is given; add topics to --member NAME=TOPIC,TOPIC, or give --topic TOPIC=PARTITIONS",
        ),
        ("-s range -m a -t x=1 --owned b=x:0", 2, "member b is not given; add --member b"),
        ("-s range -m a -t x=1 --owned a=y:0", 2, "--owned: no member subscribes to topic y, and no --topic names it"),
        ("-s range -m a -t x=1 --owned a=x:1", 2, "--owned: there is no partition x-1; topic x has 1 partition"),
        ("-s range -m a=x", 5, "to run without a cluster, give --topic NAME=N for x"),
    ],
)
def test_an_invalid_request_is_one_error_line(words: str, status: int, expected_error: str) -> None:
    refused = show(*words.split())
    assert (refused.status, refused.out) == (status, b"")
    assert expected_error in refused.err
    assert refused.err.count("\n") == 1


def test_topics_are_looked_up_in_the_cluster(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(3)
    where = ("-b", any_kafka.bootstrap_servers)
    shown = run_kcli("assignor", "show", "-s", "range", "-m", f"a={topic},new", "-m", "b", "-t", "new=2", *where)
    assert [line.split()[1:] for line in shown.text.splitlines()[1:]] == [
        ["3", f"new:0;{topic}:0-1"],
        ["2", f"new:1;{topic}:2"],
    ], "b names no topics and so subscribes to all of them"
    gone = run_kcli("assignor", "show", "-s", "range", "-m", f"a={topic},{topic}-gone", *where)
    assert (gone.status, gone.err.count("\n")) == (3, 1)
    assert f"there is no topic {topic}-gone (did you mean {topic}" in gone.err

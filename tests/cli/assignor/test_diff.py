"""`kcli assignor diff` of a live group, on both brokers, and of one that the command line describes."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from kcli.admin.assignments import LiveGroup
from kcli.admin.groups.group import Group
from kcli.admin.offsets.commits import commit_offsets
from kcli.assignors.model import Member, Topic
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli.assignor.forecast_report import make_forecasts, summary_lines
from kcli.cli.assignor.situation import Situation
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import Node, OffsetAndMetadata, TopicPartition
from tests.cli.fake import Result, run_kcli
from tests.real_kafka import Kafka

PATIENCE_S = 30
HOUR_MS = 3_600_000
NEW, OLD, COMMITTED = 30, 10, 5  # records in each partition that has some, from now and from an hour ago


READ_ONLY = {
    "ApiVersions",
    "Metadata",
    "FindCoordinator",
    "ConsumerGroupDescribe",
    "DescribeGroups",
    "OffsetFetch",
    "ListOffsets",
}


class Scene(NamedTuple):
    """A group of two that has read some of a topic with 4 partitions; a is static, b is not; both have two."""

    kafka: Kafka
    topic: str
    group: str

    def diff(self, *words: str) -> Result:
        return run_kcli("assignor", "diff", *words, "-b", self.kafka.bootstrap_servers, "--timeout", "20")

    def item(self, *words: str) -> dict[str, Any]:
        done = self.diff(self.group, *words, "--output", "json")
        assert (done.status, done.err) == (0, ""), done.err
        (found,) = done.document["items"]
        item: dict[str, Any] = found
        return item


@pytest.fixture(scope="module")
def scene(any_kafka: Kafka) -> Iterator[Scene]:
    """One group for all tests of a broker: they do not change it."""
    from confluent_kafka import Consumer

    found = Scene(any_kafka, any_kafka.new_topic(4), any_kafka.new_name("group"))
    _fill(found)
    common = {
        "bootstrap.servers": any_kafka.bootstrap_servers,
        "group.id": found.group,
        "partition.assignment.strategy": "range",
        "enable.auto.commit": False,
    }
    consumers = [
        Consumer({**common, "client.id": "a", "group.instance.id": "a1"}),
        Consumer({**common, "client.id": "b"}),
    ]
    try:
        for consumer in consumers:
            consumer.subscribe([found.topic])
        deadline = time.monotonic() + PATIENCE_S
        while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
            assert time.monotonic() < deadline, "no assignment"
            for consumer in consumers:
                consumer.poll(0.1)
        _commit(consumers, 0, 2)
        yield found
    finally:
        for consumer in consumers:
            consumer.close()


def _fill(scene: Scene) -> None:
    """Partitions 0 and 2 have old records and new ones, partition 1 has old ones; nothing is in partition 3.

    The new ones are ahead of the clock, so that they stay within the last minute however long the tests take.
    """
    now_ms = int(time.time() * 1000) + HOUR_MS // 2
    producer = scene.kafka.ordered_producer()
    for partition, new in ((0, NEW), (1, 0), (2, NEW)):
        for at_ms in (*[now_ms - 2 * HOUR_MS] * OLD, *[now_ms] * new):
            producer.produce(scene.topic, b"v", partition=partition, timestamp=at_ms)
    assert producer.flush(PATIENCE_S) == 0


def _commit(consumers: list[Any], *partitions: int) -> None:
    """As the members do that have them, so that the group takes it while it is running."""
    for consumer in consumers:
        mine = [it for it in consumer.assignment() if it.partition in partitions]
        for it in mine:
            it.offset = COMMITTED
        consumer.commit(offsets=mine, asynchronous=False)


def shares(scene: Scene, item: dict[str, Any]) -> dict[str, list[int]]:
    """By client id, or the name of a new member, the numbers of the partitions it will have; None for one that goes."""
    return {
        it["client_id"] or it["member"]: it["assignment"] and it["assignment"].get(scene.topic, [])
        for it in item["members"]
    }


# --- changes of the group


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"a": [0, 1], "b": [2, 3]}),
        ("--to roundrobin", {"a": [0, 2], "b": [1, 3]}),
        ("--to org.apache.kafka.clients.consumer.RoundRobinAssignor", {"a": [0, 2], "b": [1, 3]}),
        ("--members +1", {"a": [0, 1], "b": [2], "~new-1": [3]}),
        ("--members -1", {"a": [0, 1, 2, 3], "b": None}),
        ("--add c=:a0", {"a": [2], "b": [3], "c": [0, 1]}),
        ("--add Z", {"Z": [2], "a": [0, 1], "b": [3]}),
        ("--remove a1", {"a": None, "b": [0, 1, 2, 3]}),
        ("--remove a", {"a": None, "b": [0, 1, 2, 3]}),
        ("--partitions {topic}=8", {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}),
        ("--to sticky --partitions {topic}=8", {"a": [0, 1, 4, 6], "b": [2, 3, 5, 7]}),
        ("--to sticky --members +1 --add c --remove b --partitions {topic}=6", {"a": [0, 1], "b": None}),
    ],
)
def test_the_forecast_of_the_next_rebalance(scene: Scene, words: str, expected: dict[str, list[int] | None]) -> None:
    """Today range has given 0 and 1 to a, which is static and stands first, and 2 and 3 to b."""
    item = scene.item(*words.format(topic=scene.topic).split())
    found = shares(scene, item)
    assert {name: found[name] for name in expected} == expected
    partitions = sorted(number for numbers in found.values() for number in numbers or ())
    assert partitions == list(range(len(partitions)))
    before = {it["client_id"]: it["assignment_before"] for it in item["members"] if it["client_id"]}
    assert before == {"a": {scene.topic: [0, 1]}, "b": {scene.topic: [2, 3]}}


def test_moves_stopped_partitions_and_skew_by_count_lag_and_rate(scene: Scene) -> None:
    """Round robin gives both partitions that are written to and lag to a."""
    item = scene.item("--to", "roundrobin")
    lag, rate = NEW + OLD - COMMITTED, NEW / 60
    assert (item["today"], item["moved"], item["kept"], item["idle"]) == ("range", 2, 2, [])
    assert item["stopped"] == {"eager": 4, "cooperative": 2}
    ids = {it["client_id"]: it["member"] for it in item["members"]}
    assert item["moves"] == [
        {"topic": scene.topic, "partition": 1, "from": ids["a"], "to": ids["b"]},
        {"topic": scene.topic, "partition": 2, "from": ids["b"], "to": ids["a"]},
    ]
    assert item["skew"]["before"] == {
        "partitions": {"most": 2, "mean": 2, "ratio": 1},
        "lag": {"most": lag, "mean": lag, "ratio": 1},
        "rate": {"most": rate, "mean": rate, "ratio": 1},
    }
    assert item["skew"]["after"] == {
        "partitions": {"most": 2, "mean": 2, "ratio": 1},
        "lag": {"most": 2 * lag, "mean": lag, "ratio": 2},
        "rate": {"most": 2 * rate, "mean": rate, "ratio": 2},
    }
    assert (item["rate_window_ms"], item["unknown_lags"]) == (60_000, {scene.topic: [1]})


def test_the_table_and_its_summary_lines(scene: Scene) -> None:
    shown = scene.diff(scene.group, "--members", "+1")
    a, b, new = ([*line.split()[1:]] for line in shown.text.splitlines()[1:])
    topic, lag = scene.topic, str(NEW + OLD - COMMITTED)
    assert a == ["a", "a1", "stays", "2", "2", "2", "-", "-", lag, lag, "0.5", "0.5"]
    assert b == ["b", "-", "stays", "2", "1", "1", "-", f"{topic}:3", lag, lag, "0.5", "0.5"]
    assert new == ["-", "-", "new", "-", "1", "0", f"{topic}:3", "-", "-", "0", "-", "0"]
    for words in (
        "range: 1 partition moved, 3 kept\n",
        "stopped during the rebalance: 4 with the eager protocol, 1 with the cooperative protocol",
        "skew (largest / mean): partitions 1.00 -> 1.50; lag 1.00 -> 1.50; rate 1.00 -> 1.50",
        "range depends on the order of member ids; new members sort last here, give ids with --add NAME",
        "RATE: offsets per second in the last 60 s, by record timestamps",
        "LAG: unknown for 1 partition (no committed offset, or failed); not included",
    ):
        assert words in shown.err


def test_compare_has_one_row_per_assignor(scene: Scene) -> None:
    shown = scene.diff(scene.group, "--compare", "range,sticky,uniform", "--to", "roundrobin", "--output", "csv")
    rows = [*csv.DictReader(io.StringIO(shown.text))]
    assert [(it["assignor"], it["moved"], it["kept"], it["lag_skew"], it["stopped_eager"]) for it in rows] == [
        ("today", "", "", "1", ""),
        ("roundrobin", "2", "2", "2", "4"),
        ("range", "0", "4", "1", "4"),
        ("sticky", "0", "4", "1", "4"),
        ("uniform", "0", "4", "1", "4"),
    ]
    lines = scene.diff(scene.group, "--compare", "range,sticky", "--output", "jsonl").text.splitlines()
    assert [json.loads(line)["assignor"] for line in lines] == ["range", "sticky"]


# --- invalid requests


@pytest.mark.parametrize(
    ("words", "status", "expected_error"),
    [
        ("{group}-gone", 3, "GROUP_ID_NOT_FOUND: there is no group {group}-gone (did you mean {group}"),
        ("{group} --to rang", 2, "--to: 'rang' is not a known assignor; did you mean range?"),
        ("{group} --compare range,mine", 2, "--compare: 'mine' is not a known assignor; use one of range, roundrobin,"),
        ("{group} --remove c", 3, "there is no member c; the members are "),
        ("{group} --add c=gone", 3, "--add: there is no topic gone; to assume one, add --partitions gone=N"),
        ("{group} --partitions gone=3", 3, "no member subscribes to topic gone; subscribed: {topic}"),
        ("{group} --partitions {topic}=3", 2, "topic {topic} has 4 partitions; Kafka cannot reduce them to 3"),
        ("{group} --partitions {topic}", 2, "--partitions: '{topic}' is not valid; write TOPIC=N"),
        ("{group} --members 3", 2, "--members: '3' is not valid; use +N to add N members or -N to remove N"),
        ("{group} --members -3", 2, "cannot remove 3 members: there are only 2"),
        (
            "{group} --member a",
            2,
            "--member describes a group that need not exist; it cannot be combined with GROUP ({group})",
        ),
        ("{group} --strategy range", 2, "--strategy describes a group that need not exist"),
        ("", 2, "GROUP is missing; give a group of the cluster, or describe one with --member NAME=TOPIC,TOPIC"),
        ("--member a={topic}", 2, "the assignor is missing; give --strategy NAME or --to NAME"),
        ("--member a=gone --to range", 3, "there is no topic gone"),
    ],
)
def test_an_invalid_request_is_one_error_line(scene: Scene, words: str, status: int, expected_error: str) -> None:
    names = {"group": scene.group, "topic": scene.topic}
    refused = scene.diff(*words.format(**names).split())
    assert (refused.status, refused.out) == (status, b"")
    assert expected_error.format(**names) in refused.err
    assert refused.err.count("\n") == 1


def test_a_group_without_members_is_forecast_with_added_members_and_read_only_requests() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 3)
        with closing(connect(ClientConfig.from_properties({"bootstrap.servers": broker.address}))) as client:
            commit_offsets(
                client, "g", {TopicPartition("orders", 0): OffsetAndMetadata(0)}, client.clock.now_ms() + 9e3
            )
        done = len(broker.requests)
        where = ("assignor", "diff", "g", "-b", broker.address, "--timeout", "10")
        assert "has no members and therefore no assignor; give one with --to NAME" in run_kcli(*where).err
        refused = run_kcli(*where, "--to", "range", "--members", "+2")
        assert (refused.status, refused.err) == (
            4,
            "kcli: group g has no members; add some with --add NAME=TOPIC,TOPIC\n",
        )
        shown = run_kcli(*where, "--to", "range", "--add", "a=orders", "--members", "+1", "--output", "json")
        (item,) = shown.document["items"]
        assert {it["member"]: it["assignment"] for it in item["members"]} == {
            "a": {"orders": [0, 1]},
            "~new-1": {"orders": [2]},
        }
        asked = {it.api for it in broker.requests[done:]}
    assert asked <= READ_ONLY


def live(*shares: tuple[str, str | None, list[int]], topics: dict[str, Topic]) -> Situation:
    """A classic group of range, as it would have been looked at."""
    members = [
        Member(name, frozenset(topics), tuple(TopicPartition("t", n) for n in numbers), 1, None, instance)
        for name, instance, numbers in shares
    ]
    group = Group("g", "classic", "Stable", Node(1, "h", 9092), "consumer", "range")
    return Situation("range", topics, members, LiveGroup(group, "range", topics, members, [], {}, {}))


def summary(found: Situation) -> str:
    return "\n".join(summary_lines(make_forecasts(found, ["range"]), with_before=True, compared=False))


def test_a_leader_with_another_client_library_is_reported() -> None:
    """Java's puts static members first (KIP-345), librdkafka's goes by member ids."""
    four = {"t": Topic(4)}
    assert "differs from Kafka's" not in summary(live(("z", "i", [0, 1]), ("b", None, [2, 3]), topics=four))
    lines = summary(live(("z", "i", [2, 3]), ("b", None, [0, 1]), topics=four))
    assert "today's assignment differs from Kafka's range: the group leader runs a different client library" in lines


# --- without a cluster


def test_a_group_described_on_the_command_line() -> None:
    """Without --owned its members have what today's assignor gives them."""
    words = ("--strategy", "range", "--member", "a", "--member", "b", "--topic", "orders=6")
    nobody = ("-b", "127.0.0.1:1", "--timeout", "2")
    shown = run_kcli("assignor", "diff", *words, "--to", "sticky", "--members", "+1", *nobody)
    assert [line.split() for line in shown.text.splitlines()] == [
        ["MEMBER", "CHANGE", "BEFORE", "AFTER", "KEPT", "GAINED", "LOST"],
        ["a", "stays", "3", "2", "2", "-", "orders:2"],
        ["b", "stays", "3", "2", "2", "-", "orders:5"],
        ["~new-1", "new", "-", "2", "0", "orders:2,5", "-"],
    ]
    assert shown.err.startswith("range today, then sticky: 2 partitions moved, 4 kept\n")
    more = ("--owned", "a=orders:0-5", "--remove", "b", "--partitions", "orders=8", "--add", "c=orders")
    shown = run_kcli("assignor", "diff", *words, *more, "--compare", "sticky,uniform", *nobody)
    assert [line.split()[:2] for line in shown.text.splitlines()[1:]] == [
        ["today", "2"],
        ["sticky", "2"],
        ["uniform", "2"],
    ]
    moved = shown.text.splitlines()[0].split().index("MOVED")
    assert [line.split()[moved] for line in shown.text.splitlines()[2:]] == ["2", "2"]

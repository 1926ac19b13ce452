"""`kcli transaction` with kcli's broker and Apache Kafka: what it lists, and what it aborts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kcli import Admin, BrokerError, Producer
from tests.cli.fake import Result, run_kcli
from tests.limits import Limit
from tests.real_kafka import Kafka


def transaction(kafka: Kafka, *words: str) -> Result:
    return run_kcli("transaction", *words, "-b", kafka.bootstrap_servers)


def items(kafka: Kafka, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in transaction(kafka, *words, "-O", "jsonl").out.splitlines()]


class Scene:
    """A producer with an open transaction in partition 1 of a topic; the id is the topic's name."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.topic = kafka.new_topic(2)
        self.producer = Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=self.topic)
        self.producer.begin_transaction()
        self.producer.send(self.topic, b"open", partition=1)
        self.producer.flush()

    def state(self) -> str:
        (found,) = items(self.kafka, "describe", self.topic)
        state: str = found["state"]
        return state


@pytest.fixture
def scene(any_kafka: Kafka) -> Iterator[Scene]:
    scene = Scene(any_kafka)
    yield scene
    scene.producer.close(flush=False)


def test_an_open_transaction_is_listed_and_described(scene: Scene) -> None:
    (listed,) = items(scene.kafka, "list", "--match", f"^{scene.topic}$", "--state", "ongoing,Empty")
    assert listed["coordinator"]["port"] == int(scene.kafka.bootstrap_servers.rpartition(":")[2])
    (described,) = items(scene.kafka, "describe", scene.topic)
    assert listed == {**described, "coordinator": listed["coordinator"], "age_ms": listed["age_ms"]}
    assert described["state"] == "Ongoing"
    assert described["topics"] == [{"topic": scene.topic, "partitions": [1]}]
    assert (described["timeout_ms"], described["epoch"]) == (60_000, 0)
    assert 0 <= described["age_ms"] < 60_000
    assert items(scene.kafka, "list", "--producer-id", str(described["producer_id"]))[0]["state"] == "Ongoing"
    assert items(scene.kafka, "list", "--match", scene.topic, "--older-than", "10m") == []
    names = transaction(scene.kafka, "list", "--names", "--match", scene.topic)
    assert names == Result(0, f"{scene.topic}\n".encode(), "")
    table = transaction(scene.kafka, "list", "--match", scene.topic).out.decode().splitlines()
    assert f"{scene.topic}:1" in table[1].split()
    scene.producer.commit_transaction()
    wait_for(scene, "CompleteCommit")
    (ended,) = items(scene.kafka, "describe", scene.topic)
    assert (ended["age_ms"], ended["started_ms"], ended["topics"]) == (None, None, [])


def wait_for(scene: Scene, *states: str) -> None:
    """Describe until the markers are written: brokers answer EndTxn before."""
    limit = Limit(f"the transaction in a state of {states}")
    while scene.state() not in states:
        limit.check()


def test_the_abort_of_an_id_is_a_plan_until_execute(scene: Scene) -> None:
    plan = transaction(scene.kafka, "abort", scene.topic)
    assert plan.status == 0
    assert "would-be-aborted" in plan.out.decode()
    assert f"{scene.topic}:1" in plan.out.decode().split()
    (planned,), (described,) = items(scene.kafka, "abort", scene.topic), items(scene.kafka, "describe", scene.topic)
    assert planned == {**described, "age_ms": planned["age_ms"], "status": "would-be-aborted"}
    assert scene.state() == "Ongoing"
    done = transaction(scene.kafka, "abort", scene.topic, "--execute")
    assert (done.status, done.out.decode().splitlines()[1].split()[1]) == (0, "aborted")
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        scene.producer.commit_transaction()
    wait_for(scene, "Empty", "CompleteAbort")
    again = transaction(scene.kafka, "abort", scene.topic, "--execute")
    assert (again.status, again.out.decode().splitlines()[1].split()[1]) == (0, "unchanged")


def test_the_same_for_python(scene: Scene) -> None:
    with Admin(scene.kafka.bootstrap_servers) as admin:
        found = admin.list_transactions(states=["Ongoing"], match=scene.topic)
        assert list(found.listed) == [scene.topic]
        (opened,) = admin.open_transactions(scene.topic).transactions
        assert (opened.transactional_id, opened.start_offset, opened.hanging) == (scene.topic, 0, False)
        aborted = admin.abort_transactions(scene.topic, "no-such-id")
        assert (list(aborted.values), list(aborted.errors)) == ([scene.topic], ["no-such-id"])
        wait_for(scene, "Empty", "CompleteAbort")


def test_an_id_that_does_not_exist_prevents_the_abort_of_others(scene: Scene) -> None:
    run = transaction(scene.kafka, "abort", scene.topic, "no-such-id", "--execute")
    assert run.status == 3
    assert "TRANSACTIONAL_ID_NOT_FOUND: there is no transactional id no-such-id" in run.err
    assert scene.state() == "Ongoing"
    found = transaction(scene.kafka, "describe", scene.topic + "x")
    assert found.status == 3
    assert f"there is no transactional id {scene.topic}x (did you mean" in found.err


def test_the_command_that_a_refusal_prints_can_be_pasted(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)
    name = f"-{topic} it's\n kcli:  x; $(exit 7)"
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        place = ("--topic", topic, "--partition", "0", "--start-offset", "0")
        refused = transaction(any_kafka, "abort", *place, "--execute").err
        command = re.search("`kcli transaction (.*)`$", refused, re.MULTILINE)
        assert command, refused
        pasted = ["bash", "-c", f"printf '%s\\0' {command[1]}"]
        words = subprocess.run(pasted, capture_output=True, check=True, timeout=20).stdout.decode().split("\0")[:-1]
        assert words[-1] == name
        done = run_kcli("transaction", "abort", "-b", any_kafka.bootstrap_servers, "--execute", *words[1:])
        assert (done.status, done.err) == (0, "")
        with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
            producer.commit_transaction()


def test_a_transaction_that_a_coordinator_knows_does_not_hang(scene: Scene) -> None:
    run = transaction(scene.kafka, "hanging", scene.topic)
    assert (run.status, len(run.out.splitlines())) == (0, 1)
    place = ("--topic", scene.topic, "--partition", "1", "--start-offset")
    refused = transaction(scene.kafka, "abort", *place, "0", "--execute")
    assert refused.status == 4
    assert f"the coordinator of {scene.topic} knows the transaction (state Ongoing)" in refused.err
    missing = transaction(scene.kafka, "abort", *place, "7", "--execute")
    assert missing.status == 3
    assert "those that are open start at 0" in missing.err
    scene.producer.commit_transaction()


@pytest.mark.parametrize(
    ("words", "blame"),
    [
        (("abort",), "give either transactional ids, or --topic"),
        (("abort", "a", "--topic", "t"), "give either transactional ids, or --topic"),
        (("abort", "--topic", "t", "--partition", "0"), "needs --topic, --partition and --start-offset"),
        (("abort", ""), "transactional id must not be empty"),
        (("describe", ""), "transactional id must not be empty"),
        (("list", "--state", "open"), "--state: 'open' is not valid; use Empty, Ongoing, "),
        (("list", "--older-than", "soon"), "--older-than: 'soon' is not valid"),
        (("list", "--match", "("), "--match"),
        (("list", "--producer-id", "-1"), "--producer-id: -1 is out of range"),
        (("list", "--producer-id", str(1 << 63)), "--producer-id: 9223372036854775808 is out of range"),
    ],
)
def test_usage_errors(words: tuple[str, ...], blame: str) -> None:
    run = run_kcli("transaction", *words, "-b", "127.0.0.1:1")
    assert run.status == 2
    assert blame in run.err


def test_no_broker_answers() -> None:
    assert run_kcli("transaction", "list", "-b", "127.0.0.1:1", "--timeout", "0.3").status == 5

"""Kafka's group tool and verifiable consumer: rebalances, lag, moved offsets."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.shapes import produce, wait_until
from tests.limits import join
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow


def group_tool(kafka: Kafka, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return kafka.tool("ConsumerGroupCommand", "--bootstrap-server", kafka.bootstrap_servers, *arguments, check=check)


def group_words(kafka: Kafka, *arguments: str, check: bool = True) -> str:
    """Return all output of the tool, stderr included."""
    done = group_tool(kafka, *arguments, check=check)
    return done.stdout + done.stderr


def group_table(kafka: Kafka, *arguments: str) -> list[list[str]]:
    """Return the words of the lines below the heading."""
    lines = [line.split() for line in group_tool(kafka, *arguments).stdout.splitlines() if line.strip()]
    heading = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    return lines[heading + 1 :]


class Verifier:
    """A VerifiableConsumer in the background, and the events that it prints."""

    def __init__(self, kafka: Kafka, group: str, topic: str, *arguments: str) -> None:
        servers = ("--bootstrap-server", kafka.bootstrap_servers)
        names = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--session-timeout", "6000")
        command = [*kafka.java("VerifiableConsumer"), *servers, *names, "--verbose", *arguments]
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.events.extend(json.loads(line) for line in self._process.stdout if line.startswith("{"))

    def events_of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["name"] == name]

    @property
    def partitions(self) -> list[int]:
        """The last assignment."""
        assigned = self.events_of("partitions_assigned")
        return sorted(tp["partition"] for tp in assigned[-1]["partitions"]) if assigned else []

    @property
    def values(self) -> list[int]:
        return [int(event["value"]) for event in self.events_of("record_data")]

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
        join(self._reader)


def soon(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, what, timeout_s=90)


def test_java_members_share_a_topic_and_the_tool_lists_them(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    verifiers = [Verifier(any_kafka, group, topic), Verifier(any_kafka, group, topic)]
    try:
        soon(lambda: [len(one.partitions) for one in verifiers] == [2, 2], "two partitions each")
        servers = ("--bootstrap-server", any_kafka.bootstrap_servers)
        limits = ("--max-messages", "1000", "--throughput", "20000")
        result = any_kafka.tool("VerifiableProducer", *servers, "--topic", topic, *limits).stdout.splitlines()
        acked = [int(event["value"]) for event in map(json.loads, result) if event["name"] == "producer_send_success"]
        assert sorted(acked) == list(range(1_000))
        soon(lambda: sum(len(one.values) for one in verifiers) >= 1_000, "all records")
        assert sorted(value for one in verifiers for value in one.values) == list(range(1_000))

        soon(lambda: sum(int(row[5]) for row in described(any_kafka, group)) == 0, "no lag")
        table = described(any_kafka, group)
        assert [row[1] for row in table] == [topic] * 4
        assert len({row[6] for row in table}) == 2
        members = group_table(any_kafka, "--describe", "--group", group, "--members", "--verbose")
        assert sorted(row[4] for row in members) == ["2", "2"]
        state = group_table(any_kafka, "--describe", "--group", group, "--state")
        assert state == [[group, any_kafka.bootstrap_servers, "(1)", "range", "Stable", "2"]]
        listed = group_table(any_kafka, "--list", "--state", "Stable")
        assert [group, "Stable"] in listed
        assert "The group is not empty" in group_words(any_kafka, "--delete", "--group", group)

        verifiers[0].end()
        soon(lambda: verifiers[1].partitions == [0, 1, 2, 3], "the one that is left to take over")
    finally:
        for one in verifiers:
            one.end()


def described(kafka: Kafka, group: str) -> list[list[str]]:
    """Return group, topic, partition, current offset, log end offset, lag, member, host, client."""
    table = group_table(kafka, "--describe", "--group", group)
    return [["0" if word == "-" and column == 5 else word for column, word in enumerate(row)] for row in table]


def test_offsets_are_reset_and_deleted(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    produce(any_kafka, topic, [b"%d" % n for n in range(10)])

    def reset(*how: str) -> list[list[str]]:
        return group_table(any_kafka, "--reset-offsets", "--group", group, "--topic", topic, *how, "--execute")

    assert reset("--to-latest") == [[group, topic, "0", "10"]]
    assert reset("--shift-by", "-4") == [[group, topic, "0", "6"]]
    assert reset("--to-datetime", "2020-01-01T00:00:00.000") == [[group, topic, "0", "0"]]
    assert reset("--to-offset", "3") == [[group, topic, "0", "3"]]
    assert [row[:6] for row in group_table(any_kafka, "--describe", "--group", group)] == [
        [group, topic, "0", "3", "10", "7"]
    ]
    forgotten = group_words(any_kafka, "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in forgotten
    deleted = group_words(any_kafka, "--delete", "--group", group)
    # A group that has nothing left may be gone by itself.
    assert "was successful" in deleted or "not found" in deleted.lower()
    assert "not found" in group_words(any_kafka, "--describe", "--group", group, check=False)


def test_the_list_of_groups_shows_their_type(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    verifier = Verifier(any_kafka, group, topic)
    try:
        soon(lambda: verifier.partitions == [0], "its partition")
        listed = any_kafka.tool("GroupsCommand", "--bootstrap-server", any_kafka.bootstrap_servers, "--list").stdout
        assert [group, "Classic", "consumer"] in [line.split() for line in listed.splitlines()]
    finally:
        verifier.end()

"""`kcli consume` with an expression that takes too long for one record, on both brokers."""

from __future__ import annotations

import json

import pytest

from kcli import Consumer, Producer, TopicPartition
from tests.cli.fake import run_kcli
from tests.needs import needs_package
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow  # each read waits for --timeout

WHERE = "if .offset == 3 then last(repeat(1)) else .offset != 1 end"


@pytest.fixture
def topic(any_kafka: Kafka) -> str:
    """A topic of two partitions; the first has the records 0 to 5."""
    needs_package("jq")
    topic = any_kafka.new_topic(2, prefix="late")
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number, partition=0)
    return topic


def test_the_matches_before_the_record_are_printed_with_the_coverage(any_kafka: Kafka, topic: str) -> None:
    words = "consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start:end", "--timeout", "3", "--where", WHERE
    run = run_kcli(*words)
    assert (run.status, run.out) == (5, b"0\n2\n")
    *table, error = run.err.splitlines()
    assert error == f"kcli: --where takes longer than 3 s (--timeout) for {topic} 0 offset 3"
    rows = [line.split(maxsplit=6) for line in table[1:]]
    assert rows == [
        [topic, "0", "start:end", "0:3", "2", "incomplete", "stopped by an error"],
        [topic, "1", "start:end", "0:0", "0", "complete", "nothing to read"],
    ]
    document = json.loads(run_kcli(*words, "-O", "json").out)
    assert [item["offset"] for item in document["items"]] == [0, 2]
    assert [part["position"] for part in document["coverage"]] == [3, 0]
    assert "--where takes longer" in document["error"]["message"]


def test_a_member_commits_the_offset_of_the_record(any_kafka: Kafka, topic: str) -> None:
    servers, group = any_kafka.bootstrap_servers, f"g-{topic}"
    words = "consume", topic, "-b", servers, "--group", group, "--timeout", "3"
    run = run_kcli(*words, "--where", WHERE, "-X", "auto.offset.reset=earliest")
    assert (run.status, run.out) == (5, b"0\n2\n")
    with Consumer(bootstrap_servers=servers, group_id=group) as consumer:
        committed = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert committed is not None
    assert committed.offset == 3

"""`kcli group explain` is right about offsets: every cause is staged, on our broker and on Apache's."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At

from tests.interop.groups.explaining import admin, commit, explained, fill, meanwhile, until_found
from tests.interop.groups.members import confluent_member
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow


def test_offsets_below_the_log_start_and_beyond_its_end_are_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(3), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 10, 1: 10, 2: 5})
    commit(any_kafka, group, topic, {0: 2, 1: 99, 2: 5})
    client = admin(any_kafka)
    client.delete_records([At(topic, 0, 7)])[At(topic, 0)].result(30)

    found = explained(any_kafka, group)

    assert set(found) == {"committed-below-start", "committed-beyond-end", "no-members"}
    assert found["committed-below-start"]["subject"] == f"{topic}-0"
    assert "Up to 5 records were deleted" in found["committed-below-start"]["evidence"]
    assert found["committed-beyond-end"]["subject"] == f"{topic}-1"
    assert (
        f"The committed offset of {topic}-1 is 99, but its log ends at 10." in found["committed-beyond-end"]["evidence"]
    )
    assert found["no-members"]["severity"] == "problem"


def test_a_finished_group_has_no_problem(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 5})
    commit(any_kafka, group, topic, {0: 5})
    assert [(kind, it["severity"]) for kind, it in explained(any_kafka, group).items()] == [("no-members", "note")]


def test_commits_from_outside_the_group_and_a_shrinking_lag_are_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 5000})
    commit(any_kafka, group, topic, {0: 0})
    reader = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    at = iter(range(1, 5000))

    def read_on() -> None:
        reader.commit(offsets=[At(topic, 0, next(at))], asynchronous=False)

    read_on()  # it has found its coordinator
    with meanwhile(read_on):
        found = until_found(any_kafka, group, "lag-shrinks", 0.5)
    reader.close()

    assert set(found) == {"commits-without-members", "lag-shrinks"}


def test_a_growing_lag_and_a_lagging_partition_are_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(4), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 20, 1: 20, 2: 2000, 3: 20})
    commit(any_kafka, group, topic, dict.fromkeys(range(4), 10))
    with meanwhile(lambda: fill(any_kafka, topic, {0: 2})):
        found = until_found(any_kafka, group, "lag-grows", 0.5)

    assert set(found) == {"lag-grows", "one-far-behind", "no-members"}
    assert found["one-far-behind"]["subject"] == f"{topic}-2"
    assert "without an owner" in found["one-far-behind"]["evidence"]
    assert f"It grew most on {topic}-0" in found["lag-grows"]["evidence"]


def test_unread_records_near_retention_are_found(any_kafka: Kafka) -> None:
    hour = 3_600_000
    topic, group = any_kafka.new_topic(2, retention_ms=hour), any_kafka.new_name("g")
    sizes = any_kafka.new_topic(retention_ms=-1, retention_bytes=5000)
    fill(any_kafka, topic, {0: 5}, timestamp=int(time.time() * 1000) - 55 * 60_000)
    fill(any_kafka, topic, {1: 5})
    fill(any_kafka, sizes, {0: 100})
    commit(any_kafka, group, topic, {0: 0, 1: 0})
    commit(any_kafka, group, sizes, {0: 0})

    by_time = explained(any_kafka, group)
    commit(any_kafka, group, topic, {0: 5, 1: 5})
    by_size = explained(any_kafka, group)

    # Of several findings of a kind `explained` keeps the last: that of the topic with a limit by size sorts behind.
    assert by_time["retention-overtakes"]["severity"] == "problem"
    assert by_size["retention-overtakes"]["subject"] == f"{sizes}-0"
    assert "the topic keeps 5.0 kB of each partition" in by_size["retention-overtakes"]["evidence"]


def test_a_deleted_topic_is_found(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    kept = any_kafka.new_topic()
    fill(any_kafka, topic, {0: 5})
    commit(any_kafka, group, kept, {0: 0})
    with confluent_member(any_kafka, group, [topic, kept], commit="none") as reader:
        reader.wait_assigned(2)
        client = admin(any_kafka)
        client.delete_topics([topic])[topic].result(30)
        found = until_found(any_kafka, group, "topic-gone")
    assert found["topic-gone"]["subject"] == topic

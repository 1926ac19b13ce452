"""Commits of a streaming query's position to a group: `commit_to_group`, and the option `commitGroup`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.spark.commit_listener import commit_to_group, follow_option
from tests.real_kafka import Kafka
from tests.spark.groups import (
    committed,
    described,
    fill,
    member,
    source_options,
    stream,
    topic_with,
    wait_for_commit,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def note(query_id: object, batch: int) -> str:
    return json.dumps({"spark": str(query_id), "batch": batch}, separators=(",", ":"))


def last_batch(checkpoint: Path) -> int:
    return max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())


def test_a_group_has_the_final_position_of_a_query(spark: SparkSession, any_kafka: Kafka, tmp_path: Path) -> None:
    topic, group = topic_with(any_kafka, 30, 12), any_kafka.new_name("spark")
    options = source_options(any_kafka, topic, maxOffsetsPerTrigger="20")

    with commit_to_group(spark, group, options):
        query = stream(spark, options, tmp_path)
        assert query.awaitTermination(60)

    result = note(query.id, last_batch(tmp_path))
    assert committed(any_kafka, group) == {0: (30, result), 1: (12, result)}
    fill(any_kafka, topic, [5])
    assert [(p["partition"], p["committed"], p["lag"], p["metadata"]) for p in described(any_kafka, group)] == [
        (0, 30, 5, result),
        (1, 12, 0, result),
    ]


def test_commits_follow_a_running_query_and_are_never_ahead(
    spark: SparkSession, our_kafka: Kafka, tmp_path: Path
) -> None:
    topic, group = topic_with(our_kafka, 7), our_kafka.new_name("spark")
    query = stream(spark, source_options(our_kafka, topic), tmp_path, every="50 milliseconds")
    try:
        query.processAllAvailable()
        with commit_to_group(query, group, source_options(our_kafka, topic)):
            wait_for_commit(our_kafka, group, [7])  # of a batch that was completed before the listener was added
            fill(our_kafka, topic, [4])
            wait_for_commit(our_kafka, group, [11])
        fill(our_kafka, topic, [2])
        query.processAllAvailable()
        assert committed(our_kafka, group)[0][0] == 11  # closed: the query continues without commits
    finally:
        query.stop()


def test_a_commit_failure_is_reported_once_and_the_query_continues(
    spark: SparkSession, our_kafka: Kafka, tmp_path: Path
) -> None:
    topic, group = topic_with(our_kafka, 9), our_kafka.new_name("spark")
    options = source_options(our_kafka, topic, maxOffsetsPerTrigger="2")
    message: list[str] = []

    committer = commit_to_group(spark, group, options, say=message.append)
    with member(our_kafka, group, topic, "late-comer"):
        query = stream(spark, options, tmp_path)
        assert query.awaitTermination(60)
        assert not committer.close(patience_s=120)

        assert query.exception() is None
        assert len(message) == 1
        assert f"cannot commit to group {group}, the query continues" in message[0]
        assert committed(our_kafka, group) == {}


def test_a_missing_commit_is_made_from_the_checkpoint(spark: SparkSession, our_kafka: Kafka, tmp_path: Path) -> None:
    topic, group = topic_with(our_kafka, 6), our_kafka.new_name("spark")
    query = stream(spark, source_options(our_kafka, topic), tmp_path)
    assert query.awaitTermination(60)
    assert committed(our_kafka, group) == {}

    with commit_to_group(spark, group, source_options(our_kafka, topic), checkpoint=str(tmp_path)):
        pass  # no query is started
    assert committed(our_kafka, group) == {0: (6, note(query.id, last_batch(tmp_path)))}


@pytest.mark.usefixtures("connector")
def test_a_query_of_the_connector_can_be_committed(spark: SparkSession, real_kafka: Kafka, tmp_path: Path) -> None:
    topic, group = topic_with(real_kafka, 8, 3), real_kafka.new_name("spark")
    options = source_options(real_kafka, topic)
    with commit_to_group(spark, group, options):
        assert stream(spark, options, tmp_path, format="kafka").awaitTermination(60)
    assert {number: offset for number, (offset, _) in committed(real_kafka, group).items()} == {0: 8, 1: 3}


def test_the_option_commits_without_further_calls(spark: SparkSession, our_kafka: Kafka, tmp_path: Path) -> None:
    follow_option(spark)
    topic, group = topic_with(our_kafka, 5), our_kafka.new_name("spark")
    query = stream(spark, source_options(our_kafka, topic, commitGroup=group), tmp_path)
    assert query.awaitTermination(60)
    wait_for_commit(our_kafka, group, [5])
    assert committed(our_kafka, group)[0][1] == note(query.id, last_batch(tmp_path))


def test_the_option_is_refused_for_a_group_with_members(spark: SparkSession, our_kafka: Kafka, tmp_path: Path) -> None:
    topic, group = topic_with(our_kafka, 5), our_kafka.new_name("spark")
    with member(our_kafka, group, topic, "billing-7"):
        query = stream(spark, source_options(our_kafka, topic, commitGroup=group), tmp_path)
        with pytest.raises(Exception, match=r"1 member \(billing-7 on "):
            query.awaitTermination(60)

"""Each view through Spark: one job each, with the JVM's schema check, and the rows of the view without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kcli.spark.views.registry import VIEWS
from tests.real_kafka import Kafka
from tests.spark.views.test_views import commit, options_for, produce, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Scene(NamedTuple):
    spark: SparkSession
    kafka: Kafka
    topic: str
    group: str

    def load(self, view: str, **more: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "view": view, **more}
        frame: DataFrame = self.spark.read.format("kcli").options(**options).load()
        return frame

    def expected(self, view: str, **more: str) -> list[dict[str, Any]]:
        return rows_of(options_for(self.kafka, view, **more))


@pytest.fixture(scope="module")
def scene(spark: SparkSession, our_kafka: Kafka) -> Scene:
    topic, group = our_kafka.new_topic(2), our_kafka.new_name("g")
    produce(our_kafka, topic, 0, 35)
    produce(our_kafka, topic, 1, 20, "lz4")
    commit(our_kafka, group, topic, {0: 30, 1: 20}, "note")
    commit(our_kafka, group, topic, {0: 33})
    return Scene(spark, our_kafka, topic, group)


def test_batch_counts_sum_to_the_number_of_records(scene: Scene) -> None:
    frame = scene.load("batches", subscribe=scene.topic, minPartitions="3")
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == list(VIEWS["batches"].columns)
    sums = frame.groupBy("partition", "compression").agg({"count": "sum", "bytes": "sum", "*": "count"})
    assert sorted((r[0], r[1], r["sum(count)"], r["count(1)"]) for r in sums.collect()) == [
        (0, "none", 35, 4),
        (1, "lz4", 20, 2),
    ]


def test_offsets(scene: Scene) -> None:
    [one, two] = scene.load("offsets", subscribe=scene.topic).orderBy("partition").collect()
    assert [(one.latest, one.isr), (two.latest, two.isr)] == [(35, [1]), (20, [1])]


def test_groups(scene: Scene) -> None:
    [row] = scene.load("groups").where(f"group = '{scene.group}'").collect()
    assert [row.asDict()] == scene.expected("groups", groups=scene.group)


def test_members(scene: Scene) -> None:
    columns = "group,assignment,subscribed,error"
    [row] = scene.load("members", groups="is-not-there", columns=columns).collect()
    assert (row.group, row.assignment, row.subscribed) == ("is-not-there", None, None)
    assert "is-not-there" in row.error


def test_lag_is_summed_in_sql(scene: Scene) -> None:
    scene.load("lag").createOrReplaceTempView("lag")
    [row] = scene.spark.sql(
        f"SELECT topic, sum(lag) AS lag FROM lag WHERE group = '{scene.group}' GROUP BY 1"
    ).collect()
    assert (row.topic, row.lag) == (scene.topic, 2)


def test_commits_have_the_history_of_a_group(scene: Scene) -> None:
    frame = scene.load("commits", groups=scene.group).orderBy("log_offset")
    found = [row.asDict() for row in frame.collect()]
    assert [(r["partition"], r["offset"], r["metadata"]) for r in found] == [
        (0, 30, "note"),
        (1, 20, "note"),
        (0, 33, ""),
    ]
    expected = scene.expected("commits", groups=scene.group, columns="commit_timestamp")
    assert [r["commit_timestamp"].timestamp() for r in found] == [r["commit_timestamp"].timestamp() for r in expected]

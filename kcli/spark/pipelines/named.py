"""Topics that were named and are not there: a mistyped name must not look like a topic of which nothing is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kcli.spark.pipelines.source import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.pipelines.source import KafkaSource, Topics


def check_named(spark: SparkSession, source: KafkaSource, seen: Collection[tuple[str, int]]) -> None:
    """NotFound, as Spark tells it, for what `source.topics` names that is neither among these partitions nor in the
    cluster."""
    left = unseen(source.topics, seen)
    if left:
        asked = source._replace(topics=left, start={}, until={}, where=None)
        load(spark, asked, "offsets", ["topic"]).collect()


def unseen(topics: Topics, seen: Collection[tuple[str, int]]) -> Topics:
    """Topics of which no partition is among these; of those that name partitions, the ones that are not. Pure."""
    known = {topic for topic, _ in seen}
    left: dict[str, list[int] | None] = {}
    for topic, numbers in topics.items():
        if numbers is None:
            if topic not in known:
                left[topic] = None
        elif absent := [number for number in numbers if (topic, number) not in seen]:
            left[topic] = absent
    return left

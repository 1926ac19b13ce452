"""A job that moves between the JVM connector and kcli with its checkpoint: no loss, no duplicates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real_kafka import Kafka
from tests.spark.groups import fill, source_options, topic_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = ("partition", "offset", "value", "timestamp", "timestampType")


@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize("formats", [("kafka", "kcli", "kafka"), ("kcli", "kafka", "kcli")], ids="-".join)
def test_a_checkpoint_of_one_source_is_continued_by_the_other(
    spark: SparkSession, real_kafka: Kafka, tmp_path: Path, formats: tuple[str, str, str]
) -> None:
    topic = topic_with(real_kafka, 70, 30)
    run(spark, real_kafka, topic, tmp_path, formats[0])

    fill(real_kafka, topic, [40, 25])
    real_kafka.add_partitions(topic, 3)
    fill(real_kafka, topic, [0, 0, 15])
    run(spark, real_kafka, topic, tmp_path, formats[1])
    assert rows_in(spark, tmp_path) == rows_of(spark, real_kafka, topic)

    # As after a crash: the batch is planned, but not written, so the other source must read exactly this range.
    fill(real_kafka, topic, [5, 5, 5])
    run(spark, real_kafka, topic, tmp_path, formats[1])
    undo_last_batch(tmp_path)
    fill(real_kafka, topic, [5, 5, 5])
    run(spark, real_kafka, topic, tmp_path, formats[2])
    found = rows_in(spark, tmp_path)
    assert found == rows_of(spark, real_kafka, topic)
    assert len(found) == 70 + 30 + 40 + 25 + 15 + 30


def run(spark: SparkSession, kafka: Kafka, topic: str, folder: Path, format: str) -> None:
    """Process the present records, into files that have each batch exactly once."""
    options = source_options(kafka, topic, maxOffsetsPerTrigger="60")
    frame = spark.readStream.format(format).options(**options).load().select(*KEPT)
    writer = frame.coalesce(1).writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "rows"))
    assert query.awaitTermination(120)


def undo_last_batch(folder: Path) -> None:
    """Keep the plan of the last batch, and remove its results."""
    last = max(int(file.name) for file in (folder / "checkpoint" / "commits").iterdir() if file.name.isdigit())
    assert (folder / "checkpoint" / "offsets" / str(last)).exists()
    for log in (folder / "checkpoint" / "commits", folder / "rows" / "_spark_metadata"):
        for name in (str(last), f".{last}.crc", f"{last}.compact", f".{last}.compact.crc"):
            (log / name).unlink(missing_ok=True)


def rows_in(spark: SparkSession, folder: Path) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.read.parquet(str(folder / "rows")).collect()))


def rows_of(spark: SparkSession, kafka: Kafka, topic: str) -> list[tuple[object, ...]]:
    """Read with the connector, as an independent source."""
    frame = spark.read.format("kafka").options(**source_options(kafka, topic)).load().select(*KEPT)
    return sorted((row[0], row[1], bytearray(row[2]), *row[3:]) for row in frame.collect())

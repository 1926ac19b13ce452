"""Writes through Spark, as a batch and as a stream: every row is stored, with its columns; failures lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kcli.errors import BrokerError, ConfigError, KcliError
from kcli.spark.deploy.spark_errors import translate_error
from tests.real_kafka import Kafka, OwnBroker
from tests.spark.reading import rows_of_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = 1_700_000_000_000
ROWS = [
    ("plain", b"value", 0, T, None),
    (None, None, 1, T + 1, [("a", b"1"), ("a", None), ("größe", b"\xff")]),
    ("", b"", 0, T + 2, []),
]
SCHEMA = "key string, value binary, partition int, ms bigint, headers array<struct<key: string, value: binary>>"


def write(frame: DataFrame, kafka: Kafka, topic: str | None, mode: str = "append", **options: str) -> None:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
    if topic is not None:
        given["topic"] = topic
    frame.write.format("kcli").options(**given).mode(mode).save()


def test_a_frame_is_written_with_all_its_columns(spark: SparkSession, any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=2, retention_ms=-1)
    frame = spark.createDataFrame(ROWS, SCHEMA).coalesce(1)
    frame = frame.selectExpr("key", "value", "partition", "headers", "timestamp_millis(ms) timestamp")
    write(frame, any_kafka, topic)
    assert rows_of_topic(any_kafka, topic) == [
        (0, T, b"plain", b"value", []),
        (0, T + 2, b"", b"", []),
        (1, T + 1, None, None, [("a", b"1"), ("a", None), ("größe", b"\xff")]),
    ]


def test_a_column_chooses_the_topic_of_each_row(spark: SparkSession, our_kafka: OwnBroker) -> None:
    one, two = our_kafka.new_topic(), our_kafka.new_topic()
    frame = spark.createDataFrame([(one, "1"), (two, "2"), (one, "3")], "topic string, value string").coalesce(1)
    write(frame, our_kafka, None)
    assert [row[3] for row in rows_of_topic(our_kafka, one)] == [b"1", b"3"]
    assert [row[3] for row in rows_of_topic(our_kafka, two)] == [b"2"]


def test_errors_are_raised_before_a_record_is_sent(spark: SparkSession, our_kafka: OwnBroker) -> None:
    topic = our_kafka.new_topic()
    numbers = spark.range(3)
    cases: list[tuple[DataFrame, str | None, str, type[KcliError], str]] = [
        (numbers.selectExpr("id value"), topic, "append", ConfigError, "column value is of type bigint; it must be"),
        (numbers.selectExpr("'v' value", "id"), topic, "append", ConfigError, "column id cannot be written"),
        (numbers.selectExpr("'v' value"), None, "append", ConfigError, "no topic to write to"),
        (numbers.selectExpr("'v' value"), topic, "overwrite", ConfigError, "a topic can only be appended to"),
        (numbers.selectExpr("'v' value"), "absent", "append", BrokerError, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    for frame, target, mode, kind, message in cases:
        with pytest.raises(Exception) as raised:
            write(frame, our_kafka, target, mode)
        error = translate_error(raised.value)
        assert type(error) is kind, error
        assert error.message.startswith(message)
    assert rows_of_topic(our_kafka, topic) == []


def test_a_stream_whose_task_fails_loses_nothing_and_doubles_only_its_batch(
    spark: SparkSession, our_kafka: OwnBroker, tmp_path: Path
) -> None:
    """The task fails once, after it has sent half of the second batch. The restarted query repeats that batch."""
    source, target = our_kafka.new_topic(), our_kafka.new_topic()
    producer = our_kafka.ordered_producer()
    for number in range(400):
        producer.produce(source, b"%d" % number)
    assert producer.flush(120) == 0
    fuse = str(tmp_path / "fuse")

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        for batch in batches:
            if os.path.exists(fuse) or b"250" not in batch.column(0).to_pylist():
                yield batch
                continue
            yield batch.slice(0, 50)
            open(fuse, "w").close()
            time.sleep(0.2)  # linger.ms: the first half is sent
            yield batch.slice(50, 1)
            raise RuntimeError("injected")

    def run() -> None:
        options = {"kafka.bootstrap.servers": our_kafka.bootstrap_servers, "startingOffsets": "earliest"}
        options |= {"subscribe": source, "maxOffsetsPerTrigger": "200", "columns": "value"}
        frame = spark.readStream.format("kcli").options(**options).load().mapInArrow(fail_once, "value binary")
        writer = frame.writeStream.format("kcli").option("kafka.bootstrap.servers", our_kafka.bootstrap_servers)
        writer = writer.option("topic", target).option("kafka.linger.ms", "0")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert writer.start().awaitTermination(120), "the stream did not end within 120 s"

    with pytest.raises(Exception, match="injected"):
        run()
    run()
    run()
    counts = Counter(int(row[3] or b"") for row in rows_of_topic(our_kafka, target))
    assert set(counts) == set(range(400))
    doubled = {number for number, count in counts.items() if count > 1}
    assert doubled <= set(range(200, 400))
    assert max(counts.values()) <= 2

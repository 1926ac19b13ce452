"""Streams through Spark: start, exactly-once repetition, idle polling, topics that change meanwhile.

A failure is injected in a task, by `raise_error` in the query's projection, which a restarted query does not have. The
parquet sink keeps each batch exactly once.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition as ForeignPartition
from confluent_kafka.admin import AdminClient

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.real_kafka import Kafka
from tests.spark.groups import fill, source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 120


class Query:
    """A query that is started repeatedly with the same checkpoint and output folder."""

    def __init__(self, spark: SparkSession, kafka: Kafka, folder: Path, topic: str, **options: Any) -> None:
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        self.spark = spark
        self.options = source_options(kafka, topic) | given
        self.folder = folder

    def start(self, *, fail_if: str = "false", once: bool = True) -> Any:
        """Process the present records (`once`), or continue. A task fails at the first row that matches `fail_if`."""
        frame = self.spark.readStream.format("kcli").options(**self.options).load()
        rows = frame.selectExpr("topic", "partition", f"if({fail_if}, raise_error('injected'), offset) as offset")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        return writer.start(str(self.folder / "rows"))

    def run(self, **how: Any) -> list[int]:
        """Run to the end; return the number of rows of each batch."""
        query = self.start(**how)
        assert query.awaitTermination(PATIENCE_S)
        return [it["numInputRows"] for it in query.recentProgress]

    def fails(self, expected: str, **how: Any) -> None:
        """Run to a failure with this text."""
        query = self.start(**how)
        with pytest.raises(Exception, match=expected):
            query.awaitTermination(PATIENCE_S)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def ends(self) -> list[dict[str, dict[str, int]]]:
        """Return the offset log: the end of each batch."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]

    def committed(self) -> list[int]:
        return sorted(int(file.name) for file in (self.checkpoint / "commits").glob("[0-9]*"))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def rows(self) -> Counter[tuple[str, int, int]]:
        """Return (topic, partition, offset) in the sink, with counts."""
        return Counter(map(tuple, self.spark.read.parquet(str(self.folder / "rows")).collect()))


def each_once(topic: str, *ranges: range) -> Counter[tuple[str, int, int]]:
    return Counter((topic, partition, offset) for partition, its in enumerate(ranges) for offset in its)


def admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def delete_before(kafka: Kafka, topic: str, partition: int, offset: int) -> None:
    deleting = admin(kafka)
    for deleted in deleting.delete_records([ForeignPartition(topic, partition, offset)]).values():
        deleted.result(30)


# --- exactly once, whatever fails


def test_a_failed_limited_batch_is_repeated_exactly_once(spark: SparkSession, any_kafka: Kafka, tmp_path: Path) -> None:
    """AvailableNow in several batches; a task of the third fails after other tasks have written their files."""
    topic = any_kafka.new_topic(2)
    fill(any_kafka, topic, [70, 30])
    query = Query(spark, any_kafka, tmp_path, topic, maxOffsetsPerTrigger=40)
    query.fails("injected", fail_if="partition = 0 and offset = 45")
    assert query.committed() == [0, 1]
    fill(any_kafka, topic, [5, 5])
    assert sum(query.run()) == 70 + 30 + 10 - 40
    assert query.rows() == each_once(topic, range(75), range(35))
    ends = [end[topic] for end in query.ends()]
    assert ends[:3] == [{"0": 0, "1": 0}, {"0": 28, "1": 12}, {"0": 56, "1": 24}]  # in proportion; the first is empty
    assert ends[-1] == {"0": 75, "1": 35}
    assert query.run() in ([], [0])  # no records remain


def test_the_start_of_a_new_query_is_pinned_before_anything_is_read(
    spark: SparkSession, our_kafka: Kafka, tmp_path: Path
) -> None:
    """Spark stores no start, only ends of batches; so the first batch is empty and its end is the start.

    Later records are read, although the first run failed before it read any.
    """
    topic = our_kafka.new_topic(2)
    fill(our_kafka, topic, [10, 10])
    query = Query(spark, our_kafka, tmp_path, topic, startingOffsets="latest")
    running = query.start(once=False, fail_if="true")
    query.wait_for(lambda: query.committed() == [0])
    fill(our_kafka, topic, [20, 20])
    with pytest.raises(Exception, match="injected"):
        running.awaitTermination(PATIENCE_S)
    fill(our_kafka, topic, [5, 5])
    query.run()
    assert query.ends()[0] == {topic: {"0": 10, "1": 10}}
    assert query.rows() == each_once(topic, range(10, 35), range(10, 35))


def test_a_repeated_first_batch_keeps_its_start(spark: SparkSession, our_kafka: Kafka, tmp_path: Path) -> None:
    """Batch 0 was planned and not committed. Spark asks for the start again, and `latest` has moved."""
    topic = our_kafka.new_topic(1)
    fill(our_kafka, topic, [10])
    query = Query(spark, our_kafka, tmp_path, topic, startingOffsets="latest")
    query.run()
    for file in ("0", ".0.crc"):
        (query.checkpoint / "commits" / file).unlink()
    fill(our_kafka, topic, [7])
    query.run()
    assert query.rows() == each_once(topic, range(10, 17))


# --- idle


def test_an_idle_query_has_no_batches_and_few_requests(spark: SparkSession, tmp_path: Path) -> None:
    """Offsets are compared as text. Spark asks 90 times a second, brokers are asked twice (offsetPollIntervalMs)."""
    with EmbeddedBroker(num_partitions=12) as broker:
        broker.create_topic("idle", 12)
        query = Query(spark, broker, tmp_path, "idle")  # type: ignore[arg-type]
        running = query.start(once=False)
        try:
            query.wait_for(lambda: query.committed() == [0])
            asked, began = count_of(broker, "ListOffsets"), time.monotonic()
            time.sleep(2)
            times = count_of(broker, "ListOffsets") - asked
            assert times <= 2 * (2 + (time.monotonic() - began) / 0.5)  # starts and ends, every 500 ms
            assert query.committed() == [0]
            assert len(query.ends()) == 1
        finally:
            running.stop()
        assert list(query.ends()[0]["idle"]) == [str(number) for number in range(12)]  # 2 before 10


def count_of(broker: EmbeddedBroker, api: str) -> int:
    return sum(request.api == api for request in broker.requests)


# --- topics that change


def test_new_partitions_are_read_from_their_start(spark: SparkSession, our_kafka: Kafka, tmp_path: Path) -> None:
    topic = our_kafka.new_topic(1)
    fill(our_kafka, topic, [10])
    query = Query(spark, our_kafka, tmp_path, topic, startingOffsets="latest")
    query.run()
    our_kafka.add_partitions(topic, 2)
    fill(our_kafka, topic, [1, 6])
    query.run()
    assert query.rows() == each_once(topic, range(10, 11), range(6))


@pytest.mark.parametrize("lenient", [False, True])
def test_a_deleted_topic_is_data_loss(spark: SparkSession, our_kafka: Kafka, tmp_path: Path, lenient: bool) -> None:
    stays, goes = our_kafka.new_topic(1), our_kafka.new_topic(1)
    fill(our_kafka, stays, [3])
    fill(our_kafka, goes, [3])
    query = Query(
        spark, our_kafka, tmp_path, f"{stays},{goes}", failOnDataLoss=str(not lenient).lower(), fetchOffset_numRetries=1
    )
    query.run()
    deleting = admin(our_kafka)
    deleting.delete_topics([goes])[goes].result(30)
    fill(our_kafka, stays, [2])
    if lenient:
        query.run()
        assert query.rows() == each_once(stays, range(5)) + each_once(goes, range(3))
    else:
        query.fails(f"DataLoss: {goes}-0 does not exist any more")


@pytest.mark.parametrize("lenient", [False, True])
def test_records_deleted_before_a_batch_is_repeated(
    spark: SparkSession, our_kafka: Kafka, tmp_path: Path, lenient: bool
) -> None:
    """The range is unchanged: its remaining records are read once, and none after it twice."""
    topic = our_kafka.new_topic(1)
    fill(our_kafka, topic, [20])
    query = Query(spark, our_kafka, tmp_path, topic, maxOffsetsPerTrigger=10, failOnDataLoss=str(not lenient).lower())
    query.fails("injected", fail_if="offset = 15")
    delete_before(our_kafka, topic, 0, 14)
    if lenient:
        query.run()
        assert query.rows() == each_once(topic, range(10)) + Counter((topic, 0, n) for n in range(14, 20))
    else:
        query.fails("offset 10 no longer exists, the log starts at 14; 4 offsets are lost")


def test_min_offsets_per_trigger_delays_a_batch(spark: SparkSession, our_kafka: Kafka, tmp_path: Path) -> None:
    """minOffsetsPerTrigger waits for that many offsets; AvailableNow ignores it, because it would wait forever."""
    topic = our_kafka.new_topic(1)
    fill(our_kafka, topic, [5])
    query = Query(spark, our_kafka, tmp_path, topic, minOffsetsPerTrigger=100, offsetPollIntervalMs=50)
    running = query.start(once=False)
    try:
        query.wait_for(lambda: query.committed() == [0, 1])  # the first trigger is not delayed
        fill(our_kafka, topic, [50])
        time.sleep(0.7)
        assert query.committed() == [0, 1]
        fill(our_kafka, topic, [50])
        query.wait_for(lambda: query.committed() == [0, 1, 2])
    finally:
        running.stop()
    fill(our_kafka, topic, [1])
    query.run()
    assert query.rows() == each_once(topic, range(106))


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "1 second"}], ids=["now", "follow"])
def test_a_wrong_option_of_a_stream_is_the_error_of_its_query(
    spark: SparkSession, our_kafka: Kafka, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    """PySpark hides what `streamReader` raises behind an error of its own."""
    options = {
        **source_options(our_kafka, our_kafka.new_topic()),
        "minOffsetsPerTrigger": "9",
        "maxOffsetsPerTrigger": "1",
    }

    def run() -> None:
        frame = spark.readStream.format("kcli").options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(**trigger)
        writer.start().awaitTermination(120)

    with pytest.raises(Exception, match="minOffsetsPerTrigger=9 is above maxOffsetsPerTrigger=1") as refusal:
        run()
    assert "local variable" not in str(refusal.value)

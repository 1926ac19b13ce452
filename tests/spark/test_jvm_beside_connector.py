"""Batches compared with spark-sql-kafka-0-10: the same rows, tasks and refusals for the same options.

Intended differences are stated in the tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kcli.errors import BrokerError, ConfigError, NotFound
from kcli.spark.batch_plan import plan_batch
from kcli.spark.broker_lookup import Lookup
from kcli.spark.loss import DataLoss
from kcli.spark.options import parse_options
from kcli.spark.task_ranges import TaskRange
from tests.interop.shapes import wait_until_decided
from tests.real_kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("connector")

BASE_MS = 1_700_000_000_000
HEADERS: list[list[tuple[str, bytes | None]] | None] = [
    None,
    [("trace", b"\x00\xff"), ("trace", b"again"), ("schlüssel", "wert ✓".encode())],
    [("null", None), ("empty", b""), ("", b"no name")],
]


class Scene(NamedTuple):
    """Two topics whose names match `pattern`, the first with all kinds of records."""

    kafka: Kafka
    mixed: str
    appended: str

    @property
    def pattern(self) -> str:
        return f"{self.mixed.removesuffix('-mixed')}-(mixed|appended)"


@pytest.fixture(scope="module")
def scene(real_kafka: Kafka) -> Scene:
    name = real_kafka.new_name("beside")
    mixed = real_kafka.create_topic(f"{name}-mixed", 3, retention_ms=-1)
    appended = real_kafka.create_topic(f"{name}-appended", 1, message_timestamp_type="LogAppendTime")
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        fill(real_kafka, mixed, codec, first=number * 60)
    for commits in (True, False, True):
        transaction(real_kafka, mixed, commits=commits)
    wait_until_decided(real_kafka, mixed, *2 * [5 * 30 + 3 * (5 + 1)])
    fill(real_kafka, appended, "lz4", first=0, partitions=1)
    return Scene(real_kafka, mixed, appended)


def fill(kafka: Kafka, topic: str, codec: str, first: int, partitions: int = 2) -> None:
    """Write 60 records, a second apart: keys and values that are null, empty, or invalid UTF-8. Partition 2 stays
    empty.
    """
    producer = kafka.ordered_producer(compression_type=codec, linger_ms=50)
    for number in range(first, first + 60):
        producer.produce(
            topic,
            key=[None, b"", b"\xc3\x28", f"key-{number}".encode()][number % 4],
            value=[None, b"", b"\x00\xfe", b"v" * (number % 300)][number // 4 % 4],
            headers=HEADERS[number % 3],
            partition=number % partitions,
            timestamp=BASE_MS + number * 1000,
        )
    assert producer.flush(30) == 0


def transaction(kafka: Kafka, topic: str, *, commits: bool) -> None:
    producer = kafka.ordered_producer(transactional_id=kafka.new_name("writer"), enable_idempotence=True)
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, value=b"in a transaction", partition=number % 2, timestamp=BASE_MS + 400_000)
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def load(spark: SparkSession, format: str, scene: Scene, options: Mapping[str, str]) -> DataFrame:
    given = {"kafka.bootstrap.servers": scene.kafka.bootstrap_servers, **options}
    return spark.read.format(format).options(**given).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return all rows, sorted by position."""
    from pyspark.sql.functions import unix_micros

    exact = frame.withColumn("timestamp", unix_micros("timestamp"))
    return sorted(map(tuple, exact.collect()), key=lambda row: row[2:5])


def by_partition(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


READINGS: dict[str, dict[str, str]] = {
    "subscribe": {"subscribe": "MIXED", "includeHeaders": "true"},
    "two topics": {"subscribe": "MIXED, APPENDED"},
    "pattern": {"subscribePattern": "PATTERN", "includeHeaders": "true"},
    "pattern of nothing": {"subscribePattern": "no-such-.*"},
    "assign": {"assign": '{"MIXED":[1,2],"APPENDED":[0]}'},
    "read committed": {"subscribe": "MIXED", "kafka.isolation.level": "read_committed"},
    "offsets": {
        "subscribe": "MIXED",
        "startingOffsets": by_partition("MIXED", 17, -2, -2),
        "endingOffsets": by_partition("MIXED", 23, 99, -1),
    },
    "from a time": {
        "subscribe": "MIXED",
        "startingTimestamp": str(BASE_MS + 100_500),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "until a time": {"subscribe": "MIXED", "endingTimestamp": str(BASE_MS + 100_000)},
    "times by partition": {
        "assign": '{"MIXED":[0,1]}',
        "startingOffsetsByTimestamp": by_partition("MIXED", BASE_MS + 50_000, BASE_MS + 120_000),
        "endingOffsetsByTimestamp": by_partition("MIXED", BASE_MS + 150_000, BASE_MS + 130_001),
        "startingOffsets": by_partition("MIXED", 290, 290),  # lower precedence
    },
    "a time is stronger than offsets": {
        "assign": '{"MIXED":[0]}',
        "startingTimestamp": str(BASE_MS + 200_000),
        "startingOffsets": by_partition("MIXED", 0),
    },
}


def in_scene(scene: Scene, options: Mapping[str, str]) -> dict[str, str]:
    names = {"MIXED": scene.mixed, "APPENDED": scene.appended, "PATTERN": scene.pattern}
    found = {}
    for name, value in options.items():
        for word, meant in names.items():
            value = value.replace(word, meant)
        found[name] = value
    return found


@pytest.mark.parametrize("case", READINGS)
def test_rows_equal_those_of_the_connector(spark: SparkSession, scene: Scene, case: str) -> None:
    options = in_scene(scene, READINGS[case])
    ours, theirs = (load(spark, format, scene, options) for format in ("kcli", "kafka"))
    assert ours.dtypes == theirs.dtypes
    expected = rows(theirs)
    assert rows(ours) == expected
    assert bool(expected) == (case != "pattern of nothing")


def test_the_compared_rows_have_all_kinds_of_values(spark: SparkSession, scene: Scene) -> None:
    """Checks the test data: without nulls, aborted transactions and append times the other tests would prove
    nothing.
    """
    options = {"subscribe": scene.mixed, "includeHeaders": "true"}
    found = rows(load(spark, "kafka", scene, options))
    assert {row[0] is None for row in found} == {row[1] is None for row in found} == {True, False}
    assert {row[7] is None for row in found} == {True, False}
    assert any(header.value is None for row in found for header in row[7] or ())
    committed = rows(load(spark, "kafka", scene, {**options, "kafka.isolation.level": "read_committed"}))
    assert len(found) - len(committed) == 10
    assert {row[6] for row in rows(load(spark, "kafka", scene, {"subscribe": scene.appended}))} == {1}


SPLITS: list[dict[str, str]] = [
    {"minPartitions": "1"},
    {"minPartitions": "5"},
    {"minPartitions": "20"},
    {"minPartitions": "8", "maxRecordsPerPartition": "60"},
    {"maxRecordsPerPartition": "70", "startingOffsets": "MIXED 9 5 0", "endingOffsets": "MIXED 150 95 0"},
]


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: " ".join(split.values()))
def test_tasks_equal_those_of_the_connector(spark: SparkSession, scene: Scene, split: dict[str, str]) -> None:
    from pyspark.sql import functions as f

    def given(value: str) -> str:
        if not value.startswith("MIXED"):
            return value
        return by_partition(scene.mixed, *map(int, value.split()[1:]))

    options = {name: given(value) for name, value in split.items()}

    frame = load(spark, "kafka", scene, {"subscribe": scene.mixed, **options})
    tagged = frame.select(f.spark_partition_id().alias("task"), "partition", "offset")
    grouped = tagged.groupBy("task", "partition").agg(f.min("offset"), f.max("offset"))
    theirs = sorted(tuple(row)[1:] for row in grouped.collect())
    ours = plan(scene, {"subscribe": scene.mixed, **options})
    full = [task for task in ours if task.start < task.end]  # tasks without rows are not visible in rows
    # The rows of a task end before its range does, where a control record follows.
    assert [(task.partition, task.start) for task in full] == [(number, first) for number, first, _ in theirs]
    assert all(last < task.end for task, (_, _, last) in zip(full, theirs, strict=True))


def plan(scene: Scene, options: Mapping[str, str]) -> list[TaskRange]:
    """Return kcli's tasks, without a JVM."""
    given = {"kafka.bootstrap.servers": scene.kafka.bootstrap_servers, **options}
    parsed = parse_options(given, stream=False)
    with Lookup(parsed) as lookup:
        return sorted(plan_batch(parsed, lookup).ranges)


REFUSED: dict[str, dict[str, str]] = {
    "nothing to read": {},
    "two selections": {"subscribe": "MIXED", "subscribePattern": "x"},
    "no topic": {"subscribe": " , "},
    "no pattern": {"subscribePattern": ""},
    "no assignment": {"assign": "MIXED"},
    "a topic that is not there": {"subscribe": "MIXED,no-such-topic"},
    "start latest": {"subscribe": "MIXED", "startingOffsets": "Latest"},
    "start latest in one": {"subscribe": "MIXED", "startingOffsets": by_partition("MIXED", 0, -1, 0)},
    "end earliest": {"subscribe": "MIXED", "endingOffsets": "earliest"},
    "end earliest in one": {"subscribe": "MIXED", "endingOffsets": by_partition("MIXED", 1, -2, 0)},
    "start lacks one": {"subscribe": "MIXED", "startingOffsets": by_partition("MIXED", 1, 1)},
    "start has one more": {"subscribe": "MIXED", "startingOffsets": by_partition("MIXED", 1, 1, 0, 0)},
    "end lacks one": {"subscribe": "MIXED", "endingOffsets": by_partition("MIXED", 1, 1)},
    "times lack one": {"subscribe": "MIXED", "startingOffsetsByTimestamp": by_partition("MIXED", BASE_MS)},
    "no such number": {"subscribe": "MIXED", "startingOffsets": by_partition("MIXED", -3, 0, 0)},
    "no JSON": {"subscribe": "MIXED", "startingOffsets": "{x"},
    "no word": {"subscribe": "MIXED", "startingOffsets": "soon"},
    "end before start": {
        "assign": '{"MIXED":[0]}',
        "startingOffsets": by_partition("MIXED", 5),
        "endingOffsets": by_partition("MIXED", 3),
    },
    "start beyond the end": {"assign": '{"MIXED":[0]}', "startingOffsets": by_partition("MIXED", 5000)},
    "start beyond the end, whatever is lost": {
        "assign": '{"MIXED":[0]}',
        "startingOffsets": by_partition("MIXED", 5000),
        "failOnDataLoss": "false",
    },
    "no record so young": {"subscribe": "MIXED", "startingTimestamp": str(BASE_MS + 900_000_000)},
    "no time": {"subscribe": "MIXED", "startingTimestamp": "yesterday"},
    "no strategy": {"subscribe": "MIXED", "startingOffsetsByTimestampStrategy": "first"},
    "no partitions": {"subscribe": "MIXED", "minPartitions": "0"},
    "no number": {"subscribe": "MIXED", "minPartitions": "few"},
    "no records": {"subscribe": "MIXED", "maxRecordsPerPartition": "0"},
    "neither true nor false": {"subscribe": "MIXED", "failOnDataLoss": "maybe"},
    "no time to wait": {"subscribe": "MIXED", "kafkaConsumer.pollTimeoutMs": "x"},
    "a reset": {"subscribe": "MIXED", "kafka.auto.offset.reset": "latest"},
    "a deserializer": {"subscribe": "MIXED", "kafka.value.deserializer": "x"},
    "own commits": {"subscribe": "MIXED", "kafka.enable.auto.commit": "true"},
    "interceptors": {"subscribe": "MIXED", "kafka.interceptor.classes": "x"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_refused_by_the_connector_are_refused(spark: SparkSession, scene: Scene, case: str) -> None:
    options = in_scene(scene, REFUSED[case])
    with pytest.raises(Exception) as refusal:
        load(spark, "kafka", scene, options).collect()
    assert isinstance(refusal.value, PySparkException | Py4JJavaError), refusal.value
    with pytest.raises((ConfigError, NotFound, BrokerError, DataLoss)):
        plan(scene, options)


def test_unknown_options_are_refused_by_kcli_only(spark: SparkSession, scene: Scene) -> None:
    """Intended difference: the connector ignores a misspelled option."""
    options = {"subscribe": scene.mixed, "startingOffset": "earliest"}
    assert load(spark, "kafka", scene, options).limit(1).collect()
    with pytest.raises(PySparkException, match="startingOffsets"):
        load(spark, "kcli", scene, options)


class Cut(NamedTuple):
    """A topic with offsets 40 to 100: the first records were deleted."""

    kafka: Kafka
    topic: str


@pytest.fixture(scope="module")
def cut(real_kafka: Kafka) -> Cut:
    from confluent_kafka import TopicPartition as Position
    from confluent_kafka.admin import AdminClient

    topic = real_kafka.new_topic()
    producer = real_kafka.ordered_producer()
    for number in range(100):
        producer.produce(topic, value=b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": real_kafka.bootstrap_servers})
    (deleted,) = admin.delete_records([Position(topic, 0, 40)]).values()
    assert deleted.result(30).low_watermark == 40
    return Cut(real_kafka, topic)


# Start and end of a batch, and the first and last offset that both read with failOnDataLoss=false; None: no rows.
LOSSES: dict[str, tuple[int, int, tuple[int, int] | None]] = {
    "within the log": (50, 60, (50, 59)),
    "start before the log": (10, 60, (40, 59)),
    "range before the log": (10, 20, None),
    "end after the log": (50, 150, (50, 99)),
    "start at the log end": (100, 150, None),
    "start after the log end": (120, 150, None),
    "start far after the log end": (5000, 6000, None),
    "around the log": (10, 150, (40, 99)),
    "empty before the log": (10, 10, None),
    "empty after the log": (120, 120, None),
}


# Cases that lose nothing.
LOSSLESS = {"within the log", "empty before the log", "empty after the log"}


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("case", LOSSES)
def test_lost_offsets_are_an_error_or_left_out_as_by_the_connector(
    spark: SparkSession, cut: Cut, case: str, fail: str
) -> None:
    """The rows of the table in `kcli.spark.loss` for batches."""
    start, end, expected = LOSSES[case]
    options = {
        "assign": json.dumps({cut.topic: [0]}),
        "startingOffsets": by_partition(cut.topic, start),
        "endingOffsets": by_partition(cut.topic, end),
        "failOnDataLoss": fail,
        "kafkaConsumer.pollTimeoutMs": "10000",
        "kafka.bootstrap.servers": cut.kafka.bootstrap_servers,
    }
    for name in ("kafka", "kcli"):
        frame = spark.read.format(name).options(**options).load()
        if fail == "true" and case not in LOSSLESS:
            with pytest.raises((PySparkException, Py4JJavaError)):
                frame.collect()
            continue
        offsets = [row.offset for row in frame.collect()]
        assert offsets == ([] if expected is None else [*range(expected[0], expected[1] + 1)]), name

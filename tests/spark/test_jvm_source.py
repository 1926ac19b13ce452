"""Batch reads through Spark: the unchanged topic, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition as ForeignPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException

from kcli.client.config import ProducerConfig
from kcli.producer.producer import Producer
from kcli.protocol.records.record import NewRecord
from tests.real_kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = 1_767_268_800_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def load(spark: SparkSession, kafka: Kafka, topic: str, **options: Any) -> DataFrame:
    """Load a frame; `startingOffsets` and others as keywords, with underscores for dots."""
    given = {name.replace("_", "."): str(value) for name, value in options.items()}
    named = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    return spark.read.format("kcli").options(**named, **given).load()


def new_topic(kafka: Kafka, partitions: int = 1, **configs: Any) -> str:
    """Create a topic without retention by time, because some records have old timestamps."""
    return kafka.new_topic(partitions, retention_ms=-1, **configs)


def odd_rows(number: int) -> list[NewRecord]:
    """Return records with nulls and empty values in each field."""
    headers = [("id", b"%d" % number), ("id", None), ("", b""), ("größe", bytes(range(256)))]
    return [
        NewRecord(b"key", b"value", T + number),
        NewRecord(None, None, T + number),
        NewRecord(b"", b"", T - number),
        NewRecord(b"headed", b"v", T, headers[: number % 5]),
        NewRecord(None, bytes(range(256)) * number, -1),
    ]


def write(kafka: Kafka, topic: str, rows: list[NewRecord], partition: int = 0, codec: str = "none") -> None:
    given = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec}
    with Producer.from_config(ProducerConfig.from_properties(given)) as producer:
        for row in rows:
            sent = producer.send(
                topic, row.value, row.key, partition=partition, headers=row.headers, timestamp_ms=row.timestamp_ms
            )
        producer.flush()
        sent.value()


def micros(frame: DataFrame) -> list[Any]:
    """Return sorted rows, with timestamps as microseconds."""
    columns = ["unix_micros(timestamp) as timestamp" if name == "timestamp" else name for name in frame.columns]
    return sorted(frame.selectExpr(*columns).collect(), key=lambda row: (row.partition, row.offset))


def test_every_record_is_read_unchanged(spark: SparkSession, any_kafka: Kafka) -> None:
    topic = new_topic(any_kafka, len(CODECS))
    rows = [odd_rows(number) for number in range(len(CODECS))]
    for partition, codec in enumerate(CODECS):
        write(any_kafka, topic, rows[partition], partition, codec)
    found = micros(load(spark, any_kafka, topic, includeHeaders="true", minPartitions=7))
    wanted = [
        (row.key, row.value, topic, partition, offset, row.timestamp_ms * 1000, 0, [*map(tuple, row.headers)] or None)
        for partition in range(len(CODECS))
        for offset, row in enumerate(rows[partition])
    ]
    assert [(*row[:-1], row.headers and [*map(tuple, row.headers)]) for row in found] == wanted


def test_timestamps_of_the_broker_are_type_1(spark: SparkSession, any_kafka: Kafka) -> None:
    topic = new_topic(any_kafka, message_timestamp_type="LogAppendTime")
    write(any_kafka, topic, [NewRecord(None, b"v", T)])
    (row,) = micros(load(spark, any_kafka, topic))
    assert row.timestampType == 1
    assert row.timestamp > T * 1000


def test_a_data_frame_is_a_snapshot(spark: SparkSession, any_kafka: Kafka) -> None:
    """Spark asks a Python source for its partitions once per load()."""
    topic = new_topic(any_kafka)
    write(any_kafka, topic, odd_rows(1))
    frame = load(spark, any_kafka, topic)
    assert frame.count() == 5
    write(any_kafka, topic, odd_rows(1))
    assert frame.count() == 5
    assert load(spark, any_kafka, topic).count() == 10


def test_a_query_after_a_closed_iterator_reads_everything(spark: SparkSession, any_kafka: Kafka) -> None:
    """`take` closes the iterators of tasks; the next task of the worker reads normally."""
    topic = new_topic(any_kafka)
    write(any_kafka, topic, [NewRecord(None, b"%d" % number, T) for number in range(3_000)])
    frame = load(spark, any_kafka, topic, arrow_batchRows=100)
    assert [row.value for row in frame.select("value").take(2)] == [b"0", b"1"]
    assert frame.selectExpr("count(distinct offset)", "max(offset)").first() == (3_000, 2_999)


def test_columns_are_chosen_by_option_and_by_schema(spark: SparkSession, any_kafka: Kafka) -> None:
    topic = new_topic(any_kafka)
    write(any_kafka, topic, odd_rows(2))
    frame = load(spark, any_kafka, topic, columns="offset,value_size,key_size,headers_size,base_offset")
    assert frame.columns == ["offset", "value_size", "key_size", "headers_size", "base_offset"]
    assert [tuple(row)[1:3] for row in frame.orderBy("offset").collect()] == [
        (5, 3), (None, None), (0, 0), (1, 6), (512, None),
    ]  # fmt: skip
    reader = spark.read.format("kcli").option("kafka.bootstrap.servers", any_kafka.bootstrap_servers)
    narrow = reader.option("subscribe", topic).schema("offset long, value binary").load()
    assert narrow.orderBy("offset").first() == (0, b"value")
    with pytest.raises(Exception, match="schema: value is of type binary; columns can be left out, not changed"):
        reader.option("subscribe", topic).schema("value string").load().count()


@pytest.mark.parametrize(
    ("condition", "tasks"),
    [
        ("partition = 1", 1),
        ("partition in (0, 1) and offset >= 40 and offset < 45", 2),
        (f"timestamp >= timestamp_millis({T + 95})", 3),  # all partitions match, with later starts
        (f"timestamp >= timestamp_millis({T + 1_000})", 1),  # no range is one empty task
        ("topic = 'another'", 1),
        (f"timestamp < timestamp_millis({T + 3})", 3),
        ("offset = 7 or partition = 2", 3),  # not offered to sources
    ],
)
def test_filters_prune_tasks_and_keep_all_matching_rows(
    spark: SparkSession, our_kafka: Kafka, condition: str, tasks: int, ordered_topic: str
) -> None:
    """Every filter is returned to Spark, so pruning only reduces the input."""
    all_rows = load(spark, our_kafka, ordered_topic)
    assert all_rows.count() == 300
    pushed = load(spark, our_kafka, ordered_topic, pushdown="true").where(condition)
    assert pushed.rdd.getNumPartitions() == tasks
    wanted = all_rows.where(condition).select("partition", "offset").collect()
    assert sorted(pushed.select("partition", "offset").collect()) == sorted(wanted)


@pytest.fixture(scope="module")
def ordered_topic(our_kafka: Kafka) -> str:
    topic = new_topic(our_kafka, 3)
    for partition in range(3):
        write(our_kafka, topic, [NewRecord(None, b"v", T + number) for number in range(100)], partition)
    return topic


@pytest.mark.parametrize("lenient", [False, True])
def test_records_deleted_between_planning_and_reading(spark: SparkSession, our_kafka: Kafka, lenient: bool) -> None:
    """The rows for tasks of the failOnDataLoss table."""
    topic = new_topic(our_kafka)
    write(our_kafka, topic, [NewRecord(None, b"v", T)] * 10)
    frame = load(spark, our_kafka, topic, failOnDataLoss=str(not lenient).lower(), maxRecordsPerPartition=5)
    assert frame.count() == 10
    admin = AdminClient({"bootstrap.servers": our_kafka.bootstrap_servers})
    for deleted in admin.delete_records([ForeignPartition(topic, 0, 7)]).values():
        deleted.result(30)
    if lenient:
        assert [row.offset for row in frame.select("offset").collect()] == [7, 8, 9]
    else:
        with pytest.raises(Exception, match=r"DataLoss: .*offsets [05] to [46] were deleted before they were read"):
            frame.count()


def test_an_option_error_is_one_sentence(spark: SparkSession, our_kafka: Kafka) -> None:
    with pytest.raises(Exception, match=r"startingoffset is not an option: did you mean startingOffsets\?"):
        load(spark, our_kafka, "any", startingOffset="earliest")


def test_a_missing_topic_is_an_error(spark: SparkSession, our_kafka: Kafka) -> None:
    with pytest.raises(Exception, match="topic never-was does not exist"):
        load(spark, our_kafka, "never-was", fetchOffset_numRetries=1).count()


def test_a_view_of_sql_is_read_and_a_table_is_refused(spark: SparkSession, our_kafka: Kafka) -> None:
    """Spark passes the options of a view to each read of it, and those of a table to none."""
    topic = new_topic(our_kafka)
    write(our_kafka, topic, [NewRecord(b"k", b"v", T)])
    name = topic.replace("-", "_")
    using = f"USING kcli OPTIONS (`kafka.bootstrap.servers` '{our_kafka.bootstrap_servers}', subscribe '{topic}')"
    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE {name} {using}")
    spark.sql(f"CREATE TEMPORARY VIEW {name} {using}")
    try:
        rows = spark.sql(f"SELECT key, value, offset FROM {name} WHERE offset >= 0").collect()
        assert [(bytes(row.key), bytes(row.value), row.offset) for row in rows] == [(b"k", b"v", 0)]
    finally:
        spark.catalog.dropTempView(name)


def test_a_misspelled_column_is_compared_with_all_columns(
    spark: SparkSession, our_kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark knows only the columns that are read, and none of them is like the wrong one."""
    from kcli.spark.deploy import session
    from tests.cli.fake import run_kcli

    monkeypatch.setattr(session, "open_session", lambda **_: spark)
    monkeypatch.setattr(session, "close_session", lambda _, **more: None)
    topic = new_topic(our_kafka)
    words = ("spark", "skew", topic, "-b", our_kafka.bootstrap_servers, "--where", "tmestamp > '2020-01-01'")
    done = run_kcli(*words)
    assert (done.status, done.err) == (2, "kcli: there is no column tmestamp; did you mean timestamp?\n")

"""Records of Arrow rows, and one task of the sink on both brokers; no JVM."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kcli.error_codes import ErrorCode  # noqa: E402
from kcli.errors import BrokerError, ConfigError, KcliError, Refused  # noqa: E402
from kcli.protocol.records.record import NewRecord  # noqa: E402
from kcli.spark.sink import records_by_place, stored_since, write_rows  # noqa: E402
from kcli.spark.sink_options import SinkOptions  # noqa: E402
from kcli.structs import TopicPartition  # noqa: E402
from tests.real_kafka import Kafka, OwnBroker  # noqa: E402
from tests.spark.reading import rows_of_topic  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW = 1_700_000_000_000


def batch(**columns: Any) -> Any:
    types = {"headers": HEADERS, "timestamp": pa.timestamp("us", "UTC"), "partition": pa.int32()}
    arrays = {name: pa.array(values, types.get(name)) for name, values in columns.items()}
    return pa.record_batch(list(arrays.values()), names=list(arrays))


def options(kafka: Kafka, topic: str | None, **more: Any) -> SinkOptions:
    return SinkOptions({"bootstrap.servers": kafka.bootstrap_servers}, topic, **more)


def test_rows_become_records_in_their_order_by_topic_and_partition() -> None:
    rows = batch(
        key=["a", None, "c"],
        value=pa.array([b"1", None, b"\xff"], pa.large_binary()),
        topic=["x", "y", "x"],
        partition=[1, None, 1],
        timestamp=[1_999, None, -1_000],
        headers=[[{"key": "h", "value": None}, {"key": "h", "value": b""}], [], None],
    )
    columns = rows.schema.names
    by_place = records_by_place(rows, columns, None, NOW)
    assert {place: list(records.rows()) for place, records in by_place.items()} == {
        ("x", 1): [NewRecord(b"a", b"1", 1, [("h", None), ("h", b"")]), NewRecord(b"c", b"\xff", -1, [])],
        ("y", None): [NewRecord(None, None, NOW, [])],
    }


def test_the_topic_option_takes_precedence_over_the_column() -> None:
    rows = batch(value=["v"], topic=["other"])
    assert list(records_by_place(rows, rows.schema.names, "t")) == [("t", None)]


def test_a_timestamp_before_1970_is_an_error() -> None:
    rows = batch(value=["v", "w"], timestamp=pa.array([0, -2000], pa.timestamp("us")))
    with pytest.raises(KcliError, match="a row has a timestamp before 1970"):
        records_by_place(rows, rows.schema.names, "t")


def test_rows_without_a_topic_and_headers_that_are_null_or_without_a_name_are_errors() -> None:
    rows = batch(value=["v", "w"], topic=["t", None])
    with pytest.raises(KcliError, match="a row has no topic: its column topic is null"):
        records_by_place(rows, rows.schema.names, None)
    rows = batch(value=["v"], headers=[[{"key": "a", "value": b""}, None]])
    with pytest.raises(KcliError, match="a row has a header that is null; remove it"):
        records_by_place(rows, rows.schema.names, "t")
    rows = batch(value=["v"], headers=[[{"key": None, "value": b""}]])
    with pytest.raises(KcliError, match="a header without a name"):
        records_by_place(rows, rows.schema.names, "t")


def test_a_task_returns_when_all_records_are_stored(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=2, retention_ms=-1)
    rows = batch(
        key=[b"k", None],
        value=[None, b"v"],
        partition=[1, 1],
        timestamp=[NOW * 1000] * 2,
        headers=[[{"key": "größe", "value": b"\xff"}], None],
    )
    write_rows(options(any_kafka, topic), rows.schema.names, [rows, rows])
    first, second = (1, NOW, b"k", None, [("größe", b"\xff")]), (1, NOW, None, b"v", [])
    assert rows_of_topic(any_kafka, topic) == [first, second, first, second]


def test_without_a_partition_the_key_decides_as_in_java(any_kafka: Kafka) -> None:
    from kcli.producer.partitioner import partition_for_key

    topic = any_kafka.new_topic(partitions=3)
    keys = [b"key-%d" % number for number in range(20)]
    rows = batch(key=keys, value=keys)
    write_rows(options(any_kafka, topic), rows.schema.names, [rows])
    assert sorted((partition, key) for partition, _, key, _, _ in rows_of_topic(any_kafka, topic)) == sorted(
        (partition_for_key(key, 3), key) for key in keys
    )


def test_a_refused_record_fails_the_task(our_kafka: OwnBroker) -> None:
    topic = our_kafka.new_topic(partitions=1)
    rows = batch(value=[b"v"], partition=[7])
    with pytest.raises(BrokerError, match="has partition 0 only, not 7") as raised:
        write_rows(options(our_kafka, topic), rows.schema.names, [rows])
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows = batch(value=[b"small", b"v" * 2_000_000])
    with pytest.raises(BrokerError) as raised:
        write_rows(options(our_kafka, topic), rows.schema.names, [rows])
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_repeated_task_continues_after_the_stored_records(any_kafka: Kafka) -> None:
    """`resumeFrom`: the first attempt has stored three of five records of partition 0, and none of partition 1."""
    topic = any_kafka.new_topic(partitions=2)
    before = batch(value=[b"before"], partition=[0])
    write_rows(options(any_kafka, topic), before.schema.names, [before])
    bases = {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 0}
    first = batch(value=[b"0", b"1", b"2"], partition=[0, 0, 0])
    second = batch(value=[b"3", b"4", b"a"], partition=[0, 0, 1])
    write_rows(options(any_kafka, topic), first.schema.names, [first])
    for _ in range(2):
        resumed = options(any_kafka, topic, resume_from=bases)
        write_rows(resumed, first.schema.names, [first, second])
    values = [(row[0], row[3]) for row in rows_of_topic(any_kafka, topic)]
    assert values == [(0, b"before"), *((0, b"%d" % number) for number in range(5)), (1, b"a")]
    with pytest.raises(ConfigError, match="requires a column partition without nulls"):
        write_rows(options(any_kafka, topic, resume_from=bases), ["value"], [batch(value=[b"v"])])


def test_a_log_that_has_become_shorter_is_refused() -> None:
    tp = TopicPartition("t", 0)
    assert stored_since(tp, {tp: 3}, 5) == 2
    assert stored_since(tp, {}, 5) == 5
    with pytest.raises(Refused, match="t-0 ends at offset 5, before 7"):
        stored_since(tp, {tp: 7}, 5)

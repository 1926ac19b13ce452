"""Options and columns of the sink: the connector's ("Writing Data to Kafka"), and a timestamp. Pure."""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.spark.client_options import producer_config
from kcli.spark.sink_options import HEADERS_TYPE, check_columns, parse_sink_options
from kcli.structs import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}


def error_of(**options: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_sink_options(KAFKA | {name.replace("_", "."): value for name, value in options.items()})
    return raised.value.message


def column_error(*columns: tuple[str, str], topic: str | None = "t") -> str:
    with pytest.raises(ConfigError) as raised:
        check_columns(columns, topic)
    return raised.value.message


def test_columns_of_the_connector_and_a_timestamp_are_written() -> None:
    columns = [
        ("key", "string"),
        ("value", "binary"),
        ("headers", HEADERS_TYPE),
        ("topic", "string"),
        ("partition", "int"),
        ("timestamp", "timestamp"),
    ]
    assert check_columns(columns, None) == [name for name, _ in columns]


def test_other_columns_of_a_read_are_ignored_so_that_a_topic_can_be_copied() -> None:
    columns = [("key", "binary"), ("value", "binary"), ("offset", "bigint"), ("timestampType", "int")]
    assert check_columns(columns, "t") == ["key", "value"]


def test_columns_that_a_record_does_not_have_are_refused() -> None:
    assert column_error(("value", "string"), ("Headers", HEADERS_TYPE)) == (
        "column Headers cannot be written: did you mean headers?"
    )
    assert column_error(("value", "string"), ("amount", "int")) == (
        "column amount cannot be written: columns are key, value, headers, topic, partition, timestamp; select those"
    )
    assert (
        column_error(("value", "string"), ("value", "string")) == "column value occurs twice; select each column once"
    )


def test_types_are_checked_before_a_record_is_sent() -> None:
    assert column_error(("value", "struct<a:int>")) == (
        "column value is of type struct<a:int>; it must be binary or string; use CAST(value AS STRING), or "
        "to_json(value)"
    )
    assert column_error(("value", "string"), ("partition", "bigint")) == (
        "column partition is of type bigint; it must be int; use CAST(partition AS INT)"
    )
    assert column_error(("value", "string"), ("headers", "map<string,binary>")) == (
        f"column headers is of type map<string,binary>; it must be {HEADERS_TYPE}"
    )
    assert column_error(("key", "string")) == (
        "a column value is required, of type string or binary; rename one with AS value"
    )
    assert (
        column_error(("value", "string"), topic=None) == "no topic to write to; use the option topic, or a column topic"
    )
    assert check_columns([("key", "void"), ("value", "string collate UTF8_LCASE")], "t") == ["key", "value"]


def test_a_topic_is_an_option_or_the_path() -> None:
    assert parse_sink_options({**KAFKA, "Topic": "a", "checkpointLocation": "/c"}).topic == "a"
    assert parse_sink_options({**KAFKA, "path": "a"}).topic == "a"
    assert error_of(topic="a b") == "topic 'a b' is not valid; use letters, digits, '.', '_' and '-'"


def test_unknown_options_and_properties_that_weaken_the_guarantee_are_refused() -> None:
    assert error_of(topik="a") == "topik is not an option for writing: did you mean topic?"
    assert error_of(subscribe="a") == "subscribe is not an option for writing: use topic, or a column topic"
    assert error_of(kafka_acks="1") == "kafka.acks cannot be '1': records are always written with acks=all"
    assert error_of(kafka_enable_idempotence="false") == (
        "kafka.enable.idempotence cannot be 'false': records are always written with acks=all"
    )
    assert error_of(kafka_value_serializer="x").startswith("kafka.value.serializer cannot be set: ")
    assert "kafka.bootstrap.servers is required" in _error({})


def _error(options: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_sink_options(options)
    return raised.value.message


def test_a_producer_has_acks_all_and_larger_batches_unless_they_are_set() -> None:
    config = producer_config({"bootstrap.servers": "h:1", "linger.ms": "7", "acks": "all"})
    assert (config.acks, config.enable_idempotence, config.linger_ms, config.batch_size) == (-1, True, 7, 262_144)


def test_passwords_are_not_shown() -> None:
    options = parse_sink_options({**KAFKA, "kafka.sasl.password": "hunter2", "topic": "t"})
    assert "hunter2" not in repr(options)
    assert "topic='t'" in repr(options)


def test_bases_are_offsets_by_partition() -> None:
    parsed = parse_sink_options({**KAFKA, "resumeFrom": '{"t":{"0":5}}'})
    assert parsed.resume_from == {TopicPartition("t", 0): 5}

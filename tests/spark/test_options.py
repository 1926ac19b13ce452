"""Options of the source: those of spark-sql-kafka-0-10 by its rules (Spark's integration guide; its
KafkaSourceProvider), and those of kcli.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kcli.errors import ConfigError
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.secret import Secret
from kcli.spark.client_options import client_config, ignored_properties
from kcli.spark.option_table import CONNECTORS, OURS, VIEW_NAMES
from kcli.spark.options import _ONLY_BATCH, ignored_options, parse_options
from kcli.spark.selection import Assign, Pattern, Subscribe
from kcli.spark.start_end import ByPartition, OfGroup, with_resolved_times
from kcli.structs import TopicPartition
from tests.spark.fake_lookup import BASE, options

SERVERS = {"kafka.bootstrap.servers": "a:9092"}

GOOD = {
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false",
    "kafkaConsumer.pollTimeoutMs": "1000",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "10",
    "maxOffsetsPerTrigger": "100",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "15m",
    "minPartitions": "8",
    "maxRecordsPerPartition": "1000",
    "groupIdPrefix": "mine",
    "includeHeaders": "true",
    **{
        f"{side}.{name}": text
        for side in ("key", "value")
        for name, text in {
            "decode": "avro",
            "subject": "s",
            "schema.version": "3",
            "schema.file": "a.avsc",
            "message": "m",
            "raw": "all",
        }.items()
    },
    "view": "batches",
    "columns": "offset, value",
    "groups": "g1,g2",
    "startingGroupStrategy": "earliest",
    "commitGroup": "g",
    "commitOnIdleSeconds": "60",
    "arrow.batchRows": "100",
    "arrow.batchBytes": "1000000",
    "offsetPollIntervalMs": "100",
    "pushdown": "true",
    "rowLimitPerPartition": "10",
    "startingTimestamp": "1700000000000",
    "startingOffsetsByTimestamp": '{"orders":{"0":1700000000000}}',
    "endingTimestamp": "1700000000000",
    "endingOffsetsByTimestamp": '{"orders":{"0":"2023-11-14T22:13:20Z"}}',
}
WAYS = {"assign": '{"orders":[0,1]}', "subscribe": "orders", "subscribePattern": "ord.*", "path": "orders"}


def test_option_names_are_not_case_sensitive() -> None:
    assert GOOD.keys() | WAYS.keys() == CONNECTORS.keys() | OURS.keys()
    for name, value in GOOD.items():
        for spelled in (name, name.lower(), name.upper()):
            assert parse_options({**BASE, spelled: value})
    for name, value in WAYS.items():
        assert parse_options({**SERVERS, name.upper(): value}).selection is not None


def test_option_values_are_parsed_into_their_fields() -> None:
    parsed = parse_options({**BASE, **{k: v for k, v in GOOD.items() if "Timestamp" not in k}})
    assert parsed.kafka == {"bootstrap.servers": "a:9092"}
    assert parsed.selection == Subscribe(("orders",))
    assert (parsed.view, parsed.columns, parsed.groups) == ("batches", ("offset", "value"), ("g1", "g2"))
    assert (parsed.fail_on_data_loss, parsed.include_headers, parsed.pushdown) == (False, True, True)
    assert (parsed.min_partitions, parsed.max_records_per_partition) == (8, 1000)
    assert (parsed.max_offsets_per_trigger, parsed.min_offsets_per_trigger) == (100, 10)
    assert (parsed.max_trigger_delay_ms, parsed.poll_timeout_ms) == (900_000, 1000)
    assert (parsed.fetch_offset_attempts, parsed.fetch_offset_retry_interval_ms) == (5, 10)
    assert (parsed.batch_rows, parsed.batch_bytes, parsed.row_limit_per_partition) == (100, 1_000_000, 10)
    assert (parsed.commit_group, parsed.commit_on_idle_s, parsed.offset_poll_interval_ms) == ("g", 60, 100)
    assert pickle.loads(pickle.dumps(parsed)) == parsed


def test_defaults_are_those_of_the_connector() -> None:
    batch, stream = options(), options(stream=True)
    assert (batch.starting.at, batch.ending.at) == (LOG_START, LOG_END)
    assert stream.starting.at == LOG_END
    assert batch.starting.no_match == "error"
    assert batch.fail_on_data_loss
    assert (batch.max_trigger_delay_ms, batch.poll_timeout_ms) == (15 * 60_000, 120_000)
    assert (batch.fetch_offset_attempts, batch.fetch_offset_retry_interval_ms) == (3, 1000)
    assert not batch.include_headers
    assert (batch.min_partitions, batch.max_records_per_partition, batch.max_offsets_per_trigger) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("startingOffset", "startingOffset is not an option: did you mean startingOffsets?"),
        ("failOnDataloos", "did you mean failOnDataLoss?"),
        ("maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger?"),
        ("topic", "to read a topic use subscribe"),
        ("bootstrap.servers", "use kafka.bootstrap.servers"),
        ("group.id", "startingOffsets=group:NAME"),
        ("qqqq", "options of the Kafka client begin with kafka."),
    ],
)
def test_an_unknown_option_is_an_error_with_the_nearest_name(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({**BASE, name: "1"})
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        ({"kafka.key.deserializer": "X"}, "keys are bytes"),
        ({"kafka.value.deserializer": "X"}, "values are bytes"),
        ({"kafka.enable.auto.commit": "true"}, "Spark keeps the offsets"),
        ({"kafka.interceptor.classes": "X"}, "cannot be set"),
        ({"Kafka.Auto.Offset.Reset": "latest"}, "use startingOffsets"),
        ({"minPartitions": "0"}, "minPartitions: '0' is not valid; use a whole number from 1 to 2147483647"),
        ({"minPartitions": "many"}, "minPartitions: the value is not valid; use a whole number"),
        ({"minPartitions": "2147483648"}, "use a whole number from 1 to 2147483647"),
        ({"maxRecordsPerPartition": "0"}, "use a whole number from 1 to"),
        ({"maxOffsetsPerTrigger": "-5"}, "use a whole number from 1 to"),
        ({"minOffsetsPerTrigger": "200", "maxOffsetsPerTrigger": "100"}, "200 is above maxOffsetsPerTrigger=100"),
        ({"maxTriggerDelay": "soon"}, "use a duration like 15m"),
        ({"failOnDataLoss": "yes"}, "is not valid; use true or false"),
        ({"includeHeaders": "1"}, "is not valid; use true or false"),
        ({"startingOffsets": "latest"}, "startingOffsets of a batch cannot be latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "cannot be -1 (latest), as for orders-0"),
        ({"startingOffsets": "newest"}, "startingOffsets of a batch cannot be latest"),
        ({"startingOffsets": "begin"}, "JSON, group:NAME or a relative time like -1h"),
        ({"startingOffsets": "group:"}, "has no group name"),
        ({"startingOffsets": "-1"}, "a relative time like -1h"),
        ({"startingOffsets": "-2"}, "earliest is -2 in JSON only"),
        ({"endingOffsets": "-1"}, "latest is -1 and earliest is -2 in JSON only"),
        ({"startingOffsets": f"-{'9' * 400}h"}, "more than 100 characters"),
        ({"startingTimestamp": f"-{'9' * 400}h"}, "is not a valid time; use seconds"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "cannot be -2 (earliest), as for orders-0"),
        ({"endingOffsets": "group:g"}, "only startingOffsets can"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp: 'yesterday' is not a valid time; use seconds"),
        ({"startingTimestamp": "ssl.key.password=hunter2"}, "startingTimestamp: the value is not valid; use seconds"),
        (
            {"startingTimestamp": "20261128"},
            "startingTimestamp: '20261128' is not a valid time; write the date as 2026-11-28",
        ),
        (
            {"endingTimestamp": "1700000000000000"},
            "endingTimestamp: '1700000000000000' is not a valid time; seconds since",
        ),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":20261128120000}}'},
            "orders-0: '20261128120000' is not a valid time; write the date as 2026-11-28T12:00:00",
        ),
        (
            {"startingTimestamp": "1700000001", "endingTimestamp": "1700000000000"},
            "startingTimestamp 2023-11-14T22:13:21.000Z is after endingTimestamp 2023-11-14T22:13:20.000Z",
        ),
        ({"startingOffsets": "-1h", "endingOffsets": "-2h"}, "the end is before the start"),
        ({"startingOffsets": "-10", "endingOffsets": "-20"}, "the end is before the start"),
        ({"startingOffsets": "10", "endingOffsets": "9"}, "the end is before the start"),
        (
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
            "the end offset 4 is before the start offset 5",
        ),
        (
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
            "must name the same partitions; orders-0, orders-1 is in one only",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":1700000000001}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":1700000000}}',
            },
            "the end time 2023-11-14T22:13:20.000Z is before the start time 2023-11-14T22:13:20.001Z",
        ),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "use error or latest"),
        ({"startingGroupStrategy": "none"}, "use error, earliest or latest"),
        ({"view": "record"}, "is not valid; use records, batches"),
        ({"columns": " , "}, "columns is empty"),
        ({"columns": "key,value,key"}, "columns: key is given twice"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"subscribePattern": "o.*"}, "only one of assign, subscribe, subscribePattern"),
        ({"path": "orders"}, "not subscribe and load(...)"),
        ({"arrow.batchRows": "0"}, "arrow.batchRows: '0' is not valid; use a whole number from 1"),
        ({"arrow.batchBytes": "4294967296"}, "use a whole number from 1 to 1073741824"),
        ({"commitGroup": " "}, "commitGroup must not be empty"),
        ({"SUBSCRIBE": "payments"}, "is given twice"),
    ],
)
def test_an_invalid_value_is_one_sentence(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({**BASE, **given})
    assert reason in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be set for a stream"):
        parse_options({**BASE, name: GOOD[name]}, stream=True)


def test_a_stream_may_start_at_the_log_end_and_a_schema_check_permits_both() -> None:
    assert options(stream=True, startingOffsets='{"orders":{"0":-1}}').starting.at == ByPartition(
        {TopicPartition("orders", 0): LOG_END}
    )
    for given in ({"startingOffsets": "latest"}, {"endingOffsets": "latest"}):
        assert parse_options({**BASE, **given}, stream=None)


def test_exactly_one_topic_selection_is_required() -> None:
    with pytest.raises(ConfigError, match="use one of assign, subscribe, subscribePattern"):
        parse_options(SERVERS)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is required"):
        parse_options({"subscribe": "orders"})
    with pytest.raises(ConfigError, match="assign names no partition"):
        parse_options({**SERVERS, "assign": "{}"})


def test_topic_selections() -> None:
    assert parse_options({**SERVERS, "subscribe": " a, b ,,a"}).selection == Subscribe(("a", "b"))
    assert parse_options({**SERVERS, "path": "a,b"}).selection == Subscribe(("a", "b"))
    assert parse_options({**SERVERS, "paths": '["a","b"]'}).selection == Subscribe(("a", "b"))
    assert parse_options({**SERVERS, "subscribePattern": " a.* "}).selection == Pattern("a.*")
    assert parse_options({**SERVERS, "assign": '{"a":[1]}'}).selection == Assign(frozenset([TopicPartition("a", 1)]))
    assert parse_options({**SERVERS, "view": "groups"}).selection is None
    assert parse_options({**SERVERS, "view": "commits"}).selection == Subscribe(("__consumer_offsets",))


def test_precedence_of_start_and_end_options() -> None:
    by_offsets = {**BASE, "startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":9}}'}
    by_times = {
        **by_offsets,
        "startingOffsetsByTimestamp": '{"orders":{"0":1700000000006}}',
        "endingOffsetsByTimestamp": '{"orders":{"0":1700000000008}}',
    }
    by_moment = {**by_times, "startingTimestamp": "1700000007", "endingTimestamp": "2023-11-14T22:13:27Z"}
    tp = TopicPartition("orders", 0)
    assert parse_options(by_offsets)[4:6] == (
        (ByPartition({tp: Place.offset(5)}), "error", "error"),
        (ByPartition({tp: Place.offset(9)}),),
    )
    assert (parse_options(by_times).starting.at, parse_options(by_times).ending.at) == (
        ByPartition({tp: Place.time(1_700_000_000_006)}, "OffsetsByTimestamp"),
        ByPartition({tp: Place.time(1_700_000_000_008)}, "OffsetsByTimestamp"),
    )
    assert (parse_options(by_moment).starting.at, parse_options(by_moment).ending.at) == (
        Place.time(1_700_000_007_000),
        Place.time(1_700_000_007_000),
    )


def test_a_dry_run_shows_the_time_that_an_option_means() -> None:
    given = {
        "startingTimestamp": "1700000000",
        "ENDINGTIMESTAMP": "-1h",
        "startingOffsets": "-90s",
        "endingOffsets": "latest",
        "endingOffsetsByTimestamp": '{"orders":{"0":1700000000001}}',
        "view": "records",
    }
    assert with_resolved_times(given, 1_700_003_600_000) == {
        **given,
        "startingTimestamp": "1700000000 (2023-11-14T22:13:20.000Z)",
        "ENDINGTIMESTAMP": "-1h (2023-11-14T22:13:20.000Z)",
        "startingOffsets": "-90s (2023-11-14T23:11:50.000Z)",
        "endingOffsetsByTimestamp": '{"orders":{"0":1700000000001}} ({"orders": {"0": "2023-11-14T22:13:20.001Z"}})',
    }
    absolute = {"startingTimestamp": "2023-11-14T22:13:20.000Z"}
    assert with_resolved_times(absolute, 0) == absolute


def test_starts_at_groups_and_relative_times() -> None:
    assert options(startingOffsets="group: billing").starting.at == OfGroup("billing")
    assert options(startingOffsets="-1h30m").starting.at == Place.ago(5_400_000)
    assert options(startingTimestamp="-90s", endingTimestamp="-1.5s").ending.at == Place.ago(1_500)
    # No records since then is an error only for an absolute time, or on request.
    assert options(startingOffsets="-1w").starting.no_match == "latest"
    assert options(startingOffsets="-1w", startingOffsetsByTimestampStrategy="error").starting.no_match == "error"


@pytest.mark.parametrize(
    ("text", "ms"), [("100", 100), ("100ms", 100), ("30s", 30_000), ("2min", 120_000), ("1h", 3_600_000), ("5000us", 5)]
)
def test_durations_follow_spark(text: str, ms: int) -> None:
    assert options(stream=True, maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_options_without_effect_are_reported() -> None:
    assert options(maxOffsetsPerTrigger=5, kafka_group_id="g").notes == (
        "maxOffsetsPerTrigger is ignored in a batch",
        "kafka.group.id is ignored: the source reads without a group; commitGroup commits a stream's position",
    )
    assert options(stream=True, maxOffsetsPerTrigger=5).notes == ()
    assert "pushdown is ignored in a stream" in options(stream=True, pushdown="true").notes
    with pytest.raises(ConfigError, match="view=lag cannot be streamed"):
        options(stream=True, view="lag")


@pytest.mark.parametrize("name", _ONLY_BATCH)
def test_options_reported_as_ignored_have_no_effect(name: str) -> None:
    assert options(stream=True, **{name: GOOD[name]})._replace(notes=()) == options(stream=True)
    assert options(**{name: GOOD[name]}) != options()


def test_options_ignored_by_a_view_are_reported() -> None:
    every = {**GOOD, **WAYS, "paths": '["orders"]'}
    for view in VIEW_NAMES:
        base = BASE if view in ("records", "batches", "gaps") else SERVERS
        for name in ignored_options(view):
            shown = "load(...)" if name in ("path", "paths") else name
            result = parse_options({**base, "view": view, name: every[name]}).notes
            assert result == (f"{shown} is ignored by view {view}",)
    assert parse_options({**BASE, "view": "lag"}).notes == ("subscribe is ignored by view lag",)
    assert parse_options({**BASE, "groups": "g"}).notes == ("groups is ignored by view records",)
    for view in ("groups", "members", "lag", "commits"):
        assert parse_options({**SERVERS, "view": view, "groups": "g"}).notes == ()
    assert parse_options({**BASE, "view": "offsets", "fetchOffset.numRetries": "5"}).notes == ()
    assert parse_options({**BASE, "includeHeaders": "true", "startingOffsets": "-1h"}).notes == ()


def test_files_and_variables_are_resolved_by_client_config(tmp_path: Path) -> None:
    secret, file = tmp_path / "password", tmp_path / "client.properties"
    secret.write_text("hidden\n")
    file.write_text(
        "bootstrap.servers=f:1\nauto.offset.reset=latest\ngroup.id=g\nsession.timeout.ms=1\nclient.id=of-file\n"
        "isolation.level=read_committed\nkey.deserializer=X\nenable.auto.commit=true\nallow.auto.create.topics=true\n"
    )
    parsed = parse_options(
        {
            "subscribe": "orders",
            "kafka.config.file": str(file),
            "kafka.client.rack": "env:RACK",
            "kafka.ssl.key.password": f"file:{secret}",
            "kafka.client.id": "of-option",
            "kafka.qeue.size": "1",
        }
    )
    assert "hidden" not in repr(parsed)
    config = client_config(parsed.kafka, environ={"RACK": "eu-1"})
    assert (config.bootstrap_servers, config.client_rack, config.client_id) == ("f:1", "eu-1", "of-option")
    assert config.reads_committed
    assert (config.group_id, config.enable_auto_commit, config.allow_auto_create_topics) == (None, False, False)
    assert config.given["ssl.key.password"] == Secret("hidden")
    assert ignored_properties(config) == [
        "kafka.qeue.size is ignored: it is not a Kafka client property",
        "kafka.ssl.key.password has no effect: security.protocol is PLAINTEXT",
    ]
    with pytest.raises(ConfigError, match="environment variable RACK is not set in this process"):
        client_config(parsed.kafka, environ={})


def test_properties_without_effect_are_named_with_the_reason() -> None:
    config = client_config({"bootstrap.servers": "a:1", "max.poll.records": "500"})
    (note,) = ignored_properties(config)
    assert note.startswith("kafka.max.poll.records has no effect: a task reads its range")


def test_a_config_file_that_is_missing_or_names_no_broker(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.config\.file: cannot read /nowhere: No such file"):
        client_config(parse_options({"subscribe": "t", "kafka.config.file": "/nowhere"}).kafka)
    (tmp_path / "empty").write_text("")
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is required"):
        client_config(parse_options({"subscribe": "t", "kafka.config.file": str(tmp_path / "empty")}).kafka)


def test_repr_hides_secrets() -> None:
    parsed = options(kafka_sasl_jaas_config="password=hidden", kafka_ssl_keystore_password="hidden")
    assert "hidden" not in repr(parsed)
    assert "subscribe" in repr(parsed).lower()


def test_a_secured_connection_with_librdkafkas_names_providers_and_references(tmp_path: Path) -> None:
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    parsed = parse_options(
        {
            "subscribe": "orders",
            "kafka.metadata.broker.list": "a",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanisms": "PLAIN",
            "kafka.config.providers": "env",
            "kafka.config.providers.env.class": provider,
            "kafka.sasl.jaas.config": 'a.Plain required username="a" password="${env:PW}";',
            "kafka.ssl.key.password": "env:LITERAL",
            "kafka.sasl.oauthbearer.token.endpoint.url": "file:/etc/token",
        }
    )
    config = client_config(parsed.kafka, environ={"PW": "hunter2", "LITERAL": "${a:b}"})
    assert (config.bootstrap_servers, config.sasl_mechanism) == ("a:9092", "PLAIN")
    assert config.sasl_jaas_config == Secret('a.Plain required username="a" password="hunter2";')
    assert config.ssl_key_password == Secret("${a:b}")
    assert config.sasl_oauthbearer_token_endpoint_url == "file:/etc/token"
    assert ignored_properties(config) == []


def test_the_configuration_and_the_options_pickle_and_hide_secrets() -> None:
    parsed = parse_options(
        {
            **BASE,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "a",
            "kafka.sasl.password": "hunter2",
        }
    )
    assert "hunter2" not in repr(parsed)
    config = client_config(pickle.loads(pickle.dumps(parsed)).kafka)
    assert pickle.loads(pickle.dumps(config)) == config
    assert "hunter2" not in repr(vars(config))

"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.broker.handlers.api_table import HANDLERS
from kcli.protocol.messages import alter_configs as old
from kcli.protocol.messages import incremental_alter_configs as new
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.single_broker import Node
from tests.broker.wire import Wire
from tests.real_kafka import Kafka, OwnBroker

OK, UNKNOWN, INVALID_TOPIC, INVALID_CONFIG, INVALID_REQUEST = 0, 3, 17, 40, 42
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_BROKER, FROM_ALL, FROM_START, DEFAULT, FROM_METRICS, FROM_GROUP = 1, 2, 3, 4, 5, 7, 8
PATIENCE_S = 20

Described = dict[str, tuple[str | None, int]]  # value and source by name


@pytest.fixture
def own_wire(any_own_kafka: Callable[..., OwnBroker]) -> Iterator[Wire]:
    """A connection to a broker whose own settings may be changed."""
    with Wire(any_own_kafka(**{"log.retention.hours": "100"}).bootstrap_servers) as connection:
        yield connection


def describe(wire: Any, kind: int, name: str, keys: list[str] | None = None, version: int = 4) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    [result] = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def described(wire: Any, kind: int, name: str, *keys: str) -> Described:
    result = describe(wire, kind, name, list(keys))
    assert result.error_code == OK
    return {config.name: (config.value, config.config_source) for config in result.configs}


def alter(wire: Any, kind: int, name: str, *changes: tuple[str, int, str | None], **options: Any) -> int:
    configs = [new.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = new.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    [row] = wire.ask(new.IncrementalAlterConfigsRequest(resources=[resource], **options), 1).responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    assert (row.error_message is None) == (row.error_code == OK)
    return int(row.error_code)


def replace(wire: Any, kind: int, name: str, *settings: tuple[str, str | None], version: int = 2) -> int:
    configs = [old.AlterableConfig(name=key, value=value) for key, value in settings]
    resource = old.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    [row] = wire.ask(old.AlterConfigsRequest(resources=[resource]), version).responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    return int(row.error_code)


def wait_for(expected: Described, wire: Any, kind: int, name: str) -> None:
    """Wait until the settings have these values; Apache Kafka's brokers apply changes asynchronously."""
    deadline = time.monotonic() + PATIENCE_S
    while (actual := described(wire, kind, name, *expected)) != expected:
        assert time.monotonic() < deadline, actual
        time.sleep(0.02)


# ---- DescribeConfigs ----


def test_topic_settings_are_described_as_by_apache_kafka(our_kafka: Kafka, real_kafka: Kafka) -> None:
    answers = []
    for kafka in (our_kafka, real_kafka):
        name = kafka.new_topic(retention_ms=" 99 ", cleanup_policy="compact,delete", internal_segment_bytes=5000)
        with Wire(kafka.bootstrap_servers) as wire:
            wait_for({"retention.ms": ("99", FROM_TOPIC)}, wire, TOPIC, name)
            answers.append({config.name: config for config in describe(wire, TOPIC, name).configs})
    ours, kafkas = answers
    assert ours == kafkas
    assert len(ours) == 34


def test_broker_settings_are_described_as_by_apache_kafka(our_kafka: Kafka, real_kafka: Kafka) -> None:
    """Compare the settings of the embedded broker, except those given to either broker at its start."""
    answers = []
    for kafka in (our_kafka, real_kafka):
        with Wire(kafka.bootstrap_servers) as wire:
            answers.append({config.name: config for config in describe(wire, BROKER, "1").configs})
    ours, kafkas = answers
    assert len(ours) > 100
    differing = {
        name
        for name, config in ours.items()
        if FROM_START not in (config.config_source, kafkas[name].config_source)
        and (config.value, config.synonyms, config.config_type)
        != (kafkas[name].value, kafkas[name].synonyms, kafkas[name].config_type)
    }
    assert differing == {"log.dir"}


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_returns_values_and_synonyms(version: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(cleanup_policy="compact")
    wait_for({"cleanup.policy": ("compact", FROM_TOPIC)}, wire, TOPIC, name)

    [config] = describe(wire, TOPIC, name, ["cleanup.policy"], version).configs

    assert (config.name, config.value, config.config_source) == ("cleanup.policy", "compact", FROM_TOPIC)
    assert (config.read_only, config.is_sensitive) == (False, False)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("cleanup.policy", "compact", FROM_TOPIC), ("log.cleanup.policy", "delete", DEFAULT),
    ]  # fmt: skip
    assert config.config_type == (7 if version >= 3 else 0)


def test_synonyms_are_returned_only_on_request(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(cleanup_policy="compact")
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["cleanup.policy"])
    [result] = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [config.synonyms for config in result.configs] == [[]]


def test_empty_key_list_returns_all_keys_and_unknown_keys_are_left_out(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert len(describe(wire, TOPIC, name, []).configs) == 33
    assert len(describe(wire, TOPIC, name, None).configs) == 33
    assert describe(wire, TOPIC, name, ["nope"]).configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", UNKNOWN),
        (TOPIC, "", INVALID_TOPIC),
        (TOPIC, "a/b", INVALID_TOPIC),
        (BROKER, "2", INVALID_REQUEST),
        (BROKER, "x", INVALID_REQUEST),
        (LOGGER, "2", INVALID_REQUEST),
        (METRICS, "", INVALID_REQUEST),
        (GROUP, "", INVALID_REQUEST),
        (99, "x", INVALID_REQUEST),
        (0, "x", INVALID_REQUEST),
    ],
)
def test_unknown_or_invalid_resource_has_an_error(kind: int, name: str, code: int, wire: Wire) -> None:
    result = describe(wire, kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_loggers_have_no_settings() -> None:
    """Apache Kafka returns settings of loggers."""
    result = describe(Node(), LOGGER, "1")
    assert (result.error_code, result.configs) == (OK, [])


# ---- IncrementalAlterConfigs of topics ----


def test_set_and_delete_a_topic_override(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "500"), ("segment.ms", SET, "600")) == OK
    wait_for({"retention.ms": ("500", FROM_TOPIC), "segment.ms": ("600", FROM_TOPIC)}, wire, TOPIC, name)
    assert alter(wire, TOPIC, name, ("retention.ms", DELETE, None)) == OK
    wait_for({"retention.ms": ("604800000", DEFAULT), "segment.ms": ("600", FROM_TOPIC)}, wire, TOPIC, name)
    assert alter(wire, TOPIC, name, ("retention.ms", DELETE, "x"), ("nope", DELETE, None)) == OK
    assert alter(wire, TOPIC, name) == OK


def test_append_and_subtract_list_values(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    for operation, value, after in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (APPEND, "compact,delete", "compact,delete"),
        (SUBTRACT, "nonsense", "compact,delete"),
        (SUBTRACT, "", "compact,delete"),
    ):
        assert alter(wire, TOPIC, name, ("cleanup.policy", operation, value)) == OK
        wait_for({"cleanup.policy": (after, FROM_TOPIC)}, wire, TOPIC, name)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("nope", SET, "1")], INVALID_CONFIG),
        ([("", SET, "1")], INVALID_CONFIG),
        ([("retention.ms", SET, "x")], INVALID_CONFIG),
        ([("retention.ms", SET, None)], INVALID_REQUEST),
        ([("retention.ms", APPEND, "1")], INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], INVALID_CONFIG),
        ([("nope", APPEND, "1")], INVALID_CONFIG),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], INVALID_REQUEST),
        ([("cleanup.policy", APPEND, "shred")], INVALID_CONFIG),
        ([("cleanup.policy", APPEND, None)], INVALID_REQUEST),
        ([("max.compaction.lag.ms", SET, "1"), ("min.compaction.lag.ms", SET, "2")], INVALID_CONFIG),
        ([("remote.storage.enable", SET, "true")], INVALID_CONFIG),
    ],
)
def test_invalid_change_changes_nothing(
    changes: list[tuple[str, int, str | None]], code: int, wire: Wire, any_kafka: Kafka
) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, name, ("segment.ms", SET, "600"), *changes) == code
    assert alter(wire, TOPIC, name, ("segment.index.bytes", SET, "100")) == OK
    wait_for({"segment.index.bytes": ("100", FROM_TOPIC), "segment.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)


def test_unknown_operation_is_refused() -> None:
    """Apache Kafka returns error -1."""
    node = Node()
    node.cluster.create_topic("orders")
    assert alter(node, TOPIC, "orders", ("retention.ms", 7, "1")) == INVALID_REQUEST


def test_unknown_and_duplicate_resources_are_refused(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, "nope", ("retention.ms", SET, "1")) == UNKNOWN
    assert alter(wire, TOPIC, "", ("retention.ms", SET, "1")) == INVALID_REQUEST
    assert alter(wire, TOPIC, "a/b", ("retention.ms", SET, "1")) == INVALID_TOPIC
    assert alter(wire, 99, "x", ("retention.ms", SET, "1")) == INVALID_REQUEST
    one = new.AlterConfigsResource(
        resource_type=TOPIC, resource_name=name, configs=[new.AlterableConfig(name="retention.ms", value="1")]
    )
    other = new.AlterConfigsResource(resource_type=TOPIC, resource_name="nope")
    rows = wire.ask(new.IncrementalAlterConfigsRequest(resources=[one, one]), 1).responses
    assert [row.error_code for row in rows] == [INVALID_REQUEST, INVALID_REQUEST]
    rows = wire.ask(new.IncrementalAlterConfigsRequest(resources=[one, other]), 0).responses
    assert {row.resource_name: row.error_code for row in rows} == {name: OK, "nope": UNKNOWN}


def test_validate_only_changes_nothing(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "42"), validate_only=True) == OK
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "x"), validate_only=True) == INVALID_CONFIG
    assert alter(wire, TOPIC, name, ("segment.ms", SET, "600")) == OK
    wait_for({"segment.ms": ("600", FROM_TOPIC), "retention.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)


# ---- IncrementalAlterConfigs of brokers ----


def test_broker_overrides_and_their_synonyms(own_wire: Wire) -> None:
    wire = own_wire
    assert described(wire, BROKER, "1", "log.retention.ms", "log.retention.hours") == {
        "log.retention.ms": (None, DEFAULT), "log.retention.hours": ("100", FROM_START),
    }  # fmt: skip
    assert alter(wire, BROKER, "1", ("log.retention.ms", SET, "5000")) == OK
    ratio = "log.cleaner.min.cleanable.ratio"
    assert alter(wire, BROKER, "", ("log.retention.ms", SET, "6000"), (ratio, SET, "0.7")) == OK

    wait_for({"log.retention.ms": ("5000", FROM_BROKER), ratio: ("0.7", FROM_ALL)}, wire, BROKER, "1")
    wait_for({"log.retention.ms": ("6000", FROM_ALL), ratio: ("0.7", FROM_ALL)}, wire, BROKER, "")
    [config] = describe(wire, BROKER, "1", ["log.retention.ms"]).configs
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("log.retention.ms", "5000", FROM_BROKER),
        ("log.retention.ms", "6000", FROM_ALL),
        ("log.retention.hours", "100", FROM_START),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert alter(wire, BROKER, "1", ("log.retention.ms", DELETE, None)) == OK
    wait_for({"log.retention.ms": ("6000", FROM_ALL)}, wire, BROKER, "1")
    assert alter(wire, BROKER, "", ("log.cleanup.policy", APPEND, "compact")) == OK
    wait_for({"log.cleanup.policy": ("delete,compact", FROM_ALL)}, wire, BROKER, "1")


@pytest.mark.parametrize(
    ("name", "setting", "value", "code"),
    [
        ("1", "num.partitions", "3", INVALID_REQUEST),
        ("", "num.partitions", "3", INVALID_REQUEST),
        ("2", "log.retention.ms", "3", INVALID_REQUEST),
        ("x", "log.retention.ms", "3", INVALID_REQUEST),
        ("1", "log.retention.ms", "x", INVALID_REQUEST),
        ("1", "log.segment.bytes", "10", INVALID_REQUEST),
        ("", "listeners", "PLAINTEXT://:1", INVALID_REQUEST),
        ("1", "min.insync.replicas", "1", INVALID_CONFIG),
    ],
)
def test_read_only_or_invalid_broker_setting_is_refused(
    name: str, setting: str, value: str, code: int, wire: Wire
) -> None:
    assert alter(wire, BROKER, name, (setting, SET, value)) == code


def test_min_insync_replicas_of_all_brokers_cannot_be_deleted(wire: Wire) -> None:
    assert alter(wire, BROKER, "", ("min.insync.replicas", DELETE, None)) == INVALID_CONFIG
    assert described(wire, BROKER, "", "min.insync.replicas") == {"min.insync.replicas": ("1", FROM_ALL)}


def test_unknown_broker_setting_is_refused() -> None:
    """Apache Kafka accepts any name, for plugins; the embedded broker has no plugins."""
    assert alter(Node(), BROKER, "1", ("nope", SET, "1")) == INVALID_CONFIG


def test_settings_of_loggers_cannot_be_changed() -> None:
    assert alter(Node(), LOGGER, "1", ("root", SET, "DEBUG")) == INVALID_CONFIG


# ---- groups ----


def test_group_settings_are_described_as_by_apache_kafka(our_kafka: Kafka, real_kafka: Kafka) -> None:
    """Compare all settings of a group with overrides, except the broker's own that were given at its start."""
    answers = []
    for kafka in (our_kafka, real_kafka):
        name = kafka.new_name("g")
        with Wire(kafka.bootstrap_servers) as wire:
            changes = [("consumer.assignment.interval.ms", SET, "50"), ("share.auto.offset.reset", SET, "earliest")]
            assert alter(wire, GROUP, name, *changes) == OK
            wait_for({"share.auto.offset.reset": ("earliest", FROM_GROUP)}, wire, GROUP, name)
            configs = {config.name: config for config in describe(wire, GROUP, name).configs}
        for config in configs.values():
            if any(synonym.source == FROM_START for synonym in config.synonyms):
                config.value, config.config_source = "given", FROM_START
                config.synonyms = [one for one in config.synonyms if one.source != FROM_START]
        answers.append(configs)
    ours, kafkas = answers
    assert set(ours) == set(kafkas)
    given = {name for name in ours if FROM_START in (ours[name].config_source, kafkas[name].config_source)}
    assert {name: one for name, one in ours.items() if name not in given} == {
        name: one for name, one in kafkas.items() if name not in given
    }
    assert len(ours) == 17


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("nope", "1", INVALID_CONFIG),
        ("retention.ms", "1", INVALID_CONFIG),
        ("consumer.session.timeout.ms", "x", INVALID_CONFIG),
        ("consumer.session.timeout.ms", "1", INVALID_CONFIG),
        ("consumer.session.timeout.ms", "60001", INVALID_CONFIG),
        ("consumer.heartbeat.interval.ms", "0", INVALID_CONFIG),
        ("consumer.heartbeat.interval.ms", "15001", INVALID_CONFIG),
        ("consumer.assignment.interval.ms", "15001", INVALID_CONFIG),
        ("consumer.assignment.interval.ms", "-1", INVALID_CONFIG),
        ("share.delivery.count.limit", "11", INVALID_CONFIG),
        ("share.isolation.level", "none", INVALID_CONFIG),
        ("share.auto.offset.reset", "never", INVALID_CONFIG),
        ("streams.num.standby.replicas", "3", INVALID_CONFIG),
        ("streams.num.standby.replicas", "2", OK),
        ("consumer.session.timeout.ms", "50000", OK),
        ("consumer.session.timeout.ms", None, INVALID_REQUEST),
    ],
)
def test_group_setting_is_checked(setting: str, value: str | None, code: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name("g")
    assert alter(wire, GROUP, name, (setting, SET, value), validate_only=True) == code
    assert described(wire, GROUP, name, "share.auto.offset.reset") == {"share.auto.offset.reset": ("latest", DEFAULT)}


def test_group_settings_are_listed_and_deleted(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name("g")
    assert alter(wire, GROUP, name, ("consumer.session.timeout.ms", APPEND, "50000")) == INVALID_CONFIG
    assert alter(wire, GROUP, name, ("consumer.session.timeout.ms", SET, "50000")) == OK
    wait_for({"consumer.session.timeout.ms": ("50000", FROM_GROUP)}, wire, GROUP, name)
    assert name in groups_with_settings(wire)
    assert replace(wire, GROUP, name, ("consumer.assignment.interval.ms", "10")) == OK
    wait_for({"consumer.assignment.interval.ms": ("10", FROM_GROUP)}, wire, GROUP, name)
    assert described(wire, GROUP, name, "consumer.session.timeout.ms")["consumer.session.timeout.ms"][1] != FROM_GROUP
    assert alter(wire, GROUP, name, ("consumer.assignment.interval.ms", DELETE, None)) == OK
    wait_for({"consumer.assignment.interval.ms": ("1000", DEFAULT)}, wire, GROUP, name)
    assert name not in groups_with_settings(wire)
    assert alter(wire, GROUP, "", ("consumer.session.timeout.ms", SET, "50000")) == INVALID_REQUEST


def groups_with_settings(wire: Wire) -> list[str]:
    answer = wire.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    assert {one.resource_type for one in answer.config_resources} <= {GROUP}
    return [one.resource_name for one in answer.config_resources]


# ---- client metrics ----


def test_client_metrics_settings_are_described_as_by_apache_kafka(our_kafka: Kafka, real_kafka: Kafka) -> None:
    answers = []
    for kafka in (our_kafka, real_kafka):
        with Wire(kafka.bootstrap_servers) as wire:
            assert alter(wire, METRICS, "m1", ("match", SET, "client_id=a.*, client_software_name = b")) == OK
            wait_for({"match": ("client_id=a.*,client_software_name = b", FROM_METRICS)}, wire, METRICS, "m1")
            answers.append({config.name: config for config in describe(wire, METRICS, "m1").configs})
            absent = {config.name: config for config in describe(wire, METRICS, "no-such").configs}
            answers[-1].update({f"default {name}": config for name, config in absent.items()})
            assert alter(wire, METRICS, "m1", ("match", DELETE, None)) == OK
    assert answers[0] == answers[1]
    assert len(answers[0]) == 6


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("nope", "1", INVALID_REQUEST),
        ("interval.ms", "x", INVALID_CONFIG),
        ("interval.ms", "99", INVALID_REQUEST),
        ("interval.ms", "100", OK),
        ("interval.ms", "3600000", OK),
        ("interval.ms", "3600001", INVALID_REQUEST),
        ("metrics", "", OK),
        ("metrics", "*", OK),
        ("metrics", "a,,b", INVALID_CONFIG),
        ("metrics", "a,b,a", OK),
        ("match", "", OK),
        ("match", "client_id", INVALID_CONFIG),
        ("match", "client_id=", INVALID_CONFIG),
        ("match", "client_id=a=b", INVALID_CONFIG),
        ("match", "client_id=(", INVALID_CONFIG),
        ("match", "client_name=a", INVALID_CONFIG),
        ("match", "client_source_port=1,client_source_address=2", OK),
        ("interval.ms", None, INVALID_REQUEST),
    ],
)
def test_client_metrics_setting_is_checked(
    setting: str, value: str | None, code: int, wire: Wire, any_kafka: Kafka
) -> None:
    name = any_kafka.new_name("m")
    assert alter(wire, METRICS, name, (setting, SET, value), validate_only=True) == code
    assert described(wire, METRICS, name, "interval.ms") == {"interval.ms": ("300000", DEFAULT)}


def test_client_metrics_are_listed_and_deleted(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name("m")
    assert alter(wire, METRICS, name, ("metrics", APPEND, "a,b")) == INVALID_CONFIG
    assert alter(wire, METRICS, name, ("metrics", SET, "a,b"), ("interval.ms", SET, "5000")) == OK
    wait_for({"metrics": ("a,b", FROM_METRICS), "interval.ms": ("5000", FROM_METRICS)}, wire, METRICS, name)
    assert alter(wire, METRICS, name, ("metrics", SUBTRACT, "a")) == INVALID_CONFIG
    for version, types in ((0, []), (1, [METRICS])):
        listed = wire.ask(ListConfigResourcesRequest(resource_types=types), version).config_resources
        assert name in [one.resource_name for one in listed]
    assert replace(wire, METRICS, name) == OK
    wait_for({"metrics": ("", DEFAULT), "interval.ms": ("300000", DEFAULT)}, wire, METRICS, name)
    listed = wire.ask(ListConfigResourcesRequest(resource_types=[METRICS]), 1).config_resources
    assert name not in [one.resource_name for one in listed]
    assert alter(wire, METRICS, "", ("interval.ms", SET, "5000")) == INVALID_REQUEST


# ---- AlterConfigs ----


def test_alter_configs_removes_overrides_that_it_does_not_name(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(segment_ms=600)
    assert replace(wire, TOPIC, name, ("retention.ms", "77")) == OK
    wait_for({"retention.ms": ("77", FROM_TOPIC), "segment.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)
    assert replace(wire, TOPIC, name, version=0) == OK
    wait_for({"retention.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ([("retention.ms", "x")], INVALID_CONFIG),
        ([("nope", "1")], INVALID_CONFIG),
        ([("retention.ms", None)], INVALID_REQUEST),
        ([("retention.ms", "1"), ("retention.ms", "2")], INVALID_REQUEST),
    ],
)
def test_invalid_alter_configs_changes_nothing(
    settings: list[tuple[str, str | None]], code: int, wire: Wire, any_kafka: Kafka
) -> None:
    name = any_kafka.new_topic(segment_ms=600)
    assert replace(wire, TOPIC, name, *settings) == code
    wait_for({"segment.ms": ("600", FROM_TOPIC)}, wire, TOPIC, name)


def test_alter_configs_of_unknown_or_read_only_resources_is_refused(wire: Wire) -> None:
    assert replace(wire, TOPIC, "nope", ("retention.ms", "1")) == UNKNOWN
    assert replace(wire, 99, "x") == INVALID_REQUEST
    assert replace(wire, BROKER, "1", ("num.partitions", "3")) == INVALID_REQUEST
    assert replace(wire, BROKER, "1") == OK


def test_all_versions_of_kafka_are_served() -> None:
    for request in (DescribeConfigsRequest, new.IncrementalAlterConfigsRequest, old.AlterConfigsRequest):
        served = HANDLERS[request.API_KEY]
        assert (served.first_version, served.last_version) == request.VERSIONS

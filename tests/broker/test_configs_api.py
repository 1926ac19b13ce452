"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, on our broker and on Apache's alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.broker.handlers.api_table import HANDLERS
from kcli.protocol.messages import alter_configs as old
from kcli.protocol.messages import incremental_alter_configs as new
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.node import Node
from tests.broker.wire import Wire
from tests.real_kafka import Kafka, OwnBroker

OK, UNKNOWN, INVALID_TOPIC, INVALID_CONFIG, INVALID_REQUEST = 0, 3, 17, 40, 42
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_BROKER, FROM_ALL, FROM_START, DEFAULT = 1, 2, 3, 4, 5
PATIENCE_S = 20

Told = dict[str, tuple[str | None, int]]  # value and source by name


@pytest.fixture
def wire(any_kafka: Kafka) -> Iterator[Wire]:
    with Wire(any_kafka.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def own_wire(any_own_kafka: Callable[..., OwnBroker]) -> Iterator[Wire]:
    """To a broker whose own settings may be changed."""
    with Wire(any_own_kafka(**{"log.retention.hours": "100"}).bootstrap_servers) as connection:
        yield connection


def describe(wire: Any, kind: int, name: str, keys: list[str] | None = None, version: int = 4) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    [result] = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def told(wire: Any, kind: int, name: str, *keys: str) -> Told:
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


def comes_to(wanted: Told, wire: Any, kind: int, name: str) -> None:
    """Apache's brokers learn of changes a moment after they are made."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := told(wire, kind, name, *wanted)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


# ---- what is told ----


def test_both_brokers_tell_the_same_of_a_topic(our_kafka: Kafka, real_kafka: Kafka) -> None:
    answers = []
    for kafka in (our_kafka, real_kafka):
        name = kafka.new_topic(retention_ms=" 99 ", cleanup_policy="compact,delete", internal_segment_bytes=5000)
        with Wire(kafka.bootstrap_servers) as wire:
            comes_to({"retention.ms": ("99", FROM_TOPIC)}, wire, TOPIC, name)
            answers.append({config.name: config for config in describe(wire, TOPIC, name).configs})
    ours, kafkas = answers
    assert ours == kafkas
    assert len(ours) == 34


def test_both_brokers_tell_the_same_of_themselves_but_for_their_own_ways(our_kafka: Kafka, real_kafka: Kafka) -> None:
    """Where ours has a setting at all; what was given to one of them at its start is not compared."""
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
def test_every_version_tells_values_and_synonyms(version: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(cleanup_policy="compact")
    comes_to({"cleanup.policy": ("compact", FROM_TOPIC)}, wire, TOPIC, name)

    [config] = describe(wire, TOPIC, name, ["cleanup.policy"], version).configs

    assert (config.name, config.value, config.config_source) == ("cleanup.policy", "compact", FROM_TOPIC)
    assert (config.read_only, config.is_sensitive) == (False, False)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("cleanup.policy", "compact", FROM_TOPIC), ("log.cleanup.policy", "delete", DEFAULT),
    ]  # fmt: skip
    assert config.config_type == (7 if version >= 3 else 0)


def test_synonyms_only_when_asked_for(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(cleanup_policy="compact")
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["cleanup.policy"])
    [result] = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [config.synonyms for config in result.configs] == [[]]


def test_no_keys_are_all_keys_and_unknown_ones_are_left_out(wire: Wire, any_kafka: Kafka) -> None:
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
def test_what_has_no_settings_says_why(kind: int, name: str, code: int, wire: Wire) -> None:
    result = describe(wire, kind, name)
    assert (result.error_code, result.configs) == (code, [])


@pytest.mark.parametrize(("kind", "name"), [(LOGGER, "1"), (METRICS, "m"), (GROUP, "g")])
def test_what_we_have_no_settings_for_has_none(kind: int, name: str) -> None:
    """Apache's tell those of loggers, and defaults of groups."""
    result = describe(Node(), kind, name)
    assert (result.error_code, result.configs) == (OK, [])


# ---- single settings of a topic ----


def test_a_setting_is_set_and_deleted(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "500"), ("segment.ms", SET, "600")) == OK
    comes_to({"retention.ms": ("500", FROM_TOPIC), "segment.ms": ("600", FROM_TOPIC)}, wire, TOPIC, name)
    assert alter(wire, TOPIC, name, ("retention.ms", DELETE, None)) == OK
    comes_to({"retention.ms": ("604800000", DEFAULT), "segment.ms": ("600", FROM_TOPIC)}, wire, TOPIC, name)
    assert alter(wire, TOPIC, name, ("retention.ms", DELETE, "x"), ("nope", DELETE, None)) == OK
    assert alter(wire, TOPIC, name) == OK


def test_lists_are_appended_to_and_subtracted_from(wire: Wire, any_kafka: Kafka) -> None:
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
        comes_to({"cleanup.policy": (after, FROM_TOPIC)}, wire, TOPIC, name)


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
def test_a_change_that_makes_no_sense_changes_nothing(
    changes: list[tuple[str, int, str | None]], code: int, wire: Wire, any_kafka: Kafka
) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, name, ("segment.ms", SET, "600"), *changes) == code
    assert alter(wire, TOPIC, name, ("segment.index.bytes", SET, "100")) == OK
    comes_to({"segment.index.bytes": ("100", FROM_TOPIC), "segment.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)


def test_an_operation_that_nobody_knows_is_refused() -> None:
    """Apache's answers -1."""
    node = Node()
    node.cluster.create_topic("orders")
    assert alter(node, TOPIC, "orders", ("retention.ms", 7, "1")) == INVALID_REQUEST


def test_resources_must_be_there_and_come_once(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, "nope", ("retention.ms", SET, "1")) == UNKNOWN
    assert alter(wire, TOPIC, "", ("retention.ms", SET, "1")) == INVALID_REQUEST
    assert alter(wire, 99, "x", ("retention.ms", SET, "1")) == INVALID_REQUEST
    one = new.AlterConfigsResource(
        resource_type=TOPIC, resource_name=name, configs=[new.AlterableConfig(name="retention.ms", value="1")]
    )
    other = new.AlterConfigsResource(resource_type=TOPIC, resource_name="nope")
    rows = wire.ask(new.IncrementalAlterConfigsRequest(resources=[one, one]), 1).responses
    assert [row.error_code for row in rows] == [INVALID_REQUEST, INVALID_REQUEST]
    rows = wire.ask(new.IncrementalAlterConfigsRequest(resources=[one, other]), 0).responses
    assert {row.resource_name: row.error_code for row in rows} == {name: OK, "nope": UNKNOWN}


def test_a_change_may_only_be_checked(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "42"), validate_only=True) == OK
    assert alter(wire, TOPIC, name, ("retention.ms", SET, "x"), validate_only=True) == INVALID_CONFIG
    assert alter(wire, TOPIC, name, ("segment.ms", SET, "600")) == OK
    comes_to({"segment.ms": ("600", FROM_TOPIC), "retention.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)


# ---- settings of the broker ----


def test_settings_of_the_broker_give_topics_their_defaults(own_wire: Wire) -> None:
    wire = own_wire
    assert told(wire, BROKER, "1", "log.retention.ms", "log.retention.hours") == {
        "log.retention.ms": (None, DEFAULT), "log.retention.hours": ("100", FROM_START),
    }  # fmt: skip
    assert alter(wire, BROKER, "1", ("log.retention.ms", SET, "5000")) == OK
    ratio = "log.cleaner.min.cleanable.ratio"
    assert alter(wire, BROKER, "", ("log.retention.ms", SET, "6000"), (ratio, SET, "0.7")) == OK

    comes_to({"log.retention.ms": ("5000", FROM_BROKER), ratio: ("0.7", FROM_ALL)}, wire, BROKER, "1")
    comes_to({"log.retention.ms": ("6000", FROM_ALL), ratio: ("0.7", FROM_ALL)}, wire, BROKER, "")
    [config] = describe(wire, BROKER, "1", ["log.retention.ms"]).configs
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("log.retention.ms", "5000", FROM_BROKER),
        ("log.retention.ms", "6000", FROM_ALL),
        ("log.retention.hours", "100", FROM_START),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert alter(wire, BROKER, "1", ("log.retention.ms", DELETE, None)) == OK
    comes_to({"log.retention.ms": ("6000", FROM_ALL)}, wire, BROKER, "1")
    assert alter(wire, BROKER, "", ("log.cleanup.policy", APPEND, "compact")) == OK
    comes_to({"log.cleanup.policy": ("delete,compact", FROM_ALL)}, wire, BROKER, "1")


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
def test_what_the_broker_cannot_change_is_refused(name: str, setting: str, value: str, code: int, wire: Wire) -> None:
    assert alter(wire, BROKER, name, (setting, SET, value)) == code


def test_in_sync_replicas_of_all_brokers_cannot_be_unset(wire: Wire) -> None:
    assert alter(wire, BROKER, "", ("min.insync.replicas", DELETE, None)) == INVALID_CONFIG
    assert told(wire, BROKER, "", "min.insync.replicas") == {"min.insync.replicas": ("1", FROM_ALL)}


def test_a_setting_that_we_do_not_have_is_refused() -> None:
    """Apache's takes any name, for plugins; ours has none."""
    assert alter(Node(), BROKER, "1", ("nope", SET, "1")) == INVALID_CONFIG


@pytest.mark.parametrize(("kind", "name"), [(LOGGER, "1"), (METRICS, "m"), (GROUP, "g")])
def test_settings_that_we_do_not_have_cannot_be_changed(kind: int, name: str) -> None:
    assert alter(Node(), kind, name, ("root", SET, "DEBUG")) == INVALID_CONFIG


# ---- all settings at once ----


def test_what_is_not_named_is_not_set_any_more(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(segment_ms=600)
    assert replace(wire, TOPIC, name, ("retention.ms", "77")) == OK
    comes_to({"retention.ms": ("77", FROM_TOPIC), "segment.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)
    assert replace(wire, TOPIC, name, version=0) == OK
    comes_to({"retention.ms": ("604800000", DEFAULT)}, wire, TOPIC, name)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ([("retention.ms", "x")], INVALID_CONFIG),
        ([("nope", "1")], INVALID_CONFIG),
        ([("retention.ms", None)], INVALID_REQUEST),
        ([("retention.ms", "1"), ("retention.ms", "2")], INVALID_REQUEST),
    ],
)
def test_settings_that_cannot_be_replace_nothing(
    settings: list[tuple[str, str | None]], code: int, wire: Wire, any_kafka: Kafka
) -> None:
    name = any_kafka.new_topic(segment_ms=600)
    assert replace(wire, TOPIC, name, *settings) == code
    comes_to({"segment.ms": ("600", FROM_TOPIC)}, wire, TOPIC, name)


def test_only_what_is_there_can_be_replaced(wire: Wire) -> None:
    assert replace(wire, TOPIC, "nope", ("retention.ms", "1")) == UNKNOWN
    assert replace(wire, 99, "x") == INVALID_REQUEST
    assert replace(wire, BROKER, "1", ("num.partitions", "3")) == INVALID_REQUEST
    assert replace(wire, BROKER, "1") == OK


def test_all_of_kafkas_versions_are_served() -> None:
    for request in (DescribeConfigsRequest, new.IncrementalAlterConfigsRequest, old.AlterConfigsRequest):
        served = HANDLERS[request.API_KEY]
        assert (served.first_version, served.last_version) == request.VERSIONS

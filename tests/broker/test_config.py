"""Broker settings: parsing and validation of properties, and the same types and defaults as in Apache Kafka."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import kcli.broker
from kcli.broker.alone import Alone
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS
from kcli.broker.config import BROKER_OPTIONS, BrokerConfig
from kcli.broker.config_defs import without_effect
from kcli.broker.log.log_config import LogConfig
from kcli.broker.security.listeners import LISTENER_SETTINGS
from kcli.errors import ConfigError
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kcli.settings import format_value
from tests.broker.wire import Wire
from tests.real_kafka import SETTINGS, Kafka

BROKER = Path(kcli.broker.__file__).parent
BROKER_RESOURCE = 4
DEFAULT = 5

# Settings that differ from Kafka's, with the reason.
OTHER_DEFAULTS = {
    "controller.listener.names": "has none in Kafka, where it must be given",
    "listeners": "loopback only",
    "log.dir": "no data directory unless one is configured",
    "node.id": "has none in Kafka, where it must be given",
    "offsets.topic.replication.factor": "there is one node",
    "process.roles": "has none in Kafka, where it must be given",
    "share.coordinator.state.topic.min.isr": "there is one node",
    "share.coordinator.state.topic.replication.factor": "there is one node",
    "transaction.state.log.min.isr": "there is one node",
    "transaction.state.log.replication.factor": "there is one node",
}
# Read by BrokerConfig itself.
OF_THE_CONFIG = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "process.roles",
    "security.inter.broker.protocol",
}
# Read because clients see them in the settings of topics, but without an effect on a single replica.
ONLY_SHOWN = {
    "share.coordinator.state.topic.min.isr",
    "transaction.state.log.min.isr",
}


def test_settings_are_attributes_with_kafka_defaults() -> None:
    config = BrokerConfig.from_properties({})

    assert config.num_partitions == 1
    assert config.log_retention_hours == 168
    assert config.log_retention_ms is None
    assert config.log_cleanup_policy == ("delete",)
    assert (config.host, config.port) == ("127.0.0.1", 9092)
    assert config.data_dir is None


def test_properties_may_be_text_or_python_values() -> None:
    config = BrokerConfig.from_properties(
        {"num.partitions": 3, "log.retention.ms": " -1 ", "auto.create.topics.enable": False, "log.dirs": "/data"}
    )

    assert config.num_partitions == 3
    assert config.log_retention_ms == -1
    assert config.auto_create_topics_enable is False
    assert config.data_dir == "/data"
    assert config.given["auto.create.topics.enable"] == "false"


def test_every_default_is_within_its_bounds() -> None:
    for option in BROKER_OPTIONS.values():
        if option.default is not None:
            assert option.parse(format_value(option.default)) == option.default, option


def test_with_properties_keeps_the_given_properties() -> None:
    config = BrokerConfig.from_properties({"num.partitions": 3, "log.dirs": "/data"})

    changed = config.with_properties({"num.partitions": 4, "message.max.bytes": 100})

    assert (changed.num_partitions, changed.message_max_bytes, changed.data_dir) == (4, 100, "/data")
    assert config.num_partitions == 3


def test_settings_are_read_only() -> None:
    config = BrokerConfig.from_properties({})
    with pytest.raises(AttributeError):
        config.num_partitions = 2


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("num.partition", "1", "num.partition is not a broker setting; did you mean num.partitions?"),
        ("retention.ms", "1", "retention.ms is not a broker setting; did you mean log.retention.ms?"),
        ("xyzzy", "1", "xyzzy is not a broker setting"),
        ("num.partitions", "0", "num.partitions: '0' is not valid; use a whole number from 1 to 2147483647"),
        ("num.partitions", "one", "num.partitions: the value is not valid; use a whole number"),
        ("num.partitions", "1_000", "use a whole number"),
        ("num.partitions", "", "use a whole number"),
        ("num.partitions", "2147483648", "use a whole number from 1 to 2147483647"),
        ("log.retention.ms", "9" * 400, "use a whole number from -9223372036854775808 to 9223372036854775807"),
        ("offsets.topic.replication.factor", "40000", "use a whole number from 1 to 32767"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "'1.5' is not valid; use a number from 0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "half", "the value is not valid; use a number from 0 to 1"),
        ("log.preallocate", "yes", "'yes' is not valid; use true or false"),
        ("log.cleanup.policy", "shred", "'shred' is not valid; use compact or delete"),
        (
            "compression.gzip.level",
            "0",
            "compression.gzip.level: '0' is not valid; use a whole number from -1 to 9, except 0",
        ),
        ("log.dirs", "/a,/b", "log.dirs must name exactly one directory; got /a,/b"),
        ("log.dirs", "", "log.dirs must name exactly one directory; got none"),
        ("listeners", "OTHER://127.0.0.1:9093", "listeners: OTHER has no security protocol; add OTHER:PROTOCOL to"),
        ("listeners", "PLAINTEXT://127.0.0.1", "is not valid; use NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://127.0.0.1:70000", "is not valid; use NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "listeners: PLAINTEXT is given twice"),
        ("listener.name.ssl.ssl.client.aut", "none", "did you mean listener.name.ssl.ssl.client.auth?"),
        ("group.max.session.timeout.ms", "10", "6000 is greater than group.max.session.timeout.ms 10"),
    ],
)
def test_invalid_property_is_reported_in_one_sentence(name: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({name: value})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("listener", "host", "port"),
    [
        ("PLAINTEXT://0.0.0.0:0", "0.0.0.0", 0),
        ("plaintext://localhost:9092", "localhost", 9092),
        ("PLAINTEXT://[::1]:19092", "::1", 19092),
        ("PLAINTEXT://:9092", "", 9092),
        ("PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2", "127.0.0.1", 1),
    ],
)
def test_listener_gives_host_and_port(listener: str, host: str, port: int) -> None:
    config = BrokerConfig.from_properties({"listeners": listener})
    assert (config.host, config.port) == (host, port)


def test_advertised_listener_may_differ() -> None:
    config = BrokerConfig.from_properties({"advertised.listeners": "PLAINTEXT://broker.example:19092"})
    [endpoint] = config.endpoints
    assert (endpoint.advertised_host, endpoint.advertised_port) == ("broker.example", 19092)
    assert config.port == 9092


def test_settings_without_effect_are_reported_in_one_sentence() -> None:
    config = BrokerConfig.from_properties({"num.io.threads": 4, "num.partitions": 2, "broker.session.timeout.ms": 1})
    sentence = without_effect(config.given, BROKER_OPTIONS, Alone.ignores)
    assert sentence == "num.io.threads, broker.session.timeout.ms have no effect in this broker"
    assert without_effect(config.given, BROKER_OPTIONS) == "num.io.threads has no effect in this broker"
    assert without_effect(["num.partitions"], BROKER_OPTIONS) is None
    assert without_effect(["preallocate"], TOPIC_OPTIONS) == "preallocate has no effect in this broker"


def attributes_read(folder: Path, *, without: str) -> set[str]:
    """Return the names of all attributes that the modules in a folder read."""
    nodes = (node for path in folder.rglob("*.py") if path.name != without for node in ast.walk(parsed(path)))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def test_every_setting_is_read_or_reported_as_without_effect() -> None:
    """A setting that is accepted in silence and read nowhere looks heeded."""
    defaults_of_topics = {name for option in TOPIC_OPTIONS.values() if not option.ignored for name in option.synonyms}
    read = attributes_read(BROKER, without="config.py")
    unread = {name for name in BROKER_OPTIONS if name.replace(".", "_") not in read} - defaults_of_topics
    ignored = {name for name, option in BROKER_OPTIONS.items() if option.ignored}
    of_listeners = set(LISTENER_SETTINGS)  # read in the settings of a listener, by kcli.security
    of_groups = {name for name in BROKER_OPTIONS if name.startswith("group.consumer.")}  # by name, in group_configs
    assert unread - OF_THE_CONFIG - of_listeners - of_groups == ignored - ONLY_SHOWN


def test_every_topic_setting_is_read_by_a_log_or_reported_as_without_effect() -> None:
    read = attributes_read(BROKER, without="log_config.py")
    in_logs = {field.replace("_", ".") for field in LogConfig._fields if field in read}
    assert len(in_logs) == len(LogConfig._fields)
    ignored = {name for name, option in TOPIC_OPTIONS.items() if option.ignored or option.of_nodes}
    assert in_logs | ignored | {"internal.segment.bytes"} == set(TOPIC_OPTIONS)
    assert not in_logs & ignored


def test_log_dirs_precedes_log_dir() -> None:
    assert BrokerConfig.from_properties({"log.dir": "/a"}).data_dir == "/a"
    assert BrokerConfig.from_properties({"log.dir": "/a", "log.dirs": "/b"}).data_dir == "/b"
    with pytest.raises(ConfigError, match=r"log\.dir must name exactly one directory"):
        BrokerConfig.from_properties({"log.dir": "/a,/b"})


def test_authorizer_and_super_users() -> None:
    standard = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    config = BrokerConfig.from_properties({**standard, "super.users": "User:admin; User:CN=a,O=b ;"})
    assert config.super_user_names == {"User:admin", "User:CN=a,O=b"}
    with pytest.raises(ConfigError, match=r"super\.users: 'admin' is not valid; use TYPE:NAME, such as User:admin"):
        BrokerConfig.from_properties({"super.users": "User:a;admin"})
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name: 'x\.Y' is not valid; use org\.apache\.kafka"):
        BrokerConfig.from_properties({"authorizer.class.name": "x.Y"})


def test_properties_of_the_real_kafka_in_tests_are_known() -> None:
    missing = [name for name in SETTINGS if name not in BROKER_OPTIONS]
    assert missing == []


@pytest.fixture(scope="module")
def kafkas_settings(real_kafka: Kafka) -> dict[str, DescribeConfigsResourceResult]:
    with Wire(real_kafka.bootstrap_servers) as wire:
        resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)
        [result] = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("name", sorted(BROKER_OPTIONS))
def test_setting_matches_kafkas_definition(name: str, kafkas_settings: dict[str, Any]) -> None:
    option = BROKER_OPTIONS[name]
    if option.internal and name not in SETTINGS:
        assert name not in kafkas_settings
        return
    kafkas = kafkas_settings[name]
    assert option.type_number == kafkas.config_type
    if option.update.name != "READ_ONLY":
        assert not kafkas.read_only, "can be changed at run time here, but not in Kafka"
    if name not in OTHER_DEFAULTS:
        default = None if option.default is None else format_value(option.default)
        assert default == kafkas_default(kafkas)


def kafkas_default(setting: DescribeConfigsResourceResult) -> str | None:
    for synonym in setting.synonyms:
        if synonym.name == setting.name and synonym.source == DEFAULT:
            return synonym.value
    return None


NODE = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "a:1,[::1]:2"}


def test_the_controllers_of_a_node_are_bootstrap_servers_or_voters() -> None:
    assert BrokerConfig.from_properties(NODE).controllers == (("a", 1), ("::1", 2))
    voters = BrokerConfig.from_properties({"process.roles": "broker", "controller.quorum.voters": "7@c:3"})
    assert voters.is_node
    assert voters.controllers == (("c", 3),)
    assert not BrokerConfig.from_properties({"process.roles": "controller,broker"}).is_node


def test_the_listener_between_brokers_is_named_or_the_first_one_with_the_protocol() -> None:
    listeners = {"listeners": "OUT://:1,IN://:2", "listener.security.protocol.map": "OUT:PLAINTEXT,IN:PLAINTEXT"}
    assert BrokerConfig.from_properties({**NODE, **listeners}).inter_broker_endpoint.name == "OUT"
    named = BrokerConfig.from_properties({**NODE, **listeners, "inter.broker.listener.name": "IN"})
    assert named.inter_broker_endpoint.name == "IN"


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (
            {"controller.quorum.bootstrap.servers": ""},
            "process.roles=broker needs a controller; set controller.quorum.bootstrap.servers to its HOST:PORT",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:b"},
            "controller.quorum.bootstrap.servers: 'a:b' is not valid; use HOST:PORT",
        ),
        ({"inter.broker.listener.name": "X"}, "inter.broker.listener.name: listeners has no X"),
        (
            {"security.inter.broker.protocol": "SSL"},
            "security.inter.broker.protocol SSL: no listener has this protocol",
        ),
    ],
)
def test_a_node_with_settings_that_do_not_fit(properties: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.from_properties({**NODE, **properties})
    assert str(raised.value) == error

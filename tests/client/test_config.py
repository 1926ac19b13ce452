"""Configuration of clients: names, defaults and bounds as in Kafka 4.3."""

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import kcli
from kcli.client.config import (
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    nearest_name,
    parse_bootstrap,
)
from kcli.client.login import JAVA_CLASSES
from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.settings import Settings

NUMBER = "a whole number from 0 to 2147483647"


def refusal(cls: type[Settings], **properties: Any) -> str:
    with pytest.raises(ConfigError) as error:
        cls.from_properties({name.replace("_", "."): value for name, value in properties.items()})
    assert "\n" not in str(error.value)
    return str(error.value)


def test_defaults_are_those_of_kafka_4_3() -> None:
    consumer, producer = ConsumerConfig.from_properties({}), ProducerConfig.from_properties({})
    assert (consumer.request_timeout_ms, consumer.default_api_timeout_ms) == (30_000, 60_000)
    assert (consumer.fetch_min_bytes, consumer.fetch_max_wait_ms) == (1, 500)
    assert (consumer.fetch_max_bytes, consumer.max_partition_fetch_bytes) == (52_428_800, 1_048_576)
    assert (consumer.auto_offset_reset, consumer.isolation_level) == ("latest", "read_uncommitted")
    assert (producer.acks, producer.linger_ms, producer.batch_size) == (-1, 5, 16_384)
    assert (producer.receive_buffer_bytes, consumer.receive_buffer_bytes) == (32_768, 65_536)
    assert (producer.delivery_timeout_ms, producer.max_in_flight_requests_per_connection) == (120_000, 5)


def test_values_are_given_as_text_or_typed() -> None:
    config = ConsumerConfig.from_properties(
        {"fetch.min.bytes": " 7 ", "check.crcs": "FALSE", "max.poll.interval.ms": 9, "group.id": "", "client.id": 12}
    )
    assert config.fetch_min_bytes == 7
    assert config.check_crcs is False
    assert config.max_poll_interval_ms == 9
    assert config.group_id is None
    assert config.client_id == "12"
    assert config.given["fetch.min.bytes"] == " 7 "


def test_choices_ignore_case_and_acks_is_a_number() -> None:
    assert ConsumerConfig.from_properties({"isolation.level": "READ_COMMITTED"}).isolation_level == "read_committed"
    assert ClientConfig.from_properties({"metadata.recovery.strategy": "NONE"}).metadata_recovery_strategy == "none"
    assert [ProducerConfig.from_properties({"acks": a}).acks for a in ("all", "-1", "1", "0", 1)] == [-1, -1, 1, 0, 1]


@pytest.mark.parametrize(
    ("cls", "given", "sentence"),
    [
        (
            ClientConfig,
            {"request_timeout_ms": "soon"},
            f"request.timeout.ms: the value is not valid; use {NUMBER}",
        ),
        (
            ClientConfig,
            {"request_timeout_ms": -1},
            f"request.timeout.ms: '-1' is not valid; use {NUMBER}",
        ),
        (
            ClientConfig,
            {"request_timeout_ms": 2**31},
            f"request.timeout.ms: '2147483648' is not valid; use {NUMBER}",
        ),
        (ConsumerConfig, {"check_crcs": "yes"}, "check.crcs: 'yes' is not valid; use true or false"),
        (
            ConsumerConfig,
            {"isolation_level": "serializable"},
            "isolation.level: 'serializable' is not valid; use read_uncommitted or read_committed",
        ),
        (
            ConsumerConfig,
            {"auto_offset_reset": "soonest"},
            "auto.offset.reset: 'soonest' is not valid; "
            "use latest, earliest, none, or by_duration: with a duration such as PT1H or P7D",
        ),
        (ProducerConfig, {"acks": "2"}, "acks: '2' is not valid; use all, -1, 0 or 1"),
        (
            ConsumerConfig,
            {"request_timeout_ms": 500, "fetch_max_wait_ms": 500},
            "request.timeout.ms=500 must be above fetch.max.wait.ms=500, or an idle fetch times out",
        ),
        (
            ProducerConfig,
            {"delivery_timeout_ms": 30_000, "linger_ms": 10},
            "delivery.timeout.ms=30000 must be at least linger.ms + request.timeout.ms = 30010",
        ),
        (
            ClientConfig,
            {"retry_backoff_ms": 500, "retry_backoff_max_ms": 400},
            "retry.backoff.max.ms=400 must be at least retry.backoff.ms=500",
        ),
        (
            ClientConfig,
            {"reconnect_backoff_ms": 500, "reconnect_backoff_max_ms": 400},
            "reconnect.backoff.max.ms=400 must be at least reconnect.backoff.ms=500",
        ),
        (
            ConsumerConfig,
            {"heartbeat_interval_ms": 10_000, "session_timeout_ms": 10_000},
            "heartbeat.interval.ms=10000 must be below session.timeout.ms=10000",
        ),
        (
            ConsumerConfig,
            {"group_protocol": "consumer", "session_timeout_ms": 30_000},
            "session.timeout.ms cannot be set with group.protocol=consumer: the broker decides it",
        ),
        (
            ConsumerConfig,
            {"group_remote_assignor": "uniform"},
            "group.remote.assignor cannot be set with group.protocol=classic: a member assigns",
        ),
        (ConsumerConfig, {"enable_auto_commit": "true"}, "enable.auto.commit=true requires group.id"),
        (ProducerConfig, {"enable_idempotence": "true", "acks": 1}, "enable.idempotence=true requires acks=all"),
        (
            ProducerConfig,
            {"enable_idempotence": "true", "retries": 0},
            "enable.idempotence=true requires retries above 0",
        ),
        (
            ProducerConfig,
            {"enable_idempotence": "true", "max_in_flight_requests_per_connection": 6},
            "enable.idempotence=true requires max.in.flight.requests.per.connection of at most 5",
        ),
        (
            ProducerConfig,
            {"transactional_id": "t", "acks": "1"},
            "transactional.id requires acks=all",
        ),
        (
            ProducerConfig,
            {"transactional_id": "t", "enable_idempotence": "false"},
            "transactional.id requires enable.idempotence=true",
        ),
        (
            ProducerConfig,
            {"transaction_two_phase_commit_enable": "true"},
            "transaction.two.phase.commit.enable is not supported: kcli does not prepare transactions for an external "
            "coordinator; remove it",
        ),
        (
            ProducerConfig,
            {"partitioner_class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            "partitioner.class is not supported: partitioners are Java classes; kcli chooses partitions as Java's "
            "default partitioner does; remove it",
        ),
        (
            ClientConfig,
            {"security_protocol": "TLS"},
            "security.protocol: 'TLS' is not valid; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
    ],
)
def test_invalid_and_contradicting_values_are_refused_in_one_sentence(
    cls: type[Settings], given: dict[str, Any], sentence: str
) -> None:
    assert refusal(cls, **given) == sentence


def test_defaults_that_depend_on_given_values_are_those_of_kafka() -> None:
    assert ClientConfig.from_properties({"reconnect.backoff.ms": 5_000}).reconnect_backoff_max_ms == 5_000
    assert ProducerConfig.from_properties({"request.timeout.ms": 200_000}).delivery_timeout_ms == 200_005
    assert ProducerConfig.from_properties({"acks": "1"}).enable_idempotence is False
    assert ConsumerConfig.from_properties({}).enable_auto_commit is False
    assert ConsumerConfig.from_properties({"group.id": "g"}).enable_auto_commit is True


def test_names_of_no_kafka_client_are_unknown() -> None:
    config = ConsumerConfig.from_properties(
        {
            "fetch.min.byte": 1,
            "acks": "all",
            "ssl.truststore.location": "/x",
            "sasl.jaas.config": "secret",
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "interceptor.classes": "",
            "tpyo": "x",
        }
    )
    assert config.unknown == ("fetch.min.byte", "tpyo")
    assert nearest_name("fetch.min.byte") == "fetch.min.bytes"
    assert nearest_name("tpyo") is None
    assert "secret" not in repr(config)


SHARED = {
    "interceptor.classes": "com.example.Monitoring",
    "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "max.poll.records": "10",
    "metrics.recording.level": "DEBUG",
    "transactional.id": "orders-1",
    "transaction.timeout.ms": "1000",
    "sasl.jaas.config": "",
}


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (ClientConfig, ["interceptor.classes", "metrics.recording.level"]),
        (ConsumerConfig, ["interceptor.classes", "key.deserializer", "metrics.recording.level"]),
    ],
)
def test_properties_without_effect_are_named_for_the_kind_of_client_that_java_has_them_for(
    cls: type[ClientConfig], names: list[str]
) -> None:
    config = cls.from_properties(SHARED)
    assert list(config.no_effect) == names
    assert config.unknown == ()


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (ConsumerConfig, "value_deserializer"),
        (ConsumerConfig, "interceptor_classes"),
        (ProducerConfig, "value_serializer"),
        (ProducerConfig, "compression_zstd_level"),
        (ClientConfig, "sasl_kerberos_service_name"),
    ],
)
def test_a_keyword_without_effect_is_refused(cls: type[ClientConfig], name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} has no effect in kcli: .*; remove it"):
        cls.from_keywords({name: "x"})


def test_every_setting_is_used_by_the_clients() -> None:
    """A setting that is accepted and has no effect misleads: it belongs to NO_EFFECT."""
    # Their only values are what the client does, or it does what the value says in any case.
    enforced = {"client.dns.lookup", "security.protocol", "ssl.keystore.type", "ssl.truststore.type", *JAVA_CLASSES}
    package = Path(kcli.__file__).parent
    sources = {path: path.read_text() for path in package.rglob("*.py") if path.name != "config.py"}
    login = sources[package / "client" / "login.py"]
    stores = sources[package / "security" / "key_stores" / "__init__.py"]  # reads some by Kafka's name
    for cls in (ClientConfig, ConsumerConfig, ProducerConfig):
        for name in cls.SETTINGS.keys() - enforced - cls.NO_EFFECT.keys():
            attribute = name.replace(".", "_")
            used = re.compile(rf"config\.{attribute}\b")
            derived = name == "isolation.level" and any("config.reads_committed" in text for text in sources.values())
            read_by_name = f'"{name}"' in stores or f"self.{attribute}" in login
            assert derived or read_by_name or any(used.search(text) for text in sources.values()), name


def test_a_configuration_is_immutable_and_can_be_copied_with_changes() -> None:
    config = ConsumerConfig.from_properties({"fetch.min.bytes": 7})
    with pytest.raises(AttributeError, match="immutable"):
        config.fetch_min_bytes = 8
    other = config.with_properties({"fetch.max.wait.ms": 9})
    assert (other.fetch_min_bytes, other.fetch_max_wait_ms, config.fetch_max_wait_ms) == (7, 9, 500)
    assert pickle.loads(pickle.dumps(other)) == other != config


def test_every_property_has_a_default_within_its_bounds_and_a_line_of_help() -> None:
    for cls in (ClientConfig, ConsumerConfig, ProducerConfig):
        for name, declared in cls.SETTINGS.items():
            assert declared.doc.endswith("."), name
            if declared.kind in ("Int", "Long", "Boolean") and declared.default is not None and name != "acks":
                assert declared.parse(str(declared.default)) == declared.default


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:9092") == [("a", 9092)]
    assert parse_bootstrap(" a:1 ,b:2,") == [("a", 1), ("b", 2)]
    assert parse_bootstrap("[::1]:9092,[fe80::1%eth0]:9093") == [("::1", 9092), ("fe80::1%eth0", 9093)]
    assert parse_bootstrap("PLAINTEXT://a:9092") == [("a", 9092)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bootstrap.servers is empty; name at least one broker as host:port"),
        (" , ", "bootstrap.servers is empty; name at least one broker as host:port"),
        ("localhost", "bootstrap.servers: 'localhost' is not valid; use host:port"),
        ("a:1,:9092", "bootstrap.servers: ':9092' is not valid; use host:port"),
        ("a:" + "9" * 5000, f"bootstrap.servers: 'a:{'9' * 5000}' is not valid; use a port from 1 to 65535"),
        (
            "SASL_SSL://alice:hunter2@a:9092",
            "bootstrap.servers: an address with '@' is not valid; use host:port, and sasl.username",
        ),
        ("a:http", "bootstrap.servers: 'a:http' is not valid; use host:port"),
        ("a:-1", "bootstrap.servers: 'a:-1' is not valid; use host:port"),
        ("a:0", "bootstrap.servers: 'a:0' is not valid; use a port from 1 to 65535"),
        ("a:65536", "bootstrap.servers: 'a:65536' is not valid; use a port from 1 to 65535"),
        (
            "::1:9092",
            "bootstrap.servers: '::1:9092' is not valid; use brackets around an IPv6 address, as in [::1]:9092",
        ),
        (
            "a:1;b:2",
            "bootstrap.servers: 'a:1;b:2' is not valid: separate brokers by commas, as in a:9092,b:9092",
        ),
        (
            "a:1 b:2",
            "bootstrap.servers: 'a:1 b:2' is not valid: separate brokers by commas, as in a:9092,b:9092",
        ),
        (
            '"a:1"',
            "bootstrap.servers: '\"a:1\"' is not valid: quotes are part of a property's value; write it without them",
        ),
        (
            "a:1 # prod",
            "bootstrap.servers: 'a:1 # prod' is not valid: a comment needs a line of its own, because it is part of a "
            "property's value",
        ),
    ],
)
def test_a_malformed_bootstrap_address_is_refused(text: str, sentence: str) -> None:
    assert refusal(ClientConfig, bootstrap_servers=text) == sentence


def test_keywords_of_a_secured_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PW", "hunter2")
    by_provider = ConsumerConfig.from_keywords(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_jaas_config": 'a.Plain required username="alice" password="${env:PW}";',
            "config_providers": "env",
            "config_providers_env_class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "enable_ssl_certificate_verification": True,
        }
    )
    assert by_provider.sasl_jaas_config == Secret('a.Plain required username="alice" password="hunter2";')
    assert "hunter2" not in repr(vars(by_provider))
    by_name = ProducerConfig.from_keywords(
        {"security_protocol": "sasl_ssl", "sasl_mechanisms": "PLAIN", "sasl_username": "a", "sasl_password": "${b}"}
    )
    assert by_name.sasl_password == Secret("${b}")
    login = tmp_path / "jaas.conf"
    login.write_text('KafkaClient { a.Plain required username="alice" password="x"; };')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={login}")
    by_file = ClientConfig.from_keywords({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"})
    assert by_file.sasl_jaas_config == Secret('a.Plain required username="alice" password="x";')


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sasl_pasword", "there is no setting sasl_pasword; did you mean sasl_password?"),
        ("ssl_provider", "ssl_provider has no effect in kcli: providers are Java classes; remove it"),
    ],
)
def test_a_wrong_keyword_is_refused_without_its_value(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        ClientConfig.from_keywords({"security_protocol": "SSL", name: "hunter2"})

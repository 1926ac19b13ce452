"""Kafka's property names, defaults and bounds; contradictions refused in one sentence."""

import pickle
from typing import Any

import pytest

from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig, nearest_name, parse_bootstrap
from kcli.client.settings import Settings
from kcli.errors import ConfigError


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


def test_values_arrive_as_text_or_typed() -> None:
    config = ConsumerConfig.from_properties(
        {"fetch.min.bytes": " 7 ", "check.crcs": "FALSE", "max.poll.records": 9, "group.id": "", "client.id": 12}
    )
    assert config.fetch_min_bytes == 7
    assert config.check_crcs is False
    assert config.max_poll_records == 9
    assert config.group_id is None
    assert config.client_id == "12"
    assert config.given["fetch.min.bytes"] == " 7 "


def test_enumerations_are_read_whatever_their_case_and_acks_become_a_number() -> None:
    assert ConsumerConfig.from_properties({"isolation.level": "READ_COMMITTED"}).isolation_level == "read_committed"
    assert ClientConfig.from_properties({"metadata.recovery.strategy": "NONE"}).metadata_recovery_strategy == "none"
    assert [ProducerConfig.from_properties({"acks": a}).acks for a in ("all", "-1", "1", "0", 1)] == [-1, -1, 1, 0, 1]


@pytest.mark.parametrize(
    ("cls", "given", "sentence"),
    [
        (ClientConfig, {"request_timeout_ms": "soon"}, "request.timeout.ms=soon is not a whole number"),
        (ClientConfig, {"request_timeout_ms": -1}, "request.timeout.ms=-1 is below 0"),
        (ClientConfig, {"request_timeout_ms": 2**31}, "request.timeout.ms=2147483648 is above 2147483647"),
        (ConsumerConfig, {"check_crcs": "yes"}, "check.crcs=yes is neither true nor false"),
        (
            ConsumerConfig,
            {"isolation_level": "serializable"},
            "isolation.level=serializable is not one of read_uncommitted, read_committed",
        ),
        (
            ConsumerConfig,
            {"auto_offset_reset": "soonest"},
            "auto.offset.reset=soonest is not one of latest, earliest, none",
        ),
        (ProducerConfig, {"acks": "2"}, "acks=2 is not one of all, -1, 0, 1"),
        (
            ConsumerConfig,
            {"request_timeout_ms": 500, "fetch_max_wait_ms": 500},
            "request.timeout.ms=500 must be above fetch.max.wait.ms=500, or an idle fetch looks like a dead broker",
        ),
        (
            ProducerConfig,
            {"delivery_timeout_ms": 30_000, "linger_ms": 10},
            "delivery.timeout.ms=30000 is below linger.ms + request.timeout.ms = 30010",
        ),
        (
            ClientConfig,
            {"retry_backoff_ms": 500, "retry_backoff_max_ms": 400},
            "retry.backoff.max.ms=400 is below retry.backoff.ms=500",
        ),
        (
            ClientConfig,
            {"reconnect_backoff_ms": 500, "reconnect_backoff_max_ms": 400},
            "reconnect.backoff.max.ms=400 is below reconnect.backoff.ms=500",
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
            "group.remote.assignor cannot be set with group.protocol=classic: the members assign",
        ),
        (ConsumerConfig, {"enable_auto_commit": "true"}, "enable.auto.commit=true needs a group.id to commit for"),
        (ProducerConfig, {"enable_idempotence": "true", "acks": 1}, "enable.idempotence=true needs acks=all"),
        (ProducerConfig, {"enable_idempotence": "true", "retries": 0}, "enable.idempotence=true needs retries above 0"),
        (
            ProducerConfig,
            {"enable_idempotence": "true", "max_in_flight_requests_per_connection": 6},
            "enable.idempotence=true needs max.in.flight.requests.per.connection of at most 5",
        ),
        (ProducerConfig, {"transactional_id": "t", "acks": 1}, "transactional.id needs enable.idempotence=true"),
        (ClientConfig, {"security_protocol": "ssl"}, "security.protocol=ssl is not supported yet, only PLAINTEXT is"),
        (
            ClientConfig,
            {"security_protocol": "TLS"},
            "security.protocol=TLS is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    cls: type[Settings], given: dict[str, Any], sentence: str
) -> None:
    assert refusal(cls, **given) == sentence


def test_defaults_follow_what_was_given_as_in_kafka() -> None:
    assert ClientConfig.from_properties({"reconnect.backoff.ms": 5_000}).reconnect_backoff_max_ms == 5_000
    assert ProducerConfig.from_properties({"request.timeout.ms": 200_000}).delivery_timeout_ms == 200_005
    assert ProducerConfig.from_properties({"acks": "1"}).enable_idempotence is False
    assert ConsumerConfig.from_properties({}).enable_auto_commit is False
    assert ConsumerConfig.from_properties({"group.id": "g"}).enable_auto_commit is True


def test_only_names_that_no_kafka_client_knows_are_unknown() -> None:
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


def test_a_configuration_is_immutable_and_can_be_changed_into_another() -> None:
    config = ConsumerConfig.from_properties({"fetch.min.bytes": 7})
    with pytest.raises(AttributeError, match="immutable"):
        config.fetch_min_bytes = 8
    other = config.changed({"fetch.max.wait.ms": 9})
    assert (other.fetch_min_bytes, other.fetch_max_wait_ms, config.fetch_max_wait_ms) == (7, 9, 500)
    assert pickle.loads(pickle.dumps(other)) == other != config


def test_every_property_has_a_default_within_its_own_bounds_and_a_line_of_text() -> None:
    for cls in (ClientConfig, ConsumerConfig, ProducerConfig):
        for name, declared in cls.PROPERTIES.items():
            assert declared.doc.endswith("."), name
            if declared.kind in ("int", "bool") and name != "acks":
                assert declared.parse(str(declared.default)) == declared.default


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:9092") == [("a", 9092)]
    assert parse_bootstrap(" a:1 ,b:2,") == [("a", 1), ("b", 2)]
    assert parse_bootstrap("[::1]:9092,[fe80::1%eth0]:9093") == [("::1", 9092), ("fe80::1%eth0", 9093)]
    assert parse_bootstrap("PLAINTEXT://a:9092") == [("a", 9092)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bootstrap.servers is empty: name at least one broker as host:port"),
        (" , ", "bootstrap.servers is empty: name at least one broker as host:port"),
        ("localhost", "bootstrap.servers: 'localhost' is not host:port"),
        ("a:1,:9092", "bootstrap.servers: ':9092' is not host:port"),
        ("a:" + "9" * 5000, f"bootstrap.servers: the port in 'a:{'9' * 5000}' is not between 1 and 65535"),
        ("a:http", "bootstrap.servers: 'a:http' is not host:port"),
        ("a:-1", "bootstrap.servers: 'a:-1' is not host:port"),
        ("a:0", "bootstrap.servers: the port in 'a:0' is not between 1 and 65535"),
        ("a:65536", "bootstrap.servers: the port in 'a:65536' is not between 1 and 65535"),
        ("::1:9092", "bootstrap.servers: the IPv6 address in '::1:9092' needs brackets, as in [::1]:9092"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(text: str, sentence: str) -> None:
    assert refusal(ClientConfig, bootstrap_servers=text) == sentence

"""Property names of librdkafka: one property, one value, whichever client's name is used."""

from __future__ import annotations

import pytest

from kcli.client import librdkafka
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.errors import ConfigError
from kcli.secret import Secret


def test_a_kcat_configuration_becomes_kafkas_properties() -> None:
    config = ClientConfig.from_properties(
        {
            "metadata.broker.list": "a,b:9093,[::1]",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": 'a"b\\c',
            "ssl.ca.location": "/etc/ca.pem",
            "ssl.certificate.location": "client.pem",
            "ssl.key.location": "client.key",
            "ssl.endpoint.identification.algorithm": "none",
            "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256",
            "enable.ssl.certificate.verification": "false",
            "socket.timeout.ms": "9000",
        }
    )
    assert config.unknown == ()
    assert config.bootstrap_servers == "a:9092,b:9093,[::1]:9092"
    assert (config.security_protocol, config.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert config.sasl_jaas_config == Secret(
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a\\"b\\\\c";'
    )
    assert config.ssl_truststore_location == "/etc/ca.pem"
    assert (config.ssl_certificate_location, config.ssl_key_location) == ("client.pem", "client.key")
    assert config.ssl_endpoint_identification_algorithm == ""
    assert config.ssl_cipher_suites == ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256")
    assert config.enable_ssl_certificate_verification is False
    assert config.request_timeout_ms == 9000


def test_consumer_and_producer_names() -> None:
    consumer = ConsumerConfig.from_properties({"auto.offset.reset": "beginning", "fetch.wait.max.ms": "7"})
    assert (consumer.auto_offset_reset, consumer.fetch_max_wait_ms) == ("earliest", 7)
    producer = ProducerConfig.from_properties({"compression.codec": "lz4", "request.required.acks": "-1"})
    assert (producer.compression_type, producer.acks) == ("lz4", -1)


def test_the_prefix_of_settings_of_topics() -> None:
    config = ConsumerConfig.from_properties({"topic.auto.offset.reset": "smallest", "topic.unknown": "1"})
    assert (config.auto_offset_reset, config.unknown) == ("earliest", ("unknown",))
    assert ConsumerConfig.from_properties({"topic.metadata.refresh.interval.ms": "7"}).metadata_max_age_ms == 7


@pytest.mark.parametrize("value", ["probe", ""])
def test_the_systems_certificates_are_the_default(value: str) -> None:
    config = ClientConfig.from_properties({"security.protocol": "ssl", "ssl.ca.location": value})
    assert config.ssl_truststore_location is None


def test_two_names_of_one_property_must_agree() -> None:
    same = ClientConfig.from_properties({"bootstrap.servers": "a:9092", "metadata.broker.list": "a"})
    assert same.bootstrap_servers == "a:9092"
    with pytest.raises(
        ConfigError, match=r"^sasl\.mechanism and sasl\.mechanisms are names of one property; remove one"
    ):
        ClientConfig.from_properties({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"})


def test_a_copy_may_use_either_name() -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": "a:1"}).with_properties({"metadata.broker.list": "b"})
    assert config.bootstrap_servers == "b:9092"


def test_tuning_of_librdkafka_has_no_effect() -> None:
    config = ClientConfig.from_properties({"api.version.request": "true", "socket.keepalive.enable": "true"})
    assert set(config.no_effect) == {"api.version.request", "socket.keepalive.enable"}
    assert config.unknown == ()


@pytest.mark.parametrize("name", sorted(librdkafka.REFUSED))
def test_what_cannot_be_honoured_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is not supported: .*; remove it$"):
        ClientConfig.from_properties({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", name: "x"})
    assert name in ClientConfig.from_properties({name: "x"}).no_effect


def test_every_name_of_kafka_in_the_table_is_a_setting() -> None:
    settings = {**ConsumerConfig.SETTINGS, **ProducerConfig.SETTINGS}
    assert set(librdkafka.KAFKA_NAMES.values()) | librdkafka.OWN_NAMES <= settings.keys()
    assert not settings.keys() & (librdkafka.TUNING | librdkafka.REFUSED.keys() | librdkafka.KAFKA_NAMES.keys())

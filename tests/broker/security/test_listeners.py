"""Listeners: parsing of addresses and protocols, and the properties of each listener."""

from __future__ import annotations

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.security.listeners import Endpoint
from kcli.errors import ConfigError

TWO = {
    "listeners": "INTERNAL://127.0.0.1:9092,EXTERNAL://:9093,CONTROLLER://:9094",
    "advertised.listeners": "EXTERNAL://kafka.example:19093",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,external:sasl_plaintext,CONTROLLER:PLAINTEXT",
}


def test_listeners_have_protocols_and_addresses() -> None:
    config = BrokerConfig.from_properties(TWO)
    assert config.endpoints == (
        Endpoint("INTERNAL", "PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("EXTERNAL", "SASL_PLAINTEXT", "", 9093, "kafka.example", 19093),
    )
    assert [(one.has_tls, one.has_sasl) for one in config.endpoints] == [(False, False), (False, True)]


def test_properties_of_a_listener_and_of_a_mechanism_replace_those_of_the_broker() -> None:
    config = BrokerConfig.from_properties(
        {
            **TWO,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.external.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.external.scram-sha-256.connections.max.reauth.ms": "3000",
        }
    )
    external = config.listener_settings("EXTERNAL")
    assert external.sasl_enabled_mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert config.listener_settings("INTERNAL").sasl_enabled_mechanisms == ("PLAIN",)
    assert external.of_mechanism("SCRAM-SHA-256").connections_max_reauth_ms == 3000
    assert external.of_mechanism("PLAIN").connections_max_reauth_ms == 0


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"listener.security.protocol.map": "A:TLS"}, "listener.security.protocol.map: 'A:TLS' is not valid"),
        ({"listener.security.protocol.map": "A:SSL"}, "listeners: PLAINTEXT has no security protocol"),
        ({"advertised.listeners": "SSL://a:1"}, "advertised.listeners: SSL is not in listeners"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "listeners: two listeners have port 1"),
        ({"listeners": "CONTROLLER://a:1"}, "listeners must name at least one listener"),
        (
            {"listeners": "SSL://a:1", "listener.name.ssl.ssl.client.auth": "some"},
            "listener.name.ssl.ssl.client.auth: 'some' is not valid; use required, requested or none",
        ),
        ({"listeners": "SSL://a:1", "ssl.client.auth": "some"}, "ssl.client.auth: 'some' is not valid"),
    ],
)
def test_invalid_listeners_are_refused(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(properties)
    assert str(caught.value).startswith(sentence)

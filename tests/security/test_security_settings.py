"""The security properties: Kafka's names and defaults, and secrets that are not printed."""

from __future__ import annotations

import pickle

from kcli.client.config import ClientConfig
from kcli.secret import Secret


def test_a_password_is_not_in_any_text_of_a_configuration() -> None:
    config = ClientConfig.from_properties({"ssl.truststore.password": "hunter2", "sasl.jaas.config": "x hunter2;"})
    assert config.ssl_truststore_password == Secret("hunter2")
    assert "hunter2" not in f"{config} {config!r} {config.ssl_truststore_password} {config.sasl_jaas_config!r:>20}"


def test_a_secret_is_kept_by_a_copy_and_by_pickle() -> None:
    secret = Secret("hunter2")
    assert pickle.loads(pickle.dumps(secret)).reveal() == "hunter2"
    config = ClientConfig.from_properties({"ssl.key.password": secret}).with_properties({"client.id": "a"})
    assert config.ssl_key_password == secret


def test_security_protocol_in_any_case() -> None:
    assert ClientConfig.from_properties({"security.protocol": "sasl_ssl"}).security_protocol == "SASL_SSL"

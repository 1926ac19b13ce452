"""The choice of a client's mechanism from the configuration."""

import pytest

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.sasl import client_mechanism
from kcli.security.security_settings import SecuritySettings

JAAS = 'M required username="u" password="swordfish";'


def settings(mechanism: str, jaas: str | None = JAAS) -> SecuritySettings:
    return SecuritySettings.from_properties({"sasl.mechanism": mechanism, "sasl.jaas.config": jaas})


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_configured_mechanism(name: str):
    mechanism = client_mechanism(settings(name))
    assert mechanism.name == name
    assert isinstance(next(mechanism.start("kafka")), bytes)
    assert "swordfish" not in repr(mechanism)


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_missing_jaas_text(name: str):
    with pytest.raises(ConfigError, match=f"^sasl.jaas.config is not set; {name} takes its credentials from it$"):
        client_mechanism(settings(name, None))


def test_oauthbearer_takes_token_and_extensions():
    jaas = 'M required clientId="c" extension_pool="a" unsecuredLoginExtension_k="b";'
    mechanism = client_mechanism(settings("OAUTHBEARER", jaas), lambda: Secret("t.t.t"))
    assert next(mechanism.start("kafka")) == b"n,,\x01auth=Bearer t.t.t\x01pool=a\x01k=b\x01\x01"


def test_oauthbearer_needs_no_jaas_text():
    mechanism = client_mechanism(settings("OAUTHBEARER", None), lambda: Secret("t.t.t"))
    assert next(mechanism.start("kafka")) == b"n,,\x01auth=Bearer t.t.t\x01\x01"

"""The choice of a client's mechanism from the configuration."""

import pytest

from kcli.errors import ConfigError
from kcli.security.sasl import client_mechanism
from kcli.security.settings import SecuritySettings

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

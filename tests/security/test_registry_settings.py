"""The properties of a schema registry: Confluent's names, where they come from, and what is not shown."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.client.config import ConsumerConfig, is_secret_property, may_be_shown
from kcli.errors import ConfigError
from kcli.security.registry_settings import RegistrySettings

URL = {"schema.registry.url": "http://a:8081/, https://b/path"}


def settings(**properties: str) -> RegistrySettings:
    given: dict[str, Any] = {name.replace("__", "."): value for name, value in properties.items()}
    return RegistrySettings.from_properties({**URL, **given})


def user(given: RegistrySettings) -> str | None:
    return given.user_info and given.user_info.reveal()


def test_urls():
    assert settings().urls == ("http://a:8081", "https://b/path")
    assert RegistrySettings.from_properties({"bootstrap.servers": "k:1"}).urls == ()


@pytest.mark.parametrize(
    "url", ["", "ftp://a", "a:8081", "http://", "http://a b", "http://a/?x=1", "http://u:swordfish@a"]
)
def test_url_that_is_not_valid(url: str):
    with pytest.raises(ConfigError, match=r"^schema\.registry\.url") as failed:
        RegistrySettings.from_properties({"schema.registry.url": url})
    assert "swordfish" not in str(failed.value)


def test_user_of_each_source():
    info = {"basic__auth__user__info": "u:p"}
    assert user(settings(**info)) == "u:p"
    assert user(settings(schema__registry__basic__auth__user__info="u:p")) == "u:p"
    assert user(settings(**info, basic__auth__credentials__source="URL")) is None
    inherit = {"basic__auth__credentials__source": "SASL_INHERIT"}
    assert user(settings(**inherit, sasl__username="s", sasl__password="q")) == "s:q"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="j" password="r";'
    assert user(settings(**inherit, sasl__jaas__config=jaas)) == "j:r"
    with pytest.raises(ConfigError, match="SASL_INHERIT needs"):
        settings(**inherit)
    with pytest.raises(ConfigError, match="use USER:PASSWORD") as failed:
        settings(basic__auth__user__info="swordfish")
    assert "swordfish" not in str(failed.value)


def test_tls_of_the_registry_or_else_of_the_client():
    of_client = {"ssl__truststore__location": "/client", "ssl__keystore__location": "/own"}
    assert settings(**of_client).tls.ssl_truststore_location == "/client"
    own = settings(**of_client, schema__registry__ssl__truststore__location="/registry").tls
    assert (own.ssl_truststore_location, own.ssl_keystore_location) == ("/registry", None)


def test_clients_know_the_properties_and_hide_the_secrets():
    properties = {
        **URL,
        "basic.auth.user.info": "u:swordfish",
        "schema.registry.basic.auth.user.info": "u:swordfish",
        "bearer.auth.token": "swordfish",
        "schema.registry.ssl.key.password": "swordfish",
        "basic.auth.credentials.source": "USER_INFO",
        "auto.register.schemas": "false",
    }
    config = ConsumerConfig.from_properties(properties)
    assert config.unknown == ()
    secrets = {name for name, value in properties.items() if "swordfish" in value}
    assert {name for name in properties if is_secret_property(name)} == secrets
    assert {name for name, value in properties.items() if not may_be_shown(name, value)} == secrets
    assert "swordfish" not in repr(RegistrySettings.from_properties(properties))
    assert not may_be_shown("schema.registry.url", "http://u:swordfish@a")

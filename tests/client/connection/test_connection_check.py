"""Warnings of `kcli profile check` about settings that expose credentials; its steps: tests/cli/profile."""

from __future__ import annotations

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connection.connection_check import security_warnings

SERVERS = {"bootstrap.servers": "a:9092"}
USER = {"sasl.username": "alice", "sasl.password": "hunter2"}
OAUTH = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://login/token"}
REGISTRY = {"schema.registry.url": "https://registry", "basic.auth.user.info": "alice:hunter2"}
HOST_CHECK = "ssl.endpoint.identification.algorithm"


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        ({}, []),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **USER},
            ["security.protocol=SASL_PLAINTEXT"],
        ),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", **USER}, []),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **USER}, []),
        ({"security.protocol": "sasl_plaintext", **OAUTH}, ["security.protocol=SASL_PLAINTEXT"]),
        (
            {"security.protocol": "SASL_SSL", **OAUTH, "sasl.oauthbearer.token.endpoint.url": "http://login/token"},
            ["sasl.oauthbearer.token.endpoint.url begins with http"],
        ),
        ({"security.protocol": "SSL", HOST_CHECK: ""}, [f"{HOST_CHECK} is empty"]),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, ["enable.ssl.certificate"]),
        ({"security.protocol": "PLAINTEXT", HOST_CHECK: ""}, []),
        ({**REGISTRY}, []),
        ({**REGISTRY, HOST_CHECK: ""}, []),  # the brokers' setting is not the registry's
        ({**REGISTRY, f"schema.registry.{HOST_CHECK}": ""}, [f"schema.registry.{HOST_CHECK} is empty"]),
        ({**REGISTRY, "schema.registry.url": "http://registry"}, ["schema.registry.url begins with http"]),
        ({"schema.registry.url": "http://registry"}, []),
    ],
)
def test_settings_that_expose_credentials_are_warned_of(given: dict[str, str], begins: list[str]) -> None:
    warnings = security_warnings(ClientConfig.from_properties({**SERVERS, **given}))
    assert len(warnings) == len(begins), warnings
    assert all(text.startswith(begin) for text, begin in zip(warnings, begins, strict=True)), warnings
    assert "hunter2" not in "".join(warnings)

"""`kcli profile check` on each listener of a real Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.certificates import EXPIRED_ON
from tests.cli.fake import run_kcli
from tests.secured_kafka import SecuredKafka

LISTENERS = {
    "PLAINTEXT": ["dns", "tcp", "api-versions"],
    "SSL": ["dns", "tcp", "tls", "api-versions"],
    "MTLS": ["own-certificate", "dns", "tcp", "tls", "api-versions"],
    "SASL": ["dns", "tcp", "api-versions", "sasl"],
    "SASLS": ["dns", "tcp", "tls", "api-versions", "sasl"],
    "REAUTH": ["dns", "tcp", "api-versions", "sasl"],
    "OAUTHJ": ["dns", "tcp", "api-versions", "sasl"],
    "KRB": ["dns", "tcp", "api-versions", "sasl"],
}
ACCESS = ["cluster", "brokers", "topics", "groups"]


def check(kafka: SecuredKafka, listener: str, status: int, **changed: str) -> dict[str, Any]:
    """Return the items by step; names in `changed` have underscores for dots, and an empty value removes one."""
    properties = kafka.properties(listener) | {name.replace("_", "."): value for name, value in changed.items()}
    given = {name: value for name, value in properties.items() if value}
    given.setdefault("bootstrap.servers", kafka.servers(listener))
    result = run_kcli("profile", "check", "-O", "json", *kafka.command_config(given))
    assert result.status == status, result.text + result.err
    return {item["step"]: item for item in json.loads(result.text)["items"]}


@pytest.mark.parametrize("listener", LISTENERS)
def test_every_step_of_a_listener_is_ok(
    secured_kafka: SecuredKafka, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(secured_kafka.kerberos.configuration))
    items = check(secured_kafka, listener, 0)
    assert list(items) == ["configuration", *LISTENERS[listener], *ACCESS]
    assert {item["status"] for item in items.values()} == {"ok"}
    if listener == "SASLS":
        assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} <= set(items["sasl"]["offered"])
        assert items["tls"]["certificate"]["names"][0] == "localhost"
        assert "ALTER" in items["cluster"]["operations"]
    if listener == "REAUTH":
        assert items["sasl"]["session_lifetime_ms"] == 3000


def test_a_certificate_that_has_expired_is_shown_with_its_date(secured_kafka: SecuredKafka) -> None:
    items = check(secured_kafka, "EXPIRED", 4)
    assert f"expired on {EXPIRED_ON}" in items["tls"]["error"]["message"]
    assert items["tls"]["certificate"]["days_left"] < 0


def test_a_missing_client_certificate_is_reported_after_the_handshake(secured_kafka: SecuredKafka) -> None:
    items = check(secured_kafka, "MTLS", 4, ssl_keystore_location="", ssl_keystore_type="")
    assert items["tls"]["status"] == "ok"
    assert "requires a client certificate" in items["api-versions"]["error"]["message"]


def test_a_foreign_client_certificate_is_reported_after_the_handshake(secured_kafka: SecuredKafka) -> None:
    items = check(secured_kafka, "MTLS", 4, ssl_keystore_location=str(secured_kafka.certificates.pem("foreign")))
    assert "does not accept the client certificate" in items["api-versions"]["error"]["message"]


@pytest.mark.parametrize(
    ("listener", "protocol", "step", "hint"),
    [
        ("SASLS", "SASL_PLAINTEXT", "api-versions", "the listener expects TLS; set security.protocol=SASL_SSL"),
        ("SSL", "PLAINTEXT", "api-versions", "the listener expects TLS; set security.protocol=SSL or SASL_SSL"),
        ("SASL", "PLAINTEXT", "cluster", "set security.protocol=SASL_PLAINTEXT"),
    ],
)
def test_a_wrong_protocol_is_named_with_the_right_one(
    secured_kafka: SecuredKafka, listener: str, protocol: str, step: str, hint: str
) -> None:
    items = check(secured_kafka, listener, 4, security_protocol=protocol)
    assert hint in items[step]["error"]["message"]


def test_sasl_on_a_listener_without_it_stops_at_sasl(secured_kafka: SecuredKafka) -> None:
    items = check(secured_kafka, "SASL", 4, bootstrap_servers=secured_kafka.servers("PLAINTEXT"))
    assert "the listener does not use SASL" in items["sasl"]["error"]["message"]

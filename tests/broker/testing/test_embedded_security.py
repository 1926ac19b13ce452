"""Secured embedded brokers: certificates and users of their own, and ready client properties for librdkafka."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kcli.broker.cluster.config_entries import broker_entries
from kcli.broker.security.acl_rules import allow, deny
from kcli.broker.security.own_certificates import client_certificate
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.errors import ConfigError

USERS = {"alice": 'pass"w\\ord, =1', "bob": "secret of bob"}


@contextmanager
def secured(security: str, **options: Any) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(security=security, users=USERS, **options) as broker:
        yield broker


class Client:
    """librdkafka with the properties of a broker; `errors` are those of its connections."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.errors: list[str] = []
        self._admin = AdminClient(
            {**properties, "error_cb": lambda error: self.errors.append(str(error)), "log_level": 0}
        )

    def topics(self) -> list[str]:
        return sorted(self._admin.list_topics(timeout=10).topics)

    def refusal(self, *, part: str) -> str:
        """Return the first error with this text."""
        for _ in range(200):
            self._admin.poll(0.1)
            found = [error for error in self.errors if part in error]
            if found:
                return found[0]
        raise AssertionError(f"no error with {part!r}: {self.errors}")


def principals(broker: EmbeddedBroker) -> set[tuple[str, str]]:
    """Collect principal and listener of the Metadata requests from now on, in the returned set."""
    seen: set[tuple[str, str]] = set()
    broker.intercept("Metadata", lambda request, context: seen.add((context.principal, context.listener)))
    return seen


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_mechanism_authenticates_every_user(security: str, mechanism: str) -> None:
    with secured(security) as broker:
        broker.create_topic("orders")
        seen = principals(broker)
        for user in USERS:
            assert Client(broker.client_properties("librdkafka", user, mechanism)).topics() == ["orders"]
            assert (f"User:{user}", security) in seen
        assert len(seen) == len(USERS)


def test_certificates_of_users_are_their_principals() -> None:
    with secured("SSL") as broker:
        seen = principals(broker)
        assert Client(broker.client_properties("librdkafka", "bob")).topics() == []
        assert seen == {("User:bob", "SSL")}
        anonymous = broker.client_properties("librdkafka")
        del anonymous["ssl.key.pem"], anonymous["ssl.certificate.pem"]
        assert "certificate required" in Client(anonymous).refusal(part="certificate")


@pytest.mark.parametrize("security", ["SSL", "SASL_SSL"])
def test_certificates_and_users_survive_a_restart(security: str) -> None:
    with secured(security) as broker:
        properties = broker.client_properties("librdkafka")
        broker.restart()
        assert Client(properties).topics() == []
        assert broker.client_properties("librdkafka") == properties


@pytest.mark.parametrize(
    ("mechanism", "sentence"),
    [
        ("PLAIN", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-256", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ],
)
def test_wrong_password_is_refused_in_kafkas_words(mechanism: str, sentence: str) -> None:
    with secured("SASL_PLAINTEXT", connection_failed_authentication_delay_ms=0) as broker:
        properties = {**broker.client_properties("librdkafka", mechanism=mechanism), "sasl.password": "wrong"}
        assert sentence in Client(properties).refusal(part="Authentication failed")


def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    only = {"sasl_enabled_mechanisms": "PLAIN", "connection_failed_authentication_delay_ms": 0}
    with secured("SASL_PLAINTEXT", **only) as broker:
        refusal = Client(broker.client_properties("librdkafka", mechanism="SCRAM-SHA-256")).refusal(part="mechanisms")
        assert "Unsupported SASL mechanism: broker's supported mechanisms: PLAIN" in refusal


def test_acls_of_an_embedded_broker_are_in_effect() -> None:
    acls = [allow("alice", "READ", topic="orders-*"), allow("bob", "ALL", cluster=True)]
    with EmbeddedBroker(security="SASL_PLAINTEXT", users=USERS, acls=acls) as broker:
        assert broker.call(lambda inner: set(inner.authorizer.bindings) == set(acls))
        broker.restart()
        assert broker.call(lambda inner: len(inner.authorizer.bindings)) == 2


@pytest.mark.parametrize("host", ["0:0:0:0:0:0:0:1", "::1"])
def test_denial_for_an_ipv6_host_applies_in_both_notations(host: str) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    acls = [allow("*", "ALL", topic="*"), deny("*", "ALL", topic="orders", host=host)]
    names = "FOUR:PLAINTEXT,SIX:PLAINTEXT"
    listeners = "FOUR://127.0.0.1:0,SIX://[::1]:0"
    with EmbeddedBroker(listeners=listeners, listener_security_protocol_map=names, acls=acls) as broker:
        for topic in ("orders", "others"):
            broker.create_topic(topic)
        for listener, visible in (("FOUR", ["orders", "others"]), ("SIX", ["others"])):
            assert Client({"bootstrap.servers": broker.addresses[listener]}).topics() == visible


def test_the_address_of_an_ipv6_listener_has_brackets_and_is_kept_across_restarts() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with EmbeddedBroker(listeners="PLAINTEXT://[::1]:0") as broker:
        addresses = broker.addresses
        assert addresses["PLAINTEXT"] == broker.address
        assert broker.address.startswith("[::1]:")
        broker.create_topic("orders")
        broker.restart()
        assert broker.addresses == addresses
        assert Client({"bootstrap.servers": broker.address}).topics() == ["orders"]


def test_several_listeners_keep_their_addresses_across_restarts() -> None:
    names = "INTERNAL:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="pw";'
    settings = {"listener.name.external.plain.sasl.jaas.config": jaas, "sasl.enabled.mechanisms": "PLAIN"}
    listeners = "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0"
    with EmbeddedBroker(listeners=listeners, listener_security_protocol_map=names, **settings) as broker:
        addresses = broker.addresses
        assert list(addresses) == ["INTERNAL", "EXTERNAL"]
        assert broker.address == addresses["INTERNAL"]
        broker.restart()
        assert broker.addresses == addresses
        own = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "alice"}
        properties = {**own, "bootstrap.servers": addresses["EXTERNAL"], "sasl.password": "pw"}
        seen = principals(broker)
        assert Client(properties).topics() == []
        assert Client({"bootstrap.servers": addresses["INTERNAL"]}).topics() == []
        assert seen == {("User:alice", "EXTERNAL"), ("User:ANONYMOUS", "INTERNAL")}


def test_sasl_over_tls_asks_for_a_certificate_only_if_the_listener_says_so() -> None:
    """Source: KIP-684."""
    with secured("SASL_SSL", ssl_client_auth="required") as broker:
        assert Client(broker.client_properties("librdkafka")).topics() == []
    own = {"listener.name.sasl_ssl.ssl.client.auth": "required"}
    with secured("SASL_SSL", **own) as broker:
        properties = broker.client_properties("librdkafka", "bob")
        assert "certificate required" in Client(properties).refusal(part="certificate")
        certificate = client_certificate("machine")
        properties |= {"ssl.key.pem": certificate.key_pem, "ssl.certificate.pem": certificate.certificate_pem}
        seen = principals(broker)
        assert Client(properties).topics() == []
        assert seen == {("User:bob", "SASL_SSL")}, "the principal is that of SASL"


def test_secrets_are_neither_described_nor_shown() -> None:
    with secured("SASL_PLAINTEXT") as broker:
        jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        assert broker.call(lambda inner: jaas in inner.config.given)
        assert USERS["bob"] not in broker.call(lambda inner: repr(inner.config))
    own = {"ssl.key.password": "secret-1", "delegation.token.secret.key": "secret-2"}
    with secured("SASL_PLAINTEXT", **own) as broker:
        entries = broker.call(lambda inner: {one.name: one for one in broker_entries(inner.cluster.dynamic)})
        for name in own:
            entry = entries[name]
            assert (entry.value, entry.is_sensitive, entry.source) == (None, True, 4)
            assert [synonym.value for synonym in entry.synonyms] == [None]
        assert "secret-" not in repr(entries)


def test_client_properties_are_written_for_the_owner_only(tmp_path: Path) -> None:
    with secured("SASL_PLAINTEXT") as broker:
        path = broker.write_client_properties(tmp_path / "client.properties", "java", "bob", "PLAIN")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().splitlines() == [
            f"bootstrap.servers={broker.address}",
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=PLAIN",
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="bob" password="secret of bob";',
        ]


@pytest.mark.parametrize(
    ("security", "users", "sentence"),
    [
        ("TLS", None, "security: 'TLS' is not valid; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("SASL_SSL", None, "security: SASL_SSL needs users"),
        ("plaintext", USERS, "security: PLAINTEXT has no users"),
    ],
)
def test_invalid_security_is_refused(security: str, users: dict[str, str] | None, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        EmbeddedBroker(security=security, users=users)


def test_unknown_names_of_client_properties_are_refused() -> None:
    with secured("SASL_PLAINTEXT") as broker:
        for wrong in ({"client": "kcat"}, {"user": "carol"}, {"mechanism": "GSSAPI"}):
            with pytest.raises(ValueError, match=next(iter(wrong.values()))):
                broker.client_properties(**wrong)

"""TLS and credentials of a registry: certificates that are trusted or not, client certificates, users and tokens."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator

import pytest

from kcli.errors import ConfigError
from kcli.schemas.registry_client import RegistryError, RegistrySettings, SchemaRegistry
from tests.certificates import PASSWORD, Certificates
from tests.cli.fake import run_kcli
from tests.fake_registry import FakeRegistry, fake_registry
from tests.needs import needs_cryptography
from tests.real_kafka import Kafka


def _client(url: str, **properties: str) -> SchemaRegistry:
    given = {"schema.registry.url": url, **properties}
    return SchemaRegistry(RegistrySettings.from_properties(given), timeout_ms=5000.0)


def _context(stores: Certificates, name: str = "server") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = stores.folder / f"registry-{name}.pem"
    file.write_text(stores.key_pem(name) + stores.chain_pem(name))
    context.load_cert_chain(file)
    return context


@pytest.fixture
def secured(certificates: Certificates) -> Iterator[FakeRegistry]:
    with fake_registry(_context(certificates)) as running:
        yield running


@pytest.mark.parametrize("prefix", ["schema.registry.ssl.", "ssl."])
def test_the_authority_is_that_of_the_registry_or_else_of_the_client(
    secured: FakeRegistry, certificates: Certificates, prefix: str
) -> None:
    trust = {f"{prefix}truststore.location": str(certificates.authority())}
    assert _client(secured.url, **trust).subjects() == []


def test_the_authority_of_the_registry_replaces_that_of_the_client(
    secured: FakeRegistry, certificates: Certificates
) -> None:
    own = {"schema.registry.ssl.truststore.location": str(certificates.authority())}
    assert _client(secured.url, **own, **{"ssl.truststore.location": "/nonexistent"}).subjects() == []


@pytest.mark.parametrize("name", ["server", "expired", "other_host", "self_signed"])
def test_a_certificate_that_does_not_hold_is_refused_before_the_password_is_sent(
    certificates: Certificates, name: str
) -> None:
    authority = certificates.authority("other_ca" if name == "server" else "ca")
    with fake_registry(_context(certificates, name)) as running:
        client = _client(
            running.url,
            **{"schema.registry.ssl.truststore.location": str(authority), "basic.auth.user.info": "user:s3cret"},
        )
        with pytest.raises(RegistryError, match=f"^schema registry 127.0.0.1:{running.server_port}: "):
            client.subjects()
        assert running.requests == []


def test_the_host_name_is_checked_although_the_clients_check_is_off(certificates: Certificates) -> None:
    of_client = {
        "ssl.truststore.location": str(certificates.authority()),
        "ssl.endpoint.identification.algorithm": "",
        "enable.ssl.certificate.verification": "false",
        "basic.auth.user.info": "user:s3cret",
    }
    own = "schema.registry.ssl.endpoint.identification.algorithm"
    with fake_registry(_context(certificates, "other_host")) as running:
        for given in ({}, {own: "https"}, {"schema.registry.ssl.truststore.location": str(certificates.authority())}):
            with pytest.raises(RegistryError, match="its certificate is not trusted: IP address mismatch"):
                _client(running.url, **of_client, **given).subjects()
        assert running.requests == []
        for value in ("", "none"):
            assert _client(running.url, **of_client, **{own: value}).subjects() == []
        assert len(running.requests) == 2


def test_commands_for_a_cluster_without_tls_use_the_trust_store_for_the_registry(
    any_kafka: Kafka, secured: FakeRegistry, certificates: Certificates
) -> None:
    topic = any_kafka.new_topic(1)
    secured.register(f"{topic}-value", {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
    trust = ["-b", any_kafka.bootstrap_servers, "-X", f"ssl.truststore.location={certificates.authority()}"]
    words = [*trust, "--schema-registry", secured.url, "-s", "value=avro"]
    produced = run_kcli("produce", topic, *words, stdin=b'{"id": 5}\n')
    assert produced.status == 0, produced.err
    consumed = run_kcli("consume", topic, *words, "-o", "start", "-e", "-q")
    assert (consumed.status, consumed.out, consumed.err) == (0, b'{"id":5}\n', "")
    by_variable = run_kcli(
        "consume",
        topic,
        *trust,
        "-s",
        "value=avro",
        "-o",
        "start",
        "-e",
        "-q",
        environ={"KCLI_SCHEMA_REGISTRY": secured.url},
    )
    assert (by_variable.status, by_variable.out) == (0, b'{"id":5}\n')
    # Without a registry with TLS, the property would be without effect.
    refused = run_kcli("consume", topic, *trust, "-o", "start", "-e", "-q")
    assert (refused.status, refused.err.splitlines()) == (
        2,
        ["kcli: -X ssl.truststore.location has no effect in kcli: security.protocol is PLAINTEXT; remove it"],
    )


def test_a_client_certificate(certificates: Certificates) -> None:
    needs_cryptography()
    context = _context(certificates)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.authority())
    trust = {"schema.registry.ssl.truststore.location": str(certificates.authority())}
    own = {
        "schema.registry.ssl.keystore.location": str(certificates.pkcs12("client")),
        "schema.registry.ssl.keystore.password": PASSWORD,
    }
    with fake_registry(context) as running:
        assert _client(running.url, **trust, **own).subjects() == []
        with pytest.raises(RegistryError):
            _client(running.url, **trust).subjects()


def test_tls_with_a_registry_without_tls_is_one_line() -> None:
    with fake_registry() as running, pytest.raises(RegistryError) as raised:
        _client(running.url.replace("http:", "https:")).subjects()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("prefix", ["", "schema.registry."])
def test_a_user_or_a_token_is_sent(prefix: str) -> None:
    user, token = "us:pä:ss", "t0ken"
    with fake_registry() as running:
        _client(running.url, **{f"{prefix}basic.auth.user.info": user}).subjects()
        bearer = {f"{prefix}bearer.auth.credentials.source": "STATIC_TOKEN", f"{prefix}bearer.auth.token": token}
        _client(running.url, **bearer, **{f"{prefix}bearer.auth.logical.cluster": "lsrc-1"}).subjects()
        first, second = (request.headers for request in running.requests)
    assert first["Authorization"] == f"Basic {base64.b64encode(user.encode()).decode()}"
    assert (second["Authorization"], second["target-sr-cluster"]) == (f"Bearer {token}", "lsrc-1")


def test_the_user_of_sasl_is_inherited() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
    with fake_registry() as running:
        source = {"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": jaas}
        _client(running.url, **source).subjects()
    assert running.requests[0].headers["Authorization"] == f"Basic {base64.b64encode(b'a:b').decode()}"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://registry",
        "registry:8081",
        "http://user:pass@registry",
        "http://",
        "http://r/?x=pass",
        " , ",
        "http://r:0",
    ],
)
def test_a_url_that_is_not_valid_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^schema\.registry\.url") as raised:
        _client(url)
    assert "pass" not in str(raised.value)

"""OAUTHBEARER from end to end: kcli, a token endpoint, and a listener that checks tokens with the provider's keys."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.requests import ask_any
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.security.jaas import format_jaas
from tests.certificates import Certificates
from tests.foreign import node_with
from tests.interop.process import Finished, kcli
from tests.needs import needs_cryptography, skip_or_fail
from tests.oauth_provider import AUDIENCE, OAuthKeys, OAuthProvider
from tests.security.http_servers import drip, http_server, stall

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
FOREIGN_PROVIDER = "oauth2-mock-server@8.2.2"  # the last version for Node.js 20
SECRET = "swordfish"
URL = "sasl.oauthbearer.token.endpoint.url"


@contextmanager
def oauth_broker(jwks_url: str, options: dict[str, str] | None = None, **settings: str) -> Iterator[EmbeddedBroker]:
    """Run a broker whose one listener takes tokens that the key set verifies."""
    name = "listener.name.oauth.oauthbearer"
    properties = {
        "listeners": "OAUTH://127.0.0.1:0",
        "listener.security.protocol.map": "OAUTH:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{name}.sasl.jaas.config": format_jaas(MODULE, options or {}).reveal(),
        f"{name}.sasl.oauthbearer.jwks.endpoint.url": jwks_url,
        **{f"{name}.sasl.oauthbearer.{key.replace('_', '.')}": value for key, value in settings.items()},
    }
    with EmbeddedBroker(**properties) as broker:
        yield broker


def client_properties(broker: EmbeddedBroker, **properties: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": format_jaas(MODULE, {"clientId": "alice", "clientSecret": SECRET}).reveal(),
        "sasl.login.callback.handler.class": MODULE.replace("LoginModule", "LoginCallbackHandler"),
        "sasl.login.retry.backoff.max.ms": "0",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }


def topic_list(tmp_path: Path, properties: dict[str, str]) -> Finished:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    done = kcli("topic", "list", "--command-config", str(file), timeout_s=30)
    assert SECRET not in done.err
    return done


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> OAuthKeys:
    needs_cryptography()
    return OAuthKeys(tmp_path_factory.mktemp("oauth"))


@pytest.fixture
def provider(keys: OAuthKeys) -> Iterator[OAuthProvider]:
    provider = OAuthProvider(keys, {"alice": SECRET}, lifetime_s=3)
    yield provider
    provider.close()


@contextmanager
def foreign_provider(certificates: Certificates) -> Iterator[str]:
    """Run oauth2-mock-server over TLS; return its issuer's URL."""
    program = node_with(FOREIGN_PROVIDER) / "oauth2-mock-server" / "dist" / "oauth2-mock-server.js"
    tls = ("-c", str(certificates.pem("server")), "-k", str(certificates.pem("server")))
    command = ["node", str(program), "-a", "localhost", "-p", "0", *tls]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            url = next((line.split()[-1] for line in lines if line.startswith("OAuth 2 issuer is ")), None)
            if url is None:
                skip_or_fail("oauth2-mock-server does not start with this Node.js")
            yield url
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_foreign_provider_over_tls(certificates: Certificates, tmp_path: Path) -> None:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority())}
    with foreign_provider(certificates) as url:
        names = {"expected_issuer": url, "sub_claim_name": "scope"}  # its tokens have no subject
        with oauth_broker(f"{url}/jwks", trust, **names) as broker:
            properties = client_properties(broker, **{URL: f"{url}/token", **trust, "sasl.oauthbearer.scope": "alice"})
            done = topic_list(tmp_path, properties)
            # The subject `alice` has no rights.
            assert (done.status, done.err) == (0, "kcli: note: topics without DESCRIBE are not listed\n")
            done = topic_list(
                tmp_path, {**properties, "ssl.truststore.location": str(certificates.authority("other_ca"))}
            )
            assert done.status == 4
            assert "its certificate is not trusted" in done.err
        with oauth_broker(f"{url}/jwks", trust, expected_issuer="https://other", sub_claim_name="scope") as broker:
            done = topic_list(tmp_path, {**properties, "bootstrap.servers": broker.address})
            assert done.status == 4
            assert "the broker refused the token: invalid_token; check its expiry, issuer" in done.err


def test_wrong_secret_and_refused_token(keys: OAuthKeys, provider: OAuthProvider, tmp_path: Path) -> None:
    with oauth_broker(provider.key_set_url, expected_audience=AUDIENCE) as broker:
        properties = client_properties(broker, **{URL: provider.token_url})
        assert topic_list(tmp_path, properties).status == 0
        wrong = {"sasl.jaas.config": format_jaas(MODULE, {"clientId": "alice", "clientSecret": f"{SECRET}2"}).reveal()}
        done = topic_list(tmp_path, {**properties, **wrong})
        assert done.status == 4
        assert "status 401: invalid_client: wrong client or secret; check sasl.oauthbearer.client." in done.err
    with oauth_broker(keys.key_set_file.as_uri(), expected_audience="other") as broker:
        done = topic_list(tmp_path, {**properties, "bootstrap.servers": broker.address})
        assert done.status == 4
        assert "the broker refused the token: invalid_token; check its expiry" in done.err


@pytest.mark.parametrize("handle", [stall, drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")])
def test_endpoint_that_never_completes_its_answer(handle, keys: OAuthKeys, tmp_path: Path) -> None:
    with oauth_broker(keys.key_set_file.as_uri()) as broker, http_server(handle) as port:
        timeout = {"sasl.login.read.timeout.ms": "500"}
        done = topic_list(tmp_path, client_properties(broker, **{URL: f"http://127.0.0.1:{port}/", **timeout}))
    assert done.status == 4
    [line] = done.err.splitlines()
    assert f"OAuth token endpoint 127.0.0.1:{port}: no complete answer in 500 ms" in line


def test_client_renews_its_session_with_new_tokens_on_one_connection(provider: OAuthProvider) -> None:
    short = {"sasl.login.refresh.min.period.seconds": "0", "sasl.login.refresh.buffer.seconds": "0"}
    with oauth_broker(provider.key_set_url, expected_audience=AUDIENCE) as broker:
        config = ClientConfig.from_properties(client_properties(broker, **{URL: provider.token_url, **short}))
        client = connect(config)
        try:
            deadline = time.monotonic() + 30
            while len(provider.requests) < 3:
                assert time.monotonic() < deadline
                ask_any(client, ListGroupsRequest(), client.clock.now_ms() + 10_000)
                client.poll(timeout_ms=100)
            metrics = client.metrics.snapshot("consumer", client.clock.now_ms())["consumer-metrics"]
            assert metrics["connection-creation-total"] == 1
        finally:
            client.close()

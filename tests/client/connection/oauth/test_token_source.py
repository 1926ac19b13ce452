"""Tokens as the configuration says: endpoints, assertions, files and unsecured ones, with hostile endpoints."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connection.oauth import token_source
from kcli.client.connection.oauth.token_source import Retrieve, Token, TokenSource, TokenUnavailable, refresh_delay_ms
from kcli.clock import Clock, ManualClock, SystemClock
from kcli.errors import AuthenticationError, ConfigError, KcliError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.jaas import format_jaas
from kcli.security.security_settings import SecuritySettings
from kcli.settings import Value
from tests.needs import needs_cryptography
from tests.oauth_provider import OAuthKeys, OAuthProvider
from tests.security.http_servers import Handler, answer, document, drip, flood, http_server, read_request, stall

KAFKA = "org.apache.kafka.common.security.oauthbearer"
URL = "sasl.oauthbearer.token.endpoint.url"
SECRET = "sword/fish 1"
LOGIN = {"clientId": "alice", "clientSecret": SECRET}
CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "alice",
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
}
JWT_BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.JwtBearerJwtRetriever"}
NO_SECRET = "fish"


def config(properties: dict[str, Value | None], options: dict[str, str] | None = None) -> ClientConfig:
    handler = f"{KAFKA}.OAuthBearerLoginCallbackHandler"
    is_unsecured = any(name.startswith("unsecured") for name in options or {})
    return ClientConfig.from_properties(
        {
            "bootstrap.servers": "localhost:9092",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": None if is_unsecured else handler,
            "sasl.jaas.config": format_jaas(f"{KAFKA}.OAuthBearerLoginModule", options or {}),
            "sasl.login.retry.backoff.max.ms": "0",
            **properties,
        }
    )


def retrieve(properties: dict[str, Value | None], options: dict[str, str] | None = None) -> Token:
    """Make one attempt in this thread. No error shows the secret."""
    try:
        return token_source(config(properties, options), ManualClock())._retrieve()
    except KcliError as error:
        expect_clean(str(error))
        raise


def expect_clean(text: str) -> None:
    assert NO_SECRET not in text
    assert "\n" not in text


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> OAuthKeys:
    needs_cryptography()
    return OAuthKeys(tmp_path_factory.mktemp("oauth"))


@pytest.fixture(scope="module")
def provider(keys: OAuthKeys):
    provider = OAuthProvider(keys, {"alice": SECRET})
    yield provider
    provider.close()


class Recorded:
    """The requests to an endpoint that answers with one document."""

    def __init__(self, body: str = '{"access_token": "a.b.c", "expires_in": 60}') -> None:
        self.requests: list[bytes] = []
        self._body = body.encode()

    def __call__(self, sock, _) -> None:
        self.requests.append(read_request(sock))
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(self._body), self._body))

    @property
    def form(self) -> dict[str, str]:
        body = self.requests[-1].partition(b"\r\n\r\n")[2].decode()
        return {name: value for name, (value,) in parse_qs(body).items()}

    @property
    def authorization(self) -> str | None:
        lines = self.requests[-1].decode().split("\r\n")
        return next((line.removeprefix("Authorization: ") for line in lines if line.startswith("Authorization")), None)


def asked(properties: dict[str, Value | None], options: dict[str, str] | None = None) -> Recorded:
    """Return the request of a client with this configuration."""
    recorded = Recorded()
    with http_server(recorded) as port:
        retrieve({URL: f"http://127.0.0.1:{port}/token", **properties}, options)
    return recorded


# Client credentials


@pytest.mark.parametrize(("properties", "options"), [({}, LOGIN), (CREDENTIALS, {}), (CREDENTIALS, {"clientId": "x"})])
def test_client_credentials_of_properties_or_options(properties: dict[str, str], options: dict[str, str]):
    recorded = asked(properties, options)
    assert recorded.form == {"grant_type": "client_credentials"}
    assert recorded.authorization == f"Basic {base64.b64encode(f'alice:{SECRET}'.encode()).decode()}"
    assert recorded.requests[0].startswith(b"POST /token HTTP/1.1\r\n")
    assert b"Content-Type: application/x-www-form-urlencoded\r\n" in recorded.requests[0]


def test_scope_and_encoded_header():
    properties = {"sasl.oauthbearer.scope": "a b&c", "sasl.oauthbearer.header.urlencode": "true"}
    recorded = asked(properties, {**LOGIN, "scope": "other"})
    assert recorded.form["scope"] == "a b&c"
    assert recorded.authorization == f"Basic {base64.b64encode(b'alice:sword%2Ffish+1').decode()}"
    assert asked({}, {**LOGIN, "scope": "other"}).form["scope"] == "other"


def test_librdkafkas_properties():
    properties: dict[str, Value | None] = {
        "sasl.jaas.config": None,
        "sasl.login.callback.handler.class": None,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "s",
    }
    assert asked(properties).form == {"grant_type": "client_credentials", "scope": "s"}


def test_token_of_a_provider(provider: OAuthProvider):
    token = retrieve({URL: provider.token_url}, LOGIN)
    assert jwt.decode(token.text.reveal()).claims["sub"] == "alice"
    assert token.expires_at_ms == ManualClock().wall_ms() + 3_600_000


@pytest.mark.parametrize(
    ("body", "text", "expires_at_s"),
    [
        ('{"access_token": " opaque ", "expires_in": 60}', "opaque", 1_500_000_060),
        ('{"access_token": "opaque", "expires_in": "60"}', "opaque", 1_500_000_060),
        ('{"access_token": "opaque"}', "opaque", None),
        ('{"access_token": "opaque", "expires_in": -1}', "opaque", None),
        ('{"access_token": "opaque", "expires_in": "x"}', "opaque", None),
        ('{"access_token": "opaque", "expires_in": 1e999}', "opaque", None),
        ('{"id_token": "e30.eyJleHAiOjE1MDAwMDAwMDd9."}', "e30.eyJleHAiOjE1MDAwMDAwMDd9.", 1_500_000_007),
    ],
)
def test_answers_with_a_token(body: str, text: str, expires_at_s: float | None):
    with http_server(document(body)) as port:
        token = retrieve({URL: f"http://127.0.0.1:{port}/"}, LOGIN)
    assert token.text.reveal() == text
    assert token.expires_at_ms == (None if expires_at_s is None else expires_at_s * 1000)


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (
            document(
                '{"error": "invalid_client", "error_description": "Bad client\\n credentials"}', "401 Unauthorized"
            ),
            " status 401: invalid_client: Bad client credentials; check sasl.oauthbearer.client.cre",
        ),
        (
            document(json.dumps({"error": f"no {SECRET} here"}), "400 Bad Request"),
            r" status 400: no \[hidden\] here; check ",
        ),
        (document('{"error": "sword%2Ffish+1"}', "400 Bad Request"), r" status 400: \[hidden\]; check "),
        (
            document('{"errorCode": "E1", "errorSummary": "wrong"}', "403 Forbidden"),
            " status 403: E1: wrong; check ",
        ),
        (document('{"error": "\\u001b[2J"}', "400 Bad Request"), r" status 400: \[2J; check "),
        (
            document(json.dumps({"error": "x" * 9000}), "400 Bad Request"),
            r" status 400: x{200}\.\.\.; check ",
        ),
        (document("<html>", "404 Not Found"), f" status 404; check {URL}$"),
        (document(SECRET), f": the answer is not a JSON object; check {URL}$"),
        (document("[]"), ": the answer is not a JSON object; check "),
        (document("[" * 100_000), ": the answer is not a JSON object; check "),
        (document("{}"), ": the answer has no access_token$"),
        (document('{"access_token": ""}'), ": the answer has no access_token$"),
        (document('{"access_token": 7}'), ": the answer has no access_token$"),
        (document('{"error": "slow_down"}'), ": the answer has no access_token: slow_down$"),
        (document("", "302 Found", "Location: http://127.0.0.1/fish"), r": it redirects \(status 302\); set the final"),
        (answer(b"\x15\x03\x03\x00\x02\x02\x46"), ": the answer is not valid HTTP$"),
        (flood(b"HTTP/1.1 200 OK\r\n\r\n"), ": the answer has more than 1048576 bytes$"),
    ],
)
def test_refusals_and_useless_answers(handle: Handler, error: str):
    with http_server(handle) as port, pytest.raises(AuthenticationError) as failed:
        retrieve({URL: f"http://127.0.0.1:{port}/secret-path"}, LOGIN)
    failed.match(f"^OAuth token endpoint 127.0.0.1:{port}(?: answered with)?{error}")
    assert "secret-path" not in str(failed.value)


@pytest.mark.parametrize(
    ("handle", "error", "timeout_ms"),
    [
        (document("", "503 Service Unavailable"), " answered with status 503$", 10_000),
        (document('{"error": "slow_down"}', "429 Too Many Requests"), " answered with status 429: slow_down$", 10_000),
        (answer(b""), ": the connection closed before the answer$", 10_000),
        (stall, ": no complete answer in 200 ms$", 200),
        (drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{"), ": no complete answer in 200 ms$", 200),
    ],
)
def test_failures_that_may_pass(handle: Handler, error: str, timeout_ms: int):
    given = {"sasl.login.read.timeout.ms": str(timeout_ms)}
    with http_server(handle) as port, pytest.raises(TokenUnavailable) as failed:
        retrieve({URL: f"http://127.0.0.1:{port}/", **given}, LOGIN)
    failed.match(f"^OAuth token endpoint 127.0.0.1:{port}{error}")


# TLS to the endpoint


@pytest.fixture
def tls_endpoint(certificates):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.pem("server"))
    with http_server(document('{"access_token": "t"}'), server) as port:
        yield f"https://localhost:{port}/token"


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        (lambda ca: {"ssl.truststore.location": ca, "ssl.truststore.type": "PEM"}, lambda ca: {}),
        (lambda ca: {"https.ca.location": ca}, lambda ca: {}),
        (lambda ca: {"https.ca.pem": Path(ca).read_text()}, lambda ca: {}),
        (lambda ca: {}, lambda ca: {"ssl.truststore.location": ca, "ssl.truststore.type": "PEM"}),
    ],
)
def test_trusted_endpoint(certificates, tls_endpoint: str, properties: Callable, options: Callable):
    ca = str(certificates.authority())
    given = {URL: tls_endpoint, "security.protocol": "SASL_SSL", **properties(ca)}
    assert retrieve(given, {**LOGIN, **options(ca)}).text.reveal() == "t"


def test_untrusted_endpoint_gets_no_secret(certificates, tls_endpoint: str):
    other = str(certificates.authority("other_ca"))
    for given in ({}, {"ssl.truststore.location": other}, {"https.ca.location": other}):
        with pytest.raises(KcliError, match="its certificate is not trusted: "):
            retrieve({URL: tls_endpoint, "security.protocol": "SASL_SSL", **given}, LOGIN)


def test_name_of_the_endpoint_is_checked_without_the_check_of_brokers(certificates):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.pem("other_host"))
    given = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(certificates.authority()),
        "ssl.endpoint.identification.algorithm": "",
    }
    serve = document('{"access_token": "t"}')
    with http_server(serve, server) as port, pytest.raises(KcliError, match="is not trusted: Hostname mismatch"):
        retrieve({URL: f"https://localhost:{port}/", **given}, LOGIN)


# Assertions (KIP-1139)


def test_signed_assertion(keys: OAuthKeys):
    recorded = asked(
        {
            **JWT_BEARER,
            "sasl.oauthbearer.assertion.private.key.file": str(keys.client.file),
            "sasl.oauthbearer.assertion.claim.iss": "me",
            "sasl.oauthbearer.assertion.claim.sub": "alice",
            "sasl.oauthbearer.assertion.claim.aud": "idp",
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
            "sasl.oauthbearer.scope": "s",
        }
    )
    assert recorded.authorization is None
    form = recorded.form
    assert (form["grant_type"], form["scope"]) == ("urn:ietf:params:oauth:grant-type:jwt-bearer", "s")
    assert keys.client.claims_of(form["assertion"]) is not None
    decoded = jwt.decode(form["assertion"])
    assert decoded.header == {"alg": "RS256", "typ": "JWT"}
    assert len(decoded.claims.pop("jti")) > 10
    assert decoded.claims == {
        "iss": "me",
        "sub": "alice",
        "aud": "idp",
        "iat": 1_500_000_000,
        "exp": 1_500_000_300,
        "nbf": 1_499_999_940,
    }


def test_template_adds_to_header_and_claims(keys: OAuthKeys, tmp_path: Path):
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k1"}, "payload": {"sub": "bob", "x": [1], "exp": 7}}')
    recorded = asked(
        {
            **JWT_BEARER,
            "sasl.oauthbearer.assertion.private.key.file": str(keys.client.file),
            "sasl.oauthbearer.assertion.claim.sub": "alice",
            "sasl.oauthbearer.assertion.template.file": str(template),
        }
    )
    decoded = jwt.decode(recorded.form["assertion"])
    assert decoded.header == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert (decoded.claims["sub"], decoded.claims["x"], decoded.claims["exp"]) == ("bob", [1], 1_500_000_300)


def test_assertion_of_a_file(tmp_path: Path):
    file = tmp_path / "assertion.jwt"
    file.write_text("finished.assertion.x\n")
    recorded = asked({**JWT_BEARER, "sasl.oauthbearer.assertion.file": str(file)})
    assert recorded.form["assertion"] == "finished.assertion.x"


def test_assertion_instead_of_a_client_secret(tmp_path: Path):
    file = tmp_path / "assertion.jwt"
    file.write_text("finished.assertion.x")
    recorded = asked({"sasl.oauthbearer.assertion.file": str(file)}, {"clientId": "alice"})
    assert recorded.authorization is None
    assert recorded.form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "finished.assertion.x",
        "client_id": "alice",
    }


def test_endpoint_that_repeats_the_assertion(tmp_path: Path):
    file = tmp_path / "assertion.jwt"
    file.write_text("sword.fish.x")
    given = {**JWT_BEARER, "sasl.oauthbearer.assertion.file": str(file)}
    serve = document('{"error": "bad assertion sword.fish.x"}', "400 Bad Request")
    with http_server(serve) as port, pytest.raises(AuthenticationError, match=r"bad assertion \[hidden\]; check"):
        retrieve({URL: f"http://127.0.0.1:{port}/", **given})


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("file", None, "cannot be read: No such file or directory"),
        ("file", b"\xff", "is not a text"),
        ("file", b"x" * 2_000_000, "has more than 1048576 bytes"),
        ("private.key.file", b"fish", "the key is not a private key in PEM, or its passphrase is wrong"),
        ("template.file", b"fish", "is not JSON of the form"),
        ("template.file", b"[]", "is not JSON of the form"),
        ("template.file", b'{"header": 1}', "is not JSON of the form"),
    ],
)
def test_file_that_cannot_be_used(keys: OAuthKeys, tmp_path: Path, name: str, content: bytes | None, problem: str):
    file = tmp_path / "given"
    if content is not None:
        file.write_bytes(content)
    key = {"sasl.oauthbearer.assertion.private.key.file": str(keys.client.file)}
    with pytest.raises(ConfigError) as failed:
        retrieve({URL: "http://localhost:1/", **JWT_BEARER, **key, f"sasl.oauthbearer.assertion.{name}": str(file)})
    failed.match(f"^sasl.oauthbearer.assertion.{name}: .*{problem}")


# Tokens of files, and unsecured ones


def test_token_of_a_file_is_read_anew(tmp_path: Path):
    file = tmp_path / "to ken"
    source = token_source(config({URL: file.as_uri()}), ManualClock())
    for name in ("a", "b"):
        text = jwt.unsecured({"sub": name, "exp": 1_500_000_060}).reveal()
        file.write_text(f" {text}\n")
        assert source._retrieve() == Token(jwt.unsecured({"sub": name, "exp": 1_500_000_060}), 1_500_000_060_000)


@pytest.mark.parametrize(
    ("content", "problem"), [("", "is empty; it must have a token"), (None, "cannot be read: No such")]
)
def test_file_without_a_token(tmp_path: Path, content: str | None, problem: str):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=f"^{URL}: '.*/token' {problem}"):
        retrieve({URL: file.as_uri()})


def test_unsecured_token():
    token = retrieve(
        {},
        {
            "unsecuredLoginStringClaim_sub": "alice",
            "unsecuredLoginNumberClaim_level": "7",
            "unsecuredLoginListClaim_scope": "|a|b c",
            "unsecuredLoginLifetimeSeconds": "60",
        },
    )
    decoded = jwt.decode(token.text.reveal())
    assert decoded.header == {"alg": "none"}
    now_s = 1_500_000_000
    assert decoded.claims == {"sub": "alice", "level": 7, "scope": ["a", "b c"], "iat": now_s, "exp": now_s + 60}
    assert token.expires_at_ms == (now_s + 60) * 1000


# Configurations that cannot work are refused before any connection


@pytest.mark.parametrize(
    ("properties", "options", "problem"),
    [
        ({}, LOGIN, f"{URL} is not set"),
        ({URL: "ftp://host/"}, LOGIN, f"{URL} is not a valid URL"),
        ({URL: "http://user:fish@host/"}, LOGIN, f"{URL} is not a valid URL"),
        ({URL: "http://host/"}, {}, "sasl.oauthbearer.client.credentials.client.id is not set; set it, or the option"),
        ({URL: "http://host/"}, {"clientId": "alice"}, "sasl.oauthbearer.client.credentials.client.secret is not set"),
        (
            {URL: "http://host/", "sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.FileJwtRetriever"},
            LOGIN,
            f"{URL} is not a file; FileJwtRetriever needs file:///PATH",
        ),
        ({URL: "http://host/", **JWT_BEARER}, {}, "sasl.oauthbearer.assertion.private.key.file is missing"),
        ({}, {"unsecuredLoginStringClaim_x": "fish"}, "unsecuredLoginStringClaim_sub is missing"),
        (
            {},
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "fish"},
            "the option for LifetimeSeconds of the unsecured token is not a number",
        ),
    ],
)
def test_configuration_without_a_token(properties: dict[str, Value | None], options: dict[str, str], problem: str):
    with pytest.raises(ConfigError) as failed:
        retrieve(properties, options)
    failed.match(problem)


LIMIT_S = 20  # only a failing test waits so long
SHORT = {
    "sasl.login.retry.backoff.ms": "1",
    "sasl.login.retry.backoff.max.ms": "30",
    "sasl.login.refresh.min.period.seconds": "0",
    "sasl.login.refresh.buffer.seconds": "0",
}


class Rig:
    """A source over `retrieve`; `wait_for` waits until the source has notified and the condition is true."""

    def __init__(self, retrieve: Retrieve, clock: Clock, **properties: str) -> None:
        self.calls = 0
        self._notified = threading.Condition()

        def counted() -> Token:
            self.calls += 1
            return retrieve()

        config = SecuritySettings.from_properties({**SHORT, **properties})
        self.source = TokenSource(counted, config, clock, lambda low, high: low)
        self.source.notify = self._notify

    def _notify(self) -> None:
        with self._notified:
            self._notified.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._notified:
            assert self._notified.wait_for(condition, LIMIT_S)

    def settle(self) -> None:
        self.source.start()
        self.wait_for(self.source.is_settled)


@pytest.fixture
def rig():
    rigs: list[Rig] = []

    def make(retrieve: Retrieve, clock: Clock | None = None, **properties: str) -> Rig:
        rigs.append(Rig(retrieve, clock or ManualClock(), **properties))
        return rigs[-1]

    yield make
    for one in rigs:
        one.source.close()


def failing(*errors: KcliError | None, then: Token | None = None) -> Retrieve:
    """Return a retriever with these results, one after another; the last one repeats."""
    results = list(errors) + ([None] if then is not None else [])

    def retrieve() -> Token:
        error = results.pop(0) if len(results) > 1 else results[0]
        if error is not None:
            raise error
        assert then is not None
        return then

    return retrieve


def test_token_is_retrieved_once(rig):
    one = rig(lambda: Token(Secret("t"), None))
    one.settle()
    one.source.start()
    assert one.source.token() == Secret("t")
    assert one.calls == 1
    assert repr(one.source) == "<TokenSource token>"


def test_start_does_not_wait(rig):
    answer = threading.Event()

    def retrieve() -> Token:
        assert answer.wait(LIMIT_S)
        return Token(Secret("t"), None)

    one = rig(retrieve)
    one.source.start()
    one.source.start()
    assert not one.source.is_settled()
    with pytest.raises(TokenUnavailable, match="there is no OAuth token yet"):
        one.source.token()
    answer.set()
    one.wait_for(one.source.is_settled)
    assert one.calls == 1


def test_refusal_is_kept_until_the_next_start(rig):
    one = rig(failing(AuthenticationError("refused"), then=Token(Secret("t"), None)))
    one.settle()
    for _ in range(2):
        with pytest.raises(AuthenticationError, match=r"^refused$"):
            one.source.token()
    assert one.calls == 1
    one.settle()
    assert one.source.token() == Secret("t")


def test_unavailable_endpoint_is_asked_again(rig):
    one = rig(failing(TokenUnavailable("a"), TokenUnavailable("b"), then=Token(Secret("t"), None)))
    one.settle()
    assert one.source.token() == Secret("t")
    assert one.calls == 3


def test_endpoint_that_stays_unavailable_fails_the_first_token_for_good(rig):
    one = rig(failing(TokenUnavailable("no answer")), SystemClock())
    one.settle()
    with pytest.raises(AuthenticationError, match=r"^no answer$"):
        one.source.token()
    assert one.calls > 1


def test_later_failure_is_retriable(rig):
    clock = ManualClock()
    token = Token(Secret("t"), clock.wall_ms() + 3_600_000)
    one = rig(
        failing(None, TokenUnavailable("no answer"), then=token), clock, **{"sasl.login.retry.backoff.max.ms": "0"}
    )
    one.settle()
    clock.advance(3_600_000)
    assert not one.source.is_settled()
    one.settle()
    with pytest.raises(TokenUnavailable, match=r"^no answer$") as failed:
        one.source.token()
    assert failed.value.retriable


def test_token_that_expired_unnoticed_is_replaced(rig):
    clock = ManualClock()
    one = rig(lambda: Token(Secret(f"t{one.calls}"), clock.wall_ms() + 3_600_000), clock)
    one.settle()
    clock.advance(7_200_000)  # the machine slept
    one.settle()
    assert one.source.token() == Secret("t2")


def test_token_is_renewed_ahead_of_its_expiry(rig):
    clock = SystemClock()
    lifetimes = [60.0, 3_600_000.0]
    properties = {"sasl.login.refresh.window.factor": "0.5"}
    one = rig(lambda: Token(Secret(f"t{one.calls}"), clock.wall_ms() + lifetimes[one.calls - 1]), clock, **properties)
    one.settle()
    one.wait_for(lambda: one.source.is_settled() and one.source.token() == Secret("t2"))


def test_old_token_serves_while_its_renewal_fails(rig):
    clock = ManualClock()
    asked_again = threading.Event()

    def retrieve() -> Token:
        if one.calls == 1:
            return Token(Secret("t"), clock.wall_ms() + 20)
        asked_again.set()
        raise AuthenticationError("refused")

    one = rig(retrieve, clock)
    one.settle()
    assert asked_again.wait(LIMIT_S)
    assert one.source.is_settled()
    assert one.source.token() == Secret("t")


def test_token_that_has_expired_already(rig):
    clock = ManualClock()
    one = rig(lambda: Token(Secret("swordfish"), clock.wall_ms()), clock)
    one.settle()
    with pytest.raises(AuthenticationError, match=r"has expired already; check the clock of this machine$"):
        one.source.token()


def test_unexpected_error_is_reported_without_its_text(rig):
    def retrieve() -> Token:
        raise RuntimeError("swordfish")

    one = rig(retrieve)
    one.settle()
    with pytest.raises(AuthenticationError, match=r"^the OAuth token cannot be retrieved: RuntimeError$"):
        one.source.token()


def test_close_ends_the_thread(rig):
    clock = ManualClock()
    one = rig(lambda: Token(Secret("t"), clock.wall_ms() + 3_600_000), clock)
    one.settle()
    threads = [thread for thread in threading.enumerate() if thread.name == "kcli-oauth"]
    assert threads
    one.source.close()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads)
    one.source.start()
    assert one.calls == 1


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("lifetime_ms", "uniform", "delay_ms"),
    [
        (HOUR_MS, 0.0, 0.8 * HOUR_MS),
        (HOUR_MS, 1.0, 0.85 * HOUR_MS),
        (600_000, 1.0, 300_000),  # five minutes before the expiry
        (361_000, 0.0, 61_000),
        (360_000, 0.0, 60_000),  # the shortest period and the buffer
        (300_000, 0.0, 240_000),  # no room for both, so only the window counts
        (3_000, 0.0, 2_400),
    ],
)
def test_delay_of_the_renewal_follows_the_rules_of_java(lifetime_ms: float, uniform: float, delay_ms: float):
    assert refresh_delay_ms(lifetime_ms, SecuritySettings.from_properties({}), uniform) == pytest.approx(delay_ms)


def test_shortest_period_between_two_tokens():
    config = SecuritySettings.from_properties(
        {"sasl.login.refresh.window.factor": "0.5", "sasl.login.refresh.min.period.seconds": "900"}
    )
    assert refresh_delay_ms(1_500_000, config, 0.0) == 900_000

"""Tokens of OAUTHBEARER listeners, as Kafka's validators check them."""

import json
import os
from base64 import urlsafe_b64encode

import pytest

from kcli.broker.security.jwks import KeySet, token_validator
from kcli.broker.security.listeners import ListenerSettings
from kcli.clock import ManualClock
from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.sasl.oauthbearer import InvalidToken
from tests.needs import needs_cryptography
from tests.oauth_provider import OAuthKeys
from tests.security.http_servers import document, http_server, stall

URL = "sasl.oauthbearer.jwks.endpoint.url"
NOW_S = 1_500_000_000
TIMES = {"iat": NOW_S - 10, "exp": NOW_S + 60}


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> OAuthKeys:
    needs_cryptography()
    return OAuthKeys(tmp_path_factory.mktemp("oauth"))


def validator(clock: ManualClock | None = None, options: dict[str, str] | None = None, **properties: str):
    given = {name.replace("_", "."): value for name, value in properties.items()}
    secrets = {name: Secret(value) for name, value in (options or {}).items()}
    return token_validator(ListenerSettings.from_properties(given), secrets, clock or ManualClock())


def with_keys(keys: OAuthKeys, clock: ManualClock | None = None, **properties: str):
    properties = {"sasl_oauthbearer_expected_audience": "kafka", **properties}
    return validator(clock, sasl_oauthbearer_jwks_endpoint_url=keys.key_set_file.as_uri(), **properties)


def test_signed_token_of_the_key_set(keys: OAuthKeys):
    identity = with_keys(keys)(keys.token("alice", **TIMES))
    assert identity == ("alice", b"", (NOW_S + 60) * 1000, False)


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"exp": NOW_S - 30}, "expired"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"iss": "other"}, "issuer"),
        ({"iat": None}, "time of issue"),
        ({"sub": None}, "subject"),
    ],
)
def test_claims_that_are_not_the_expected_ones(keys: OAuthKeys, claims: dict[str, object], problem: str):
    validate = with_keys(keys, sasl_oauthbearer_expected_issuer="kcli-test")
    with pytest.raises(InvalidToken, match=problem) as refused:
        validate(keys.token("alice", **{**TIMES, **claims}))
    assert refused.value.status == "invalid_token"


def test_names_of_claims_and_clock_skew(keys: OAuthKeys):
    validate = with_keys(keys, sasl_oauthbearer_sub_claim_name="client", sasl_oauthbearer_clock_skew_seconds="90")
    assert validate(keys.token("x", client="app", iat=NOW_S, exp=NOW_S - 80)).name == "app"


def test_token_of_a_foreign_key_and_unsecured_token(keys: OAuthKeys):
    validate = with_keys(keys)
    claims = {"sub": "alice", "aud": "kafka", **TIMES}
    for token in (keys.client.sign(claims), jwt.unsecured(claims).reveal(), "swordfish"):
        with pytest.raises(InvalidToken) as refused:
            validate(token)
        assert "swordfish" not in str(refused.value)


def test_changed_file_is_read_again(keys: OAuthKeys, tmp_path):
    file = tmp_path / "jwks.json"
    file.write_text('{"keys": []}')
    validate = validator(sasl_oauthbearer_jwks_endpoint_url=file.as_uri(), sasl_oauthbearer_expected_audience="kafka")
    token = keys.token("alice", **TIMES)
    with pytest.raises(InvalidToken, match="not in the key set"):
        validate(token)
    file.write_text(json.dumps(keys.provider.key_set()))
    assert validate(token).name == "alice"
    file.write_text("{")
    os.utime(file, (1, 1))
    assert validate(token).name == "alice"  # the old keys serve until the file is right again
    file.unlink()
    assert validate(token).name == "alice"


def test_keys_of_a_url_are_read_again_after_the_refresh_interval_and_for_an_unknown_key(keys: OAuthKeys, monkeypatch):
    answers = [b'{"keys": []}', json.dumps(keys.provider.key_set()).encode(), b"broken", b'{"keys": []}']
    threads = []

    def handle(sock, stop):
        document(answers.pop(0))(sock, stop)

    clock = ManualClock()
    with http_server(handle) as port:
        monkeypatch.setattr("kcli.broker.security.jwks._in_thread", threads.append)
        settings = ListenerSettings.from_properties({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000"})
        key_set = KeySet(f"http://127.0.0.1:{port}/jwks", settings, {}, clock)
        token = jwt.decode(keys.token("alice"))
        for _ in range(2):  # one thread at a time
            with pytest.raises(jwt.InvalidJwt, match="not in the key set"):
                key_set.verify(token)
        (read,) = threads
        read()
        key_set.verify(token)
        assert len(threads) == 1
        clock.advance(60_000)
        key_set.verify(token)
        threads.pop()()  # the answer is broken, and the old keys serve
        key_set.verify(token)
        assert len(threads) == 1
        clock.advance(100)  # the first backoff
        key_set.verify(token)
        threads.pop()()
        with pytest.raises(jwt.InvalidJwt, match="not in the key set"):
            key_set.verify(token)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///none/jwks.json", "'/none/jwks.json': No such file or directory"),
        ("ftp://host/", "is not a valid URL"),
        ("http://user:swordfish@host/", "is not a valid URL"),
    ],
)
def test_key_set_that_cannot_be_read_fails_the_listener(url: str, problem: str):
    needs_cryptography()
    with pytest.raises(ConfigError) as refused:
        validator(sasl_oauthbearer_jwks_endpoint_url=url)
    assert str(refused.value).startswith(URL)
    assert problem in str(refused.value)
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize(
    ("handle", "problem", "timeout_ms"),
    [
        (document("x", "404 Not Found"), "it answered with status 404", 10_000),
        (document("x"), "the data is not a JSON object", 10_000),
        (stall, "no complete answer in 200 ms", 200),
    ],
)
def test_key_set_of_a_broken_server_fails_the_listener(handle, problem: str, timeout_ms: int, monkeypatch):
    needs_cryptography()
    monkeypatch.setattr("kcli.broker.security.jwks._TIMEOUT_MS", timeout_ms)
    with http_server(handle) as port, pytest.raises(ConfigError, match=f"127.0.0.1:{port}: {problem}"):
        validator(sasl_oauthbearer_jwks_endpoint_url=f"http://127.0.0.1:{port}/jwks")


def test_validator_of_signed_tokens_needs_a_key_set():
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    with pytest.raises(ConfigError, match=f"^{URL} is not set"):
        validator(sasl_server_callback_handler_class=handler)


# Unsecured tokens


def unsecured(**claims: object) -> str:
    return jwt.unsecured({"sub": "alice", "exp": NOW_S + 60, **claims}).reveal()


def test_unsecured_token_where_no_key_set_is_configured():
    assert validator()(unsecured(aud="any")) == ("alice", b"", (NOW_S + 60) * 1000, False)
    options = {"unsecuredValidatorPrincipalClaimName": "user", "unsecuredValidatorAllowableClockSkewMs": "2000"}
    assert validator(options=options)(unsecured(user="bob", exp=NOW_S - 1)).name == "bob"


def test_unsecured_token_without_the_required_scope():
    validate = validator(options={"unsecuredValidatorRequiredScope": "read write"})
    assert validate(unsecured(scope=["write", "read", "x"])).name == "alice"
    with pytest.raises(InvalidToken) as refused:
        validate(unsecured(scope="read"))
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "[read, write]")


@pytest.mark.parametrize("claims", [{"exp": NOW_S}, {"exp": None}, {"sub": ""}])
def test_refused_unsecured_token(claims: dict[str, object]):
    with pytest.raises(InvalidToken):
        validator()(unsecured(**claims))


def test_signed_token_is_refused_as_unsecured_one(keys: OAuthKeys):
    with pytest.raises(InvalidToken, match="expects unsecured tokens"):
        validator()(keys.token("alice", **TIMES))


def test_token_with_critical_extensions_is_refused(keys: OAuthKeys):
    header = {"alg": "none", "crit": ["x"], "x": 1}
    text = unsecured()
    part = urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")
    with pytest.raises(InvalidToken, match="critical extensions"):
        validator()(f"{part}.{text.partition('.')[2]}")
    claims = {"sub": "alice", "aud": "kafka", **TIMES}
    with pytest.raises(InvalidToken, match="critical extensions"):
        with_keys(keys)(keys.provider.sign(claims, crit=["x"], x=1))


def test_option_that_is_not_a_number():
    with pytest.raises(ConfigError, match="unsecuredValidatorAllowableClockSkewMs is not a number"):
        validator(options={"unsecuredValidatorAllowableClockSkewMs": "x"})

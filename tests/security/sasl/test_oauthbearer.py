"""SASL OAUTHBEARER. The messages are those of RFC 7628, KIP-255 and Kafka 4.3.1."""

import pytest

from kcli.errors import AuthenticationError, ConfigError
from kcli.secret import Secret
from kcli.security.sasl.exchange import Identity
from kcli.security.sasl.oauthbearer import InvalidToken, OAuthBearerClient, oauthbearer_server
from tests.security.sasl.exchanges import run_exchange


def validate(token: str) -> Identity:
    if token == "needs.scope.x":
        raise InvalidToken("no scope", "insufficient_scope", "kafka")
    if token != "good.token.x":
        raise InvalidToken("unknown")
    return Identity("alice", expires_at_wall_ms=1234)


def client(token: str = "good.token.x", **extensions: str):
    return OAuthBearerClient(lambda: Secret(token), extensions).start("kafka")


def test_valid_token_gives_the_principal_and_its_expiry():
    identity, messages = run_exchange(client(), oauthbearer_server(validate))
    assert identity == ("alice", b"", 1234, False)
    assert messages == [b"n,,\x01auth=Bearer good.token.x\x01\x01", b""]


def test_extensions_follow_the_token():
    _, messages = run_exchange(client(logicalCluster="lkc-1", pool="a b"), oauthbearer_server(validate))
    assert messages[0] == b"n,,\x01auth=Bearer good.token.x\x01logicalCluster=lkc-1\x01pool=a b\x01\x01"


@pytest.mark.parametrize(
    ("token", "answer", "sentence"),
    [
        ("swordfish", b'{"status":"invalid_token"}', "the broker refused the token: invalid_token"),
        (
            "needs.scope.x",
            b'{"status":"insufficient_scope","scope":"kafka"}',
            "the broker refused the token: insufficient_scope, it needs the scope kafka",
        ),
    ],
)
def test_refusal_is_json_then_an_error_with_that_json(token: str, answer: bytes, sentence: str):
    exchange, server = client(token), oauthbearer_server(validate)
    next(server)
    assert server.send(next(exchange)) == answer
    last = exchange.send(answer)
    assert last == b"\x01"
    with pytest.raises(AuthenticationError) as refused:
        server.send(last)
    assert str(refused.value) == answer.decode()
    with pytest.raises(AuthenticationError) as shown:
        exchange.throw(refused.value)
    assert str(shown.value) == f"SASL OAUTHBEARER: {sentence}; check its expiry, issuer, audience and scope"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"{", "no status"),
        (b"[]", "no status"),
        (b'"x"', "no status"),
        (b"\xff", "no status"),
        (b'{"status":"\\u001b[2J"}', r"\\x1b\[2J;"),
        (b"[" * 100_000, "no status"),
        (b'{"status":"' + b"x" * 5000 + b'"}', "x{200};"),
    ],
)
def test_hostile_refusal_ends_in_one_short_sentence(answer: bytes, status: str):
    exchange = client()
    next(exchange)
    exchange.send(answer)
    with pytest.raises(AuthenticationError, match=f"the broker refused the token: {status}"):
        exchange.send(b"")


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}, {"a": "é"}])
def test_extension_that_the_mechanism_cannot_carry(extensions: dict[str, str]):
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config: the "):
        client(**extensions)


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=Bearer b", "swordfish\n", "é"])
def test_token_with_other_characters_is_not_sent(token: str):
    with pytest.raises(AuthenticationError) as refused:
        next(client(token))
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good.token.x\x01",
        b"n,,\x01auth=Bearer good.token.x\x01\x01x",
        b"n,,\x01auth=Basic good.token.x\x01\x01",
        b"n,,\x01auth=good.token.x\x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"y,,\x01auth=Bearer good.token.x\x01\x01",
        b"n,b=x,\x01auth=Bearer good.token.x\x01\x01",
        b"n,,x\x01auth=Bearer good.token.x\x01\x01",
        b"n,,\x01auth=Bearer good.token.x\x01a1=b\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_malformed_client_message(message: bytes):
    server = oauthbearer_server(validate)
    next(server)
    with pytest.raises(AuthenticationError, match="invalid credentials with SASL mechanism OAUTHBEARER"):
        server.send(message)


def test_authorization_id_must_be_the_principal():
    server = oauthbearer_server(validate)
    next(server)
    expected = r"authorization id \(bob\) that is different from the token's principal name \(alice\)$"
    with pytest.raises(AuthenticationError, match=expected):
        server.send(b"n,a=bob,\x01auth=Bearer good.token.x\x01\x01")
    server = oauthbearer_server(validate)
    next(server)
    with pytest.raises(StopIteration):
        server.send(b"n,a=alice,\x01auth=bearer good.token.x\x01\x01")


def test_client_may_send_another_token_after_a_refusal():
    server = oauthbearer_server(validate)
    next(server)
    server.send(b"n,,\x01auth=Bearer bad\x01\x01")
    with pytest.raises(StopIteration):
        server.send(b"n,,\x01auth=Bearer good.token.x\x01\x01")

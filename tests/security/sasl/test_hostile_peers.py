"""Any bytes of the other side end an exchange with AuthenticationError; no other error, and no secret in it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import AuthenticationError, ConfigError
from kcli.secret import Secret
from kcli.security.jaas import format_jaas, parse_jaas
from kcli.security.jwt import InvalidJwt, decode
from kcli.security.sasl.exchange import ClientExchange, ServerExchange
from kcli.security.sasl.oauthbearer import InvalidToken, OAuthBearerClient, oauthbearer_server
from kcli.security.sasl.plain import PlainClient, plain_server
from kcli.security.sasl.scram import ScramClient, scram_credential, scram_server
from tests.security.sasl.exchanges import login

SECRET = "swordfish"
CREDENTIAL = scram_credential("SCRAM-SHA-256", SECRET, salt=b"salt")

# Parts of messages that are right by themselves, and bytes that are not.
PARTS = [b"n,,", b"n=user", b"r=", b"r=abc", b"s=c2FsdA==", b"i=4096", b"i=9", b"c=biws", b"p=AAAA", b"v=AAAA", b"e=x"]
PARTS += [
    b",",
    b"=",
    b"\0",
    b"\x01",
    b"auth=Bearer a.b.c",
    b"k=v",
    b'{"status":',
    b"}",
    b"y,,",
    b"n,a=b,",
    b"\xff",
    b"-",
]
MESSAGES = st.lists(st.sampled_from(PARTS) | st.binary(max_size=5), max_size=8).map(b"".join)


def refuse(token: str) -> None:
    raise InvalidToken(f"unknown {SECRET}")


CLIENTS = {
    "PLAIN": lambda: PlainClient(login(username="user", password=SECRET)).start("kafka"),
    "SCRAM": lambda: ScramClient("SCRAM-SHA-256", login(username="user", password=SECRET)).start("kafka"),
    "OAUTHBEARER": lambda: OAuthBearerClient(lambda: Secret(SECRET), {}).start("kafka"),
}
SERVERS = {
    "PLAIN": lambda: plain_server(lambda user, password: False),
    "SCRAM": lambda: scram_server("SCRAM-SHA-256", lambda user, is_token: CREDENTIAL),
    "OAUTHBEARER": lambda: oauthbearer_server(refuse),
}


def feed(exchange: ClientExchange | ServerExchange, messages: list[bytes]) -> str:
    """Send the messages; return the text of the refusal, or nothing."""
    next(exchange)
    with contextlib.suppress(StopIteration):
        try:
            for message in messages:
                exchange.send(message)
        except AuthenticationError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("name", CLIENTS)
@given(messages=st.lists(MESSAGES, max_size=4))
@settings(max_examples=150)
def test_hostile_server(name: str, messages: list[bytes]):
    refusal = feed(CLIENTS[name](), messages)
    assert SECRET not in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize("name", SERVERS)
@given(messages=st.lists(MESSAGES, max_size=4))
@settings(max_examples=150)
def test_hostile_client(name: str, messages: list[bytes]):
    exchange = SERVERS[name]()
    assert SECRET not in feed(exchange, messages)


@given(st.text(st.sampled_from("ab.-_/=;\"'\\ \n*7")) | st.text())
def test_any_jaas_text(text: str):
    marked = f"Module required password={SECRET} {text}"
    with contextlib.suppress(ConfigError):
        parse_jaas(text)
    try:
        parse_jaas(marked)
    except ConfigError as error:
        shown = str(error)
    else:
        shown = ""
    assert SECRET not in shown


@given(st.text())
def test_any_password_survives_the_jaas_text(value: str):
    assert parse_jaas(format_jaas("Module", {"password": value}).reveal()).required("password") == value


@given(st.text() | st.lists(st.sampled_from(["e30", ".", "W10", "eyJhIjoxfQ", "="]), max_size=8).map("".join))
def test_any_token(token: str):
    with contextlib.suppress(InvalidJwt):
        decode(token)

"""SASL PLAIN. Messages and their order are those of Kafka 4.3.1."""

import pytest

from kcli.errors import AuthenticationError, ConfigError
from kcli.security.sasl.plain import PlainClient, plain_server
from tests.security.sasl.exchanges import login, run_exchange


def verify(user: str, password: str) -> bool:
    return (user, password) == ("ålice", "wönderland")


def refusal(message: bytes) -> str:
    server = plain_server(verify)
    next(server)
    with pytest.raises(AuthenticationError) as refused:
        server.send(message)
    return str(refused.value)


def test_right_password_gives_the_user():
    client = PlainClient(login(username="ålice", password="wönderland")).start("kafka")
    identity, messages = run_exchange(client, plain_server(verify))
    assert identity == ("ålice", b"", None, False)
    assert messages == ["\0ålice\0wönderland".encode(), b""]


def test_own_name_as_authorization_id_is_accepted():
    server = plain_server(verify)
    next(server)
    with pytest.raises(StopIteration):
        server.send("ålice\0ålice\0wönderland".encode())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("\0ålice\0swordfish", "Authentication failed: Invalid username or password"),
        ("\0bob\0swordfish", "Authentication failed: Invalid username or password"),
        ("\0\0swordfish", "Authentication failed: username not specified"),
        ("\0ålice\0", "Authentication failed: password not specified"),
        (
            "bob\0ålice\0wönderland",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_refusals_in_the_words_of_kafka(message: str, text: str):
    assert refusal(message.encode()) == text


@pytest.mark.parametrize("message", [b"", b"\0", b"\0a\0b\0c", b"\0a\0\xff"])
def test_malformed_message(message: bytes):
    expected = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    assert refusal(message) == expected


def test_client_refuses_an_answer_with_data():
    client = PlainClient(login(username="u", password="swordfish")).start("kafka")
    next(client)
    with pytest.raises(AuthenticationError, match=r"^SASL PLAIN: the broker's answer has data"):
        client.send(b"swordfish")


def test_missing_option():
    with pytest.raises(ConfigError, match="the option password is missing"):
        PlainClient(login(username="u"))

"""SASL PLAIN (RFC 4616): user and password in one message, readable by the server. Both sides."""

from __future__ import annotations

from collections.abc import Callable

from kcli.errors import AuthenticationError
from kcli.security.jaas import JaasEntry
from kcli.security.sasl.exchange import (
    ClientExchange,
    Identity,
    ServerExchange,
    foreign_authorization_id,
    invalid_credentials,
)

MECHANISM = "PLAIN"


class PlainClient:
    """The client's side, with `username` and `password` of the login module."""

    name = MECHANISM

    def __init__(self, login: JaasEntry) -> None:
        user, password = login.required("username"), login.required("password")
        self.user: str | None = user
        self._message = f"\0{user}\0{password}".encode()

    def start(self, host: str) -> ClientExchange:
        """Begin the exchange: one message, and an empty answer."""
        answer = yield self._message
        if answer:
            raise AuthenticationError("SASL PLAIN: the broker's answer has data, where the mechanism has none")


def plain_server(verify: Callable[[str, str], bool]) -> ServerExchange:
    """The server's side. `verify` returns True if it knows the user with this password.

    Messages and their order as in Kafka's org.apache.kafka.common.security.plain.internals.PlainSaslServer.
    """
    message = yield b""
    try:
        authorization_id, user, password = message.decode().split("\0")
    except ValueError:
        raise invalid_credentials(MECHANISM) from None
    if not user:
        raise AuthenticationError("Authentication failed: username not specified")
    if not password:
        raise AuthenticationError("Authentication failed: password not specified")
    if not verify(user, password):
        raise AuthenticationError("Authentication failed: Invalid username or password")
    if authorization_id not in ("", user):
        raise foreign_authorization_id()
    return Identity(user)

"""The types of a SASL exchange, client's side and server's side, and the sentences that the mechanisms share."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol

from kcli.errors import AuthenticationError

#: The client's side. It yields the bytes to send and receives the server's bytes. The first `next` gives the first
#: bytes; it ends after the last bytes of the server. AuthenticationError: the server refused, or its proof is wrong.
ClientExchange = Generator[bytes, bytes, None]


class Identity(NamedTuple):
    """The authenticated client. `final` is the last answer to it."""

    name: str
    final: bytes = b""
    expires_at_wall_ms: int | None = None
    by_token: bool = False
    """True for a delegation token: `name` is its owner."""


#: The server's side. The first `next` yields b""; each `send` of the client's bytes gives the bytes to answer; it ends
#: with the Identity. AuthenticationError: its message is for the client.
ServerExchange = Generator[bytes, bytes, Identity]


class ClientMechanism(Protocol):
    """A mechanism with the client's credentials. One object serves all connections of a client."""

    name: str
    user: str | None
    """The user's name, which is that of the principal; None if only the broker knows it, as with a token."""

    def start(self, host: str) -> ClientExchange:
        """Begin the exchange with the broker at this host."""


def invalid_credentials(mechanism: str) -> AuthenticationError:
    """The one answer to a malformed message, an unknown user and a wrong password, as Kafka words it."""
    return AuthenticationError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )


def foreign_authorization_id() -> AuthenticationError:
    """The answer to a client that wants to act as another user, as Kafka words it."""
    return AuthenticationError(
        "Authentication failed: Client requested an authorization id that is different from username"
    )

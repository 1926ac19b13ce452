"""SASL OAUTHBEARER (RFC 7628, KIP-255): a token of an OAuth provider, with extensions (KIP-342). Both sides.

The token's origin is not known here: a client gives a callable that returns it, a broker one that checks it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from kcli.errors import AuthenticationError, ConfigError
from kcli.secret import Secret
from kcli.security.sasl.exchange import ClientExchange, Identity, ServerExchange, invalid_credentials
from kcli.visible import visible

MECHANISM = "OAUTHBEARER"

_SEPARATOR = "\x01"
_FAILED = b"\x01"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+\Z")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+\Z")
_PAIR = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)\Z")
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)\Z", re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")
_MAX_REASON = 200


class InvalidToken(Exception):
    """A token that a broker does not accept. The text is for the broker's log, not for the client.

    `scope` is the scope that the token lacks, for the status insufficient_scope.
    """

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class OAuthBearerClient:
    """The client's side. `token` returns the token to send, at once, or raises AuthenticationError.

    Raise ConfigError for extensions that the mechanism cannot carry.
    """

    name = MECHANISM
    user: str | None = None

    def __init__(self, token: Callable[[], Secret], extensions: Mapping[str, str]) -> None:
        for name, value in extensions.items():
            if name == "auth" or not _EXTENSION_NAME.match(name):
                raise ConfigError(
                    f"sasl.jaas.config: the extension {name!r} is not valid; use letters A to Z, and not auth"
                )
            if not _EXTENSION_VALUE.match(value):
                raise ConfigError(f"sasl.jaas.config: the value of the extension {name} must be printable ASCII")
        self._token = token
        self._extensions = "".join(f"{name}={value}{_SEPARATOR}" for name, value in extensions.items())

    def start(self, host: str) -> ClientExchange:
        """Begin the exchange: one message, and an empty answer or a refusal in JSON."""
        token = self._token().reveal()
        if not _TOKEN.match(token):
            raise AuthenticationError("SASL OAUTHBEARER: the token is empty or has characters that a token cannot have")
        header = f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}"
        refusal = yield f"{header}{self._extensions}{_SEPARATOR}".encode()
        if not refusal:
            return
        try:
            yield _FAILED  # the broker answers this with an error, which the caller throws into the exchange
        except AuthenticationError as error:
            raise _refused(refusal) from error
        raise _refused(refusal)


def oauthbearer_server(validate: Callable[[str], Identity]) -> ServerExchange:
    """The server's side. `validate` returns the identity of a token, or raises InvalidToken.

    Messages as of Kafka's OAuthBearerSaslServer.
    """
    refusal = b""
    while True:
        message = yield refusal
        if message == _FAILED and refusal:
            raise AuthenticationError(refusal.decode())
        authorization_id, token = _parse_client_message(message)
        try:
            identity = validate(token)
        except InvalidToken as error:
            scope = {} if error.scope is None else {"scope": error.scope}
            refusal = json.dumps({"status": error.status, **scope}, separators=(",", ":")).encode()
            continue
        if authorization_id not in ("", identity.name):
            raise AuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({identity.name})"
            )
        return identity


def _parse_client_message(message: bytes) -> tuple[str, str]:
    """Return the authorisation id and the token."""
    try:
        header, *pairs, end, rest = message.decode("ascii").split(_SEPARATOR)
        flag, authorization_id, empty = header.split(",")
        matches = [_matched(_PAIR, pair) for pair in pairs]
        values = {match["name"]: match["value"] for match in matches}
        token = _matched(_BEARER, values["auth"])["token"]
    except (ValueError, KeyError):
        raise invalid_credentials(MECHANISM) from None
    if flag != "n" or empty or end or rest or not (authorization_id == "" or authorization_id.startswith("a=")):
        raise invalid_credentials(MECHANISM)
    return authorization_id[2:].replace("=2C", ",").replace("=3D", "="), token


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.match(text)
    if match is None:
        raise ValueError("the message is malformed")
    return match


def _refused(refusal: bytes) -> AuthenticationError:
    """The error for a refusal in JSON (RFC 7628, section 3.2.2), whose text comes from the broker."""
    try:
        fields = json.loads(refusal)
        status, scope = fields["status"], fields.get("scope")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        status, scope = "no status", None
    needs = f", it needs the scope {_printable(scope)}" if scope else ""
    cure = "check its expiry, issuer, audience and scope"
    return AuthenticationError(f"SASL OAUTHBEARER: the broker refused the token: {_printable(status)}{needs}; {cure}")


def _printable(text: object) -> str:
    return visible(str(text)[:_MAX_REASON])

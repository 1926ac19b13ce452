"""Tokens of a token endpoint: the grants client_credentials (RFC 6749) and jwt-bearer (RFC 7523, KIP-1139).

Errors name the property and the host, the status, and OAuth's own error. They never show an id's secret, an assertion
or a token, even if the endpoint repeats it.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

from kcli.client.connection.oauth.token_source import Token, TokenUnavailable
from kcli.clock import Clock
from kcli.errors import AuthenticationError, ConfigError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.http_request import HttpAnswer, HttpError, address_of, parse_url, send_request
from kcli.security.security_settings import SecuritySettings

if TYPE_CHECKING:
    from ssl import SSLContext

URL = "sasl.oauthbearer.token.endpoint.url"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

#: Timeouts where sasl.login.connect.timeout.ms and sasl.login.read.timeout.ms are not set. Java waits without an end.
DEFAULT_TIMEOUT_MS = 10_000

_RETRIABLE_STATUS = (408, 425, 429)  # and those from 500 on
_MAX_SHOWN = 200

#: The fields of a request's form, and its header Authorization or None.
Form = Callable[[], tuple[Mapping[str, str], str | None]]


class TokenEndpoint:
    """Requests to the configured endpoint. Calling it retrieves one token. Raise ConfigError for a malformed URL.

    `form` makes the request's fields, for each request anew. `secrets` must not appear in an error.
    """

    def __init__(
        self,
        config: SecuritySettings,
        options: Mapping[str, Secret],
        form: Form,
        clock: Clock,
        secrets: tuple[str, ...] = (),
    ) -> None:
        parts = parse_url(config.sasl_oauthbearer_token_endpoint_url or "")
        if parts is None:
            raise ConfigError(f"{URL} is not a valid URL; use http://HOST/PATH, https://HOST/PATH or file:///PATH")
        self._parts = parts
        self._config = config
        self._options = options
        self._form = form
        self._secrets = secrets
        self._clock = clock
        self._context: SSLContext | None = None

    def __call__(self) -> Token:
        """Request a token."""
        form, authorization = self._form()
        headers = {
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": "kcli",
            "Connection": "close",
        }
        if authorization is not None:
            headers["Authorization"] = authorization
        config = self._config
        try:
            answer = send_request(
                self._parts,
                headers,
                urlencode(form).encode(),
                connect_timeout_ms=config.sasl_login_connect_timeout_ms or DEFAULT_TIMEOUT_MS,
                read_timeout_ms=config.sasl_login_read_timeout_ms or DEFAULT_TIMEOUT_MS,
                tls=self._tls,
            )
        except HttpError as error:
            kind = TokenUnavailable if error.retriable else AuthenticationError
            raise kind(f"{self._name}: {error}") from None
        return self._token_of(answer, self._secrets + tuple(form.get(name, "") for name in _SECRET_FIELDS))

    @property
    def _name(self) -> str:
        return f"OAuth token endpoint {address_of(self._parts)}"

    def _tls(self) -> SSLContext:
        if self._context is None:
            self._context = endpoint_context(self._config, self._options)
        return self._context

    def _token_of(self, answer: HttpAnswer, secrets: tuple[str, ...]) -> Token:
        try:
            fields = json.loads(answer.body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            fields = None
        if not 200 <= answer.status < 300:
            told = "" if fields is None else _oauth_error(fields, secrets)
            problem = f"{self._name} answered with status {answer.status}{told}"
            if answer.status in _RETRIABLE_STATUS or answer.status >= 500:
                raise TokenUnavailable(problem)
            raise AuthenticationError(f"{problem}; check {_CURES.get(answer.status, _DEFAULT_CURE)}")
        if fields is None:
            raise AuthenticationError(f"{self._name}: the answer is not a JSON object; check {URL}")
        text = fields.get("access_token") or fields.get("id_token")
        if not isinstance(text, str) or not text.strip():
            raise AuthenticationError(f"{self._name}: the answer has no access_token{_oauth_error(fields, secrets)}")
        return self._with_expiry(text.strip(), fields.get("expires_in"))

    def _with_expiry(self, text: str, expires_in: object) -> Token:
        """The lifetime in the answer does not depend on the clock of this machine; the token's own expiry does."""
        try:
            lifetime_s = float(expires_in) if isinstance(expires_in, (int, str)) and expires_in is not True else 0.0
        except (ValueError, OverflowError):
            lifetime_s = 0.0
        if 0 < lifetime_s < 1e9:
            return Token(Secret(text), self._clock.wall_ms() + lifetime_s * 1000)
        return token_with_own_expiry(text)


def token_with_own_expiry(text: str) -> Token:
    """Return a token that expires with its claim exp, or not at all."""
    expires_at_s = jwt.expiry(text)
    return Token(Secret(text), None if expires_at_s is None else expires_at_s * 1000)


def basic_authorization(client_id: str, client_secret: str, *, urlencoded: bool) -> str:
    """Return the header of RFC 6749, section 2.3.1; Java leaves out its URL-encoding by default, and so does kcli."""
    if urlencoded:
        client_id, client_secret = quote_plus(client_id), quote_plus(client_secret)
    return f"Basic {b2a_base64(f'{client_id}:{client_secret}'.encode(), newline=False).decode()}"


def endpoint_context(config: SecuritySettings, options: Mapping[str, Secret]) -> SSLContext:
    """Return the TLS context for the token endpoint.

    Options `ssl.*` of the login module count alone, as in Java, or else librdkafka's `https.ca.*`. Without them the
    properties of the brokers' connections hold, and the system's certificates are trusted too: an endpoint often has a
    public certificate where the brokers have a private one. The host name is checked in any case.
    """
    from kcli.security.tls import client_context

    own: dict[str, Any] = {name: value for name, value in options.items() if name.startswith("ssl.")}
    if own:
        return client_context(SecuritySettings.from_properties(own))
    if config.https_ca_location not in (None, "", "probe") or config.https_ca_pem is not None:
        trusted = {
            "ssl.truststore.location": config.https_ca_location,
            "ssl.truststore.certificates": config.https_ca_pem,
        }
        return client_context(SecuritySettings.from_properties(trusted))
    given = {name: value for name, value in config.given.items() if name.startswith("ssl.")}
    given["ssl.endpoint.identification.algorithm"] = "https"
    context = client_context(SecuritySettings.from_properties(given))
    context.load_default_certs()
    return context


_SECRET_FIELDS = ("assertion", "client_assertion", "client_secret")
_DEFAULT_CURE = f"{URL} and the scope"
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client.id and .client.secret (or clientId and clientSecret)"
_CURES = {400: f"{_CREDENTIALS}, and the scope", 401: _CREDENTIALS, 403: _CREDENTIALS, 404: URL, 405: URL}


def _oauth_error(fields: Mapping[str, Any], secrets: tuple[str, ...]) -> str:
    """The error of an answer (RFC 6749, section 5.2; the second pair is Okta's) as the end of a sentence."""
    for code, description in (("error", "error_description"), ("errorCode", "errorSummary")):
        told = [_shown(fields[name], secrets) for name in (code, description) if isinstance(fields.get(name), str)]
        if told:
            return f": {': '.join(told)}"
    return ""


def _shown(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        for form in (secret, quote_plus(secret)) if secret else ():
            text = text.replace(form, "[hidden]")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."

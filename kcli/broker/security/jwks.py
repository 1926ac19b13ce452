"""Tokens of OAUTHBEARER listeners: checked with the keys of a JSON Web Key Set, or unsecured ones for tests.

As in Kafka, `sasl.oauthbearer.jwks.endpoint.url` names a file or a URL. The key set is read when the listener is made,
which fails with it, and again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, or when a token names an unknown key;
a file is read again when it has changed. A URL is read in a thread, and the old keys serve meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kcli.clock import Clock
from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.http_request import HttpError, address_of, parse_url, send_request
from kcli.security.jwt import ClaimRules, InvalidJwt, check_claims, decode
from kcli.security.sasl.exchange import Identity
from kcli.security.sasl.oauthbearer import InvalidToken
from kcli.security.security_settings import SecuritySettings

if TYPE_CHECKING:
    from ssl import SSLContext

    from kcli.broker.security.listeners import ListenerSettings

URL = "sasl.oauthbearer.jwks.endpoint.url"

_UNSECURED = "unsecuredValidator"
_TIMEOUT_MS = 10_000
_UNKNOWN_KEY_PAUSE_MS = 1000  # between reads of a URL for tokens with unknown keys, so that clients cannot cause many

#: Return the identity of a token, or raise InvalidToken.
Validate = Callable[[str], Identity]


def token_validator(settings: ListenerSettings, options: Mapping[str, Secret], clock: Clock) -> Validate:
    """Return the check of a listener's tokens. `options` are those of its login module.

    Without a key set, tokens are unsecured, unless the validator of signed ones is configured. ConfigError for a key
    set that cannot be read.
    """
    handler = (settings.sasl_server_callback_handler_class or "").rpartition(".")[2]
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    if url is None:
        if handler == "OAuthBearerValidatorCallbackHandler":
            raise ConfigError(f"{URL} is not set; OAuthBearerValidatorCallbackHandler needs it")
        return _unsecured_validator(options, clock)
    key_set = KeySet(url, settings, options, clock)
    rules = ClaimRules(
        settings.sasl_oauthbearer_expected_audience or (),
        settings.sasl_oauthbearer_expected_issuer,
        settings.sasl_oauthbearer_sub_claim_name,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_clock_skew_seconds,
    )

    def validate(token: str) -> Identity:
        try:
            decoded = decode(token)
            key_set.verify(decoded)
            claims = check_claims(decoded.claims, rules, clock.wall_ms() / 1000)
        except InvalidJwt as error:
            raise InvalidToken(str(error)) from None
        return Identity(claims.subject, expires_at_wall_ms=int(claims.expires_at * 1000))

    return validate


class KeySet:
    """The public keys of a file or of a URL. Raise ConfigError, with the property, if the first read fails."""

    def __init__(self, url: str, settings: ListenerSettings, options: Mapping[str, Secret], clock: Clock) -> None:
        jwt.require_cryptography(URL, "to verify tokens")
        self._settings = settings
        self._options = options
        self._clock = clock
        self._lock = threading.Lock()
        self._is_reading = False
        self._failures = 0
        self._file: str | None = None
        self._parts = None
        self._context: SSLContext | None = None
        if url.lower().startswith("file:"):
            self._file = unquote(urlsplit(url).path)
            self._version = self._file_version()
        else:
            self._parts = parse_url(url)
            if self._parts is None:
                raise ConfigError(f"{URL} is not a valid URL; use file:///PATH, https://HOST/PATH or http://HOST/PATH")
        try:
            self._keys = self._read()
        except (InvalidJwt, HttpError, OSError) as error:
            raise ConfigError(f"{URL}: {self._name}: {_problem(error)}") from None
        self._read_again_ms = clock.now_ms() + settings.sasl_oauthbearer_jwks_endpoint_refresh_ms
        self._unknown_again_ms = clock.now_ms()

    def __repr__(self) -> str:
        return f"<KeySet {self._name} keys={len(self._keys)}>"

    def verify(self, token: jwt.Jwt) -> None:
        """Check the signature with the key that the token names, or with all if it names none. Raise InvalidJwt."""
        now_ms = self._clock.now_ms()
        self._refresh(now_ms)
        key_id = token.header.get("kid")
        keys = [key for known_id, key in self._keys if key_id is None or known_id == key_id]
        if not keys:
            self._refresh_for_unknown(now_ms)
            raise InvalidJwt("the key of the token (header kid) is not in the key set")
        error = InvalidJwt("the key set is empty")
        for key in keys:
            try:
                jwt.verify(token, key)
            except InvalidJwt as failed:
                error = failed
            else:
                return
        raise error

    @property
    def _name(self) -> str:
        return repr(self._file) if self._parts is None else address_of(self._parts)

    def _refresh(self, now_ms: float) -> None:
        if self._file is not None:
            version = self._file_version()
            if version != self._version:
                self._version = version
                self._read_and_keep()
        elif now_ms >= self._read_again_ms:
            self._start_reading()

    def _refresh_for_unknown(self, now_ms: float) -> None:
        if self._file is None and now_ms >= self._unknown_again_ms:
            self._start_reading()

    def _start_reading(self) -> None:
        with self._lock:
            if self._is_reading:
                return
            self._is_reading = True
        _in_thread(self._read_and_keep)

    def _read_and_keep(self) -> None:
        """Replace the keys. After a failure keep the old ones, and try again after the backoff."""
        settings = self._settings
        pause_ms = float(settings.sasl_oauthbearer_jwks_endpoint_refresh_ms)
        try:
            self._keys = self._read()
            self._failures = 0
        except (InvalidJwt, HttpError, OSError):
            self._failures += 1
            backoff_ms = settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms * 2.0 ** min(self._failures - 1, 30)
            pause_ms = min(backoff_ms, settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms)
        now_ms = self._clock.now_ms()
        self._read_again_ms = now_ms + pause_ms
        self._unknown_again_ms = now_ms + _UNKNOWN_KEY_PAUSE_MS
        self._is_reading = False

    def _read(self) -> list[tuple[str | None, Any]]:
        if self._parts is None:
            with open(self._file or "", "rb") as file:
                return jwt.parse_key_set(file.read())
        answer = send_request(
            self._parts,
            {"Accept": "application/json", "User-Agent": "kcli", "Connection": "close"},
            None,
            connect_timeout_ms=_TIMEOUT_MS,
            read_timeout_ms=_TIMEOUT_MS,
            tls=self._tls,
        )
        if answer.status != 200:
            raise HttpError(f"it answered with status {answer.status}")
        return jwt.parse_key_set(answer.body)

    def _tls(self) -> SSLContext:
        """The context of options `ssl.*` of the login module, as in Kafka; by default the system's certificates."""
        if self._context is None:
            from kcli.security.tls import client_context

            own = {name: value for name, value in self._options.items() if name.startswith("ssl.")}
            self._context = client_context(SecuritySettings.from_properties(own))
        return self._context

    def _file_version(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._file or "")
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="kcli-jwks", daemon=True).start()


def _problem(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)


def _unsecured_validator(options: Mapping[str, Secret], clock: Clock) -> Validate:
    """The check of Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, with its options."""
    texts = {name.removeprefix(_UNSECURED): value.reveal() for name, value in options.items()}
    subject_claim = texts.get("PrincipalClaimName", "sub")
    skew_ms = texts.get("AllowableClockSkewMs", "0")
    if not skew_ms.isdecimal():
        raise ConfigError("sasl.jaas.config: the option unsecuredValidatorAllowableClockSkewMs is not a number")
    rules = ClaimRules((), None, subject_claim, texts.get("ScopeClaimName", "scope"), int(skew_ms) / 1000)
    required = texts.get("RequiredScope", "").split()

    def validate(token: str) -> Identity:
        now_s = clock.wall_ms() / 1000
        try:
            decoded = decode(token)
            jwt.check_critical(decoded)
            if decoded.header.get("alg") != "none" or decoded.signature:
                raise InvalidJwt("the token is signed, but this listener expects unsecured tokens")
            # Unlike a signed token, it needs no time of issue, and its audience does not matter.
            claims = check_claims({"iat": 0, **decoded.claims, "aud": None}, rules, now_s)
        except InvalidJwt as error:
            raise InvalidToken(str(error)) from None
        if not set(required) <= set(claims.scopes):
            raise InvalidToken("a scope is missing", "insufficient_scope", f"[{', '.join(required)}]")
        return Identity(claims.subject, expires_at_wall_ms=int(claims.expires_at * 1000))

    return validate

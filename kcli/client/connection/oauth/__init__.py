"""OAuth tokens for SASL OAUTHBEARER (KIP-255, KIP-768, KIP-1139): where they come from, and when they are replaced.

`token_source` reads the configuration and returns a `TokenSource`, one for all connections of a client. It retrieves
the token in a thread, so that the client's loop never waits for an endpoint: `start` it, look at `is_settled`, and take
the `token`. Retrievers are callables: `endpoint` has those of a token endpoint, `assertion` what they sign.

**Non-obvious**

- The first token decides: if the endpoint does not answer, that is an AuthenticationError, after retries for
  `sasl.login.retry.backoff.max.ms`. Later failures are retriable, and the old token serves until it expires.
- A token need not be a JWT. Its lifetime is `expires_in` of the answer, else its claim `exp`.
- Properties win over the options of the login module, as in Java. `sasl.login.callback.handler.class` is not needed:
  a token endpoint means its tokens, options `unsecuredLogin...` mean unsecured tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from kcli.client.connection.oauth.assertion import Assertion, read_text
from kcli.client.connection.oauth.endpoint import (
    CLIENT_ASSERTION,
    JWT_BEARER,
    URL,
    TokenEndpoint,
    basic_authorization,
    token_with_own_expiry,
)
from kcli.client.connection.oauth.token_source import Retrieve, Token, TokenSource, TokenUnavailable
from kcli.clock import Clock, SystemClock
from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.jaas import parse_jaas
from kcli.security.security_settings import SecuritySettings

__all__ = ["Token", "TokenSource", "TokenUnavailable", "token_source"]

_UNSECURED = "unsecuredLogin"
_UNSECURED_LIFETIME_S = 3600
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"


def token_source(config: SecuritySettings, clock: Clock | None = None) -> TokenSource:
    """Return the source of a client's tokens. Raise ConfigError if a property or an option is missing or malformed."""
    clock = clock or SystemClock()
    options = {} if config.sasl_jaas_config is None else parse_jaas(config.sasl_jaas_config.reveal()).options
    return TokenSource(_retriever(config, options, clock), config, clock)


def _retriever(config: SecuritySettings, options: Mapping[str, Secret], clock: Clock) -> Retrieve:
    handler = (config.sasl_login_callback_handler_class or "").rpartition(".")[2]
    url = config.sasl_oauthbearer_token_endpoint_url
    is_unsecured = any(name.startswith(_UNSECURED) for name in options)
    if handler == "OAuthBearerUnsecuredLoginCallbackHandler" or (is_unsecured and not handler):
        return lambda: _unsecured_token(options, clock)
    if config.sasl_oauthbearer_jwt_retriever_class.endswith(".JwtBearerJwtRetriever"):
        return _jwt_bearer(config, options, clock)
    if url is None:
        raise ConfigError(f"{URL} is not set; SASL OAUTHBEARER needs a token endpoint, or a file with a token")
    if url.lower().startswith("file:"):
        file = unquote(urlsplit(url).path)
        return lambda: _token_of_file(file)
    if config.sasl_oauthbearer_jwt_retriever_class.endswith(".FileJwtRetriever"):
        raise ConfigError(f"{URL} is not a file; FileJwtRetriever needs file:///PATH")
    return _client_credentials(config, options, clock)


def _client_credentials(config: SecuritySettings, options: Mapping[str, Secret], clock: Clock) -> Retrieve:
    scope = _scope(config, options)
    client_id = config.sasl_oauthbearer_client_credentials_client_id or _text(options, "clientId")
    has_claims = config.sasl_oauthbearer_assertion_claim_iss is not None
    if config.sasl_oauthbearer_assertion_file is not None or has_claims:
        assertion = Assertion(config, clock)
        own = {"client_id": client_id} if client_id else {}
        return TokenEndpoint(
            config,
            options,
            lambda: (
                {
                    "grant_type": "client_credentials",
                    "client_assertion_type": CLIENT_ASSERTION,
                    "client_assertion": assertion().reveal(),
                    **own,
                    **scope,
                },
                None,
            ),
            clock,
        )
    given = config.sasl_oauthbearer_client_credentials_client_secret
    client_secret = given.reveal() if given is not None else _text(options, "clientSecret")
    for name, option, value in ((_CLIENT_ID, "clientId", client_id), (_CLIENT_SECRET, "clientSecret", client_secret)):
        if not value:
            raise ConfigError(f"{name} is not set; set it, or the option {option} of sasl.jaas.config")
    authorization = basic_authorization(
        client_id or "", client_secret or "", urlencoded=config.sasl_oauthbearer_header_urlencode
    )
    secrets = (client_secret or "", authorization.partition(" ")[2])
    form = {"grant_type": "client_credentials", **scope}
    return TokenEndpoint(config, options, lambda: (form, authorization), clock, secrets)


def _jwt_bearer(config: SecuritySettings, options: Mapping[str, Secret], clock: Clock) -> Retrieve:
    assertion = Assertion(config, clock)
    scope = _scope(config, options)
    return TokenEndpoint(
        config,
        options,
        lambda: ({"grant_type": JWT_BEARER, "assertion": assertion().reveal(), **scope}, None),
        clock,
    )


def _scope(config: SecuritySettings, options: Mapping[str, Secret]) -> dict[str, str]:
    scope = config.sasl_oauthbearer_scope or _text(options, "scope")
    return {"scope": scope} if scope else {}


def _text(options: Mapping[str, Secret], name: str) -> str | None:
    secret = options.get(name)
    return secret.reveal() if secret else None


def _token_of_file(file: str) -> Token:
    text = read_text(URL, file).strip()
    if not text:
        raise ConfigError(f"{URL}: {file!r} is empty; it must have a token")
    return token_with_own_expiry(text)


def _unsecured_token(options: Mapping[str, Secret], clock: Clock) -> Token:
    """Make a token without signature from the options that Kafka's OAuthBearerUnsecuredLoginCallbackHandler has."""
    texts = {name.removeprefix(_UNSECURED): value.reveal() for name, value in options.items()}
    claims: dict[str, Any] = {}
    for name, value in texts.items():
        kind, _, claim = name.partition("_")
        if kind == "StringClaim":
            claims[claim] = value
        elif kind == "NumberClaim":
            claims[claim] = _number(claim, value)
        elif kind == "ListClaim":
            claims[claim] = [part for part in value[1:].split(value[:1]) if part] if value else []
    if not claims.get(texts.get("PrincipalClaimName", "sub")):
        raise ConfigError("sasl.jaas.config: the option unsecuredLoginStringClaim_sub is missing; it names the user")
    lifetime_s = _number("LifetimeSeconds", texts.get("LifetimeSeconds", str(_UNSECURED_LIFETIME_S)))
    now_s = clock.wall_ms() / 1000
    text = jwt.unsecured({"iat": now_s, "exp": now_s + lifetime_s, **claims})
    return Token(text, (now_s + lifetime_s) * 1000)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"sasl.jaas.config: the option for {name} of the unsecured token is not a number") from None

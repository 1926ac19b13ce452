"""SASL mechanisms, one module each with both sides: generators that yield the bytes to send and receive the answers.

`client_mechanism` makes the client's side of the configured mechanism. A broker calls the server's side of the one that
its client named: `plain.plain_server`, `scram.scram_server`, `oauthbearer.oauthbearer_server`. An exchange has no
frames: the caller carries its bytes in SaslAuthenticate, and drives it like this::

    message = next(exchange)                    # client          next(exchange)                 # server
    while True:                                 #                 answer = exchange.send(bytes)  # StopIteration:
        message = exchange.send(answer)         #                                                # value is the Identity
    # StopIteration: authenticated

**Non-obvious**

- A server's AuthenticationError is the text that the client gets, in Kafka's words. It does not tell an unknown user
  from a wrong password.
- A client's exchange raises AuthenticationError for a broker that cannot prove that it knows the password: a refusal
  by the client, too, ends the connection.
- The client parses the JAAS text once, in `client_mechanism`. `ScramClient` keeps the salted password, so that the next
  connection to a broker of the cluster costs no PBKDF2.
"""

from __future__ import annotations

from collections.abc import Callable

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.jaas import JaasEntry, parse_jaas
from kcli.security.sasl.exchange import ClientExchange, ClientMechanism, Identity, ServerExchange
from kcli.security.security_settings import SecuritySettings

__all__ = ["ClientExchange", "ClientMechanism", "Identity", "ServerExchange", "client_mechanism"]


def client_mechanism(config: SecuritySettings, token: Callable[[], Secret] | None = None) -> ClientMechanism:
    """Return the client's side of `sasl.mechanism`. Raise ConfigError if a property or an option is missing.

    `token` is for OAUTHBEARER: it returns the token for the next exchange, at once.
    """
    name = config.sasl_mechanism
    if name == "PLAIN":
        from kcli.security.sasl.plain import PlainClient

        return PlainClient(_login(config))
    if name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        from kcli.security.sasl.scram import ScramClient

        return ScramClient(name, _login(config))
    if name == "OAUTHBEARER" and token is not None:
        from kcli.security.sasl.oauthbearer import OAuthBearerClient

        return OAuthBearerClient(token, login_extensions(config))
    if name == "GSSAPI":
        from kcli.security.sasl.gssapi import GssapiClient

        return GssapiClient(config, _login(config))
    if name == "AWS_MSK_IAM":
        from kcli.security.sasl.aws_msk_iam import AwsMskIamClient

        return AwsMskIamClient(_login(config))
    raise ConfigError(f"sasl.mechanism: kcli does not have {name}")


def login_extensions(config: SecuritySettings) -> dict[str, str]:
    """Return the SASL extensions of the login module's options, by name (KIP-342)."""
    if config.sasl_jaas_config is None:
        return {}
    extensions = {}
    for option, value in _login(config).options.items():
        for prefix in ("extension_", "unsecuredLoginExtension_"):
            if option.startswith(prefix):
                extensions[option[len(prefix) :]] = value.reveal()
    return extensions


def _login(config: SecuritySettings) -> JaasEntry:
    if config.sasl_jaas_config is None:
        raise ConfigError(f"sasl.jaas.config is not set; {config.sasl_mechanism} takes its credentials from it")
    return parse_jaas(config.sasl_jaas_config.reveal())

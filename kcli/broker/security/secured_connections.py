"""TLS and SASL of one listener: what a new connection on it needs."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.security.authenticator import AnswerVersions, Authenticator, ServerMechanism
from kcli.broker.security.principals import PrincipalMapping
from kcli.broker.serving.request_context import ANONYMOUS
from kcli.errors import ConfigError
from kcli.network.transport import PlainTransport, Transport
from kcli.secret import Secret
from kcli.security.jaas import JaasEntry, parse_jaas
from kcli.security.sasl.exchange import ServerExchange
from kcli.security.sasl.scram import ScramCredential, scram_server
from kcli.text import format_alternatives

if TYPE_CHECKING:
    import ssl

    from kcli.broker.security.credentials import Credentials
    from kcli.broker.security.delegation_tokens import DelegationTokens
    from kcli.broker.security.listeners import Endpoint, ListenerSettings
    from kcli.clock import Clock

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")

_USER = "user_"


class ListenerSecurity:
    """The security of one listener that is not PLAINTEXT."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ListenerSettings,
        credentials: Credentials,
        tokens: DelegationTokens,
        clock: Clock,
        answer_versions: AnswerVersions,
    ) -> None:
        """Make the TLS context and the mechanisms. ConfigError, with the property, if one cannot be made.

        SCRAM users in the JAAS text of a mechanism, `user_NAME="PASSWORD"`, are created, as PLAIN has them.
        """
        self.endpoint = endpoint
        self.max_receive_bytes = settings.sasl_server_max_receive_size if endpoint.has_sasl else None
        self._credentials = credentials
        self._tokens = tokens
        self._clock = clock
        self._answer_versions = answer_versions
        self._mapping = PrincipalMapping(settings.ssl_principal_mapping_rules)
        self._context = self._tls_context(settings) if endpoint.has_tls else None
        self._mechanisms = {
            name: self._mechanism(name, settings.of_mechanism(name))
            for name in settings.sasl_enabled_mechanisms
            if endpoint.has_sasl
        }

    def __repr__(self) -> str:
        return f"<ListenerSecurity {self.endpoint.name} {self.endpoint.protocol} {','.join(self._mechanisms)}>"

    def transport(self, sock: socket.socket) -> Transport:
        """Return the transport of an accepted socket."""
        if self._context is None:
            return PlainTransport(sock)
        from kcli.network.tls_transport import TlsTransport

        return TlsTransport(sock, self._context, server_side=True)

    def authenticator(self) -> Authenticator | None:
        """Return the SASL state of a new connection; None without SASL."""
        return Authenticator(self._mechanisms, self._answer_versions) if self.endpoint.has_sasl else None

    def principal(self, transport: Transport) -> str | None:
        """Return the principal of a connection whose TLS handshake is complete; None if no rule applies to its name."""
        certificate: bytes | None = getattr(transport, "peer_certificate", None)
        if certificate is None:
            return ANONYMOUS
        from kcli.network.certificate import parse_certificate

        try:
            user = self._mapping.name(parse_certificate(certificate).subject)
        except ValueError:
            return None
        return None if user is None else f"User:{user}"

    def _tls_context(self, settings: ListenerSettings) -> ssl.SSLContext:
        from kcli.security.tls import server_context

        # With SASL, a client certificate is asked for only if the listener's own property says so (KIP-684).
        is_asked = self.endpoint.protocol == "SSL" or "ssl.client.auth" in settings.of_this_listener
        return server_context(settings, settings.ssl_client_auth if is_asked else "none")

    def _mechanism(self, name: str, settings: ListenerSettings) -> ServerMechanism:
        starts: dict[str, Callable[[], Callable[[], ServerExchange]]] = {
            "PLAIN": lambda: self._plain(settings),
            "OAUTHBEARER": lambda: self._oauthbearer(settings),
            **{scram: lambda: self._scram(name, settings) for scram in SCRAM_MECHANISMS},
        }
        if name not in starts:
            raise ConfigError(
                f"sasl.enabled.mechanisms: this broker does not support {name} on listener {self.endpoint.name}; use "
                f"{format_alternatives(MECHANISMS)}"
            )
        try:
            return ServerMechanism(starts[name](), settings.connections_max_reauth_ms)
        except ConfigError as error:
            if not error.message.startswith("sasl."):
                raise
            raise ConfigError(f"listener.name.{self.endpoint.name.lower()}.{name.lower()}.{error.message}") from None

    def _plain(self, settings: ListenerSettings) -> Callable[[], ServerExchange]:
        from hmac import compare_digest

        from kcli.security.sasl.plain import plain_server

        login = _login(settings)
        if login is None:
            raise ConfigError('sasl.jaas.config is not set; it has the users, as user_NAME="PASSWORD"')
        users = _users(login)

        def verify(user: str, password: str) -> bool:
            known = users.get(user)
            return known is not None and compare_digest(known.reveal().encode(), password.encode())

        return lambda: plain_server(verify)

    def _scram(self, mechanism: str, settings: ListenerSettings) -> Callable[[], ServerExchange]:
        login = _login(settings)
        if login is not None:
            self._credentials.ensure(mechanism, _users(login))

        def lookup(user: str, is_token: bool) -> ScramCredential | None:
            if is_token:
                return self._tokens.credential(mechanism, user, self._clock.wall_ms())
            return self._credentials.credential(mechanism, user)

        return lambda: scram_server(mechanism, lookup)

    def _oauthbearer(self, settings: ListenerSettings) -> Callable[[], ServerExchange]:
        from kcli.broker.security.jwks import token_validator
        from kcli.security.sasl.oauthbearer import oauthbearer_server

        login = _login(settings)
        validate = token_validator(settings, {} if login is None else login.options, self._clock)
        return lambda: oauthbearer_server(validate)


def _login(settings: ListenerSettings) -> JaasEntry | None:
    text = settings.sasl_jaas_config
    return None if text is None else parse_jaas(text.reveal())


def _users(login: JaasEntry) -> dict[str, Secret]:
    return {name.removeprefix(_USER): secret for name, secret in login.options.items() if name.startswith(_USER)}

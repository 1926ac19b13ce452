"""The security of a client's connections, TLS and SASL. `connect` imports it if security.protocol is not PLAINTEXT."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.client.connection.authentication import authenticate, one_line
from kcli.network.transport import PlainTransport, Transport, TransportFactory

if TYPE_CHECKING:
    from ssl import SSLContext

    from kcli.client.config import ClientConfig
    from kcli.client.connection.api_versions import Versions
    from kcli.client.connection.authentication import Steps
    from kcli.client.connection.oauth import TokenSource
    from kcli.security.sasl import ClientExchange, ClientMechanism


# The first message of these needs the answer of a KDC or of AWS.
_ASKS_OTHERS = ("GSSAPI", "AWS_MSK_IAM")


class ClientSecurity:
    """The TLS context and the SASL mechanism of one client. All its connections share them.

    Raise ConfigError for a key store, a certificate or a JAAS text that cannot be used, before any connection is made.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.protocol = config.security_protocol
        self._context: SSLContext | None = None
        self._mechanism: ClientMechanism | None = None
        self._notify: Callable[[], None] = lambda: None
        self._tokens: TokenSource | None = None
        if self.protocol in ("SSL", "SASL_SSL"):
            from kcli.security.tls import client_context

            self._context = client_context(config)
        if self.protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
            from kcli.security.sasl import client_mechanism

            if config.sasl_mechanism == "GSSAPI":
                from kcli.client.external_values import use_kerberos_file_of_java

                use_kerberos_file_of_java(os.environ)
            if config.sasl_mechanism == "OAUTHBEARER":
                from kcli.client.connection.oauth import token_source

                self._tokens = token_source(config)
            self._mechanism = client_mechanism(config, None if self._tokens is None else self._tokens.token)

    @property
    def principal(self) -> str | None:
        """The principal that brokers see, such as "User:alice"; None if only they know it."""
        user = None if self._mechanism is None else self._mechanism.user
        return None if user is None else f"User:{user}"

    def __repr__(self) -> str:
        return f"<ClientSecurity {self.protocol}{f' {self.mechanism}' if self.mechanism else ''}>"

    @property
    def mechanism(self) -> str | None:
        """The name of the SASL mechanism; None without SASL."""
        return None if self._mechanism is None else self._mechanism.name

    @property
    def uses_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return self._context is not None

    def describe(self, transport: Transport | None) -> str:
        """Return how a connection is secured: TLS version and cipher, mechanism and principal. No secrets."""
        tls = getattr(transport, "protection", "TLS") if self._context is not None else "no TLS"
        if self._mechanism is None:
            return tls
        principal = f" as {one_line(self.principal)}" if self.principal else ""
        return f"{tls}, SASL {self._mechanism.name}{principal}"

    def transport(self, host: str) -> TransportFactory:
        """Return the transport of connections to a host name, which TLS compares with the certificate."""
        context = self._context
        if context is None:
            return PlainTransport
        from kcli.network.tls_transport import TlsTransport

        return lambda sock: TlsTransport(sock, context, server_hostname=host)

    def authentication(self, host: str, versions: Versions) -> Steps:
        """Return the steps of SASL with the broker at `host`: those of `authenticate`.

        A step of None means that an OAuth token, a Kerberos ticket or AWS credentials are not there yet: go on after a
        call of `on_progress`'s callable.
        """
        mechanism = self._mechanism
        assert mechanism is not None
        if self._tokens is not None:
            self._tokens.start()
            while not self._tokens.is_settled():
                yield None
        if mechanism.name in _ASKS_OTHERS:
            begun = BegunExchange(mechanism, host, self._notify)
            while not begun.is_done:
                yield None
            mechanism = begun
        return (yield from authenticate(mechanism, host, versions, protocol=self.protocol))

    def on_progress(self, notify: Callable[[], None]) -> None:
        """Let another thread call `notify` whenever a handshake that waits beside its connection can go on."""
        self._notify = notify
        if self._tokens is not None:
            self._tokens.notify = notify

    def close(self) -> None:
        """End the thread that renews OAuth tokens."""
        if self._tokens is not None:
            self._tokens.close()


class BegunExchange:
    """The exchange of a mechanism with its first message, which a thread makes. Itself a mechanism for one connection.

    The thread is a daemon: a KDC that does not answer keeps no process from ending.
    """

    def __init__(self, mechanism: ClientMechanism, host: str, notify: Callable[[], None]) -> None:
        self.name = mechanism.name
        self.user = mechanism.user
        self.is_done = False
        self._begun: tuple[ClientExchange, bytes] | BaseException | None = None
        threading.Thread(target=self._begin, args=(mechanism, host, notify), name="kcli-sasl", daemon=True).start()

    def __repr__(self) -> str:
        return f"<BegunExchange {self.name}{'' if self.is_done else ' waiting'}>"

    def _begin(self, mechanism: ClientMechanism, host: str, notify: Callable[[], None]) -> None:
        try:
            exchange = mechanism.start(host)
            self._begun = exchange, next(exchange)
        except BaseException as error:
            self._begun = error
        self.is_done = True
        notify()

    def start(self, host: str) -> ClientExchange:
        """Go on with the first message. Raise the error with which the thread ended."""
        if isinstance(self._begun, BaseException):
            raise self._begun
        assert self._begun is not None
        exchange, message = self._begun
        while True:
            answer = yield message
            try:
                message = exchange.send(answer)
            except StopIteration:
                return

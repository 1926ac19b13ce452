"""A connection to each bootstrap server, made step by step, to find the step that fails: for `kcli profile check`.

The steps are those that the client itself goes through, with the same selector, transport and handshakes: DNS, TCP,
TLS, ApiVersions, SASL. Nothing is repeated, and no step is left out because an earlier connection succeeded.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.config import ClientConfig, parse_bootstrap
from kcli.client.connection import api_versions
from kcli.client.connection.connections import Resolve, address_of
from kcli.clock import Clock
from kcli.errors import AuthenticationError, DisconnectedError, KcliError, ProtocolError, TimeoutExpired
from kcli.host_names import resolve
from kcli.network.selector import Selector
from kcli.network.transport import PlainTransport, SocketAddress, Transport, finish_connect, format_address
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.registry import response_type
from kcli.security.registry_settings import RegistrySettings
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.connection.api_versions import Versions
    from kcli.client.connection.authentication import Steps
    from kcli.client.connection.security import ClientSecurity
    from kcli.network.certificate import Certificate
    from kcli.security.security_settings import SecuritySettings

#: Facts of a step for programs: JSON-ready values.
Facts = dict[str, Any]

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
_CONNECTION = "check"
_HANDSHAKE_KEY = 17


class Step(NamedTuple):
    """The outcome of one step. `server` is the bootstrap server; None: the step concerns all of them.

    `detail` is for people, `facts` for programs. A step with an `error` failed; one without a detail was skipped.
    """

    name: str
    server: str | None = None
    detail: str | None = None
    error: KcliError | None = None
    facts: Mapping[str, Any] = {}

    @property
    def status(self) -> str:
        if self.error is not None:
            return FAILED
        return SKIPPED if self.detail is None else OK


def check_servers(
    config: ClientConfig, clock: Clock, deadline_ms: float, *, resolve: Resolve = resolve
) -> Iterator[Step]:
    """Yield the steps of the configuration, then those of each bootstrap server, as they are done.

    The steps after one that failed are skipped. Errors are values, except ConfigError for malformed bootstrap servers.
    """
    servers = [Node(-1 - n, host, port) for n, (host, port) in enumerate(parse_bootstrap(config.bootstrap_servers))]
    security: ClientSecurity | None = None
    try:
        security = _security(config)
        facts = {"protocol": config.security_protocol, "warnings": security_warnings(config)}
        yield Step("configuration", None, _configured(config, security), facts=facts)
    except KcliError as error:
        yield Step("configuration", error=error)
    else:
        if (own := _own_certificate(config)) is not None:
            yield own
        try:
            for server in servers:
                yield from _ServerCheck(config, security, server, clock, deadline_ms, resolve).steps()
        finally:
            if security is not None:
                security.close()


def _security(config: ClientConfig) -> ClientSecurity | None:
    if config.security_protocol == "PLAINTEXT":
        return None
    from kcli.client.connection.security import ClientSecurity

    return ClientSecurity(config)


def _configured(config: ClientConfig, security: ClientSecurity | None) -> str:
    parts = [config.security_protocol]
    if security is not None and security.mechanism is not None:
        parts.append(security.mechanism)
    if security is not None and security.principal is not None:
        parts.append(security.principal)
    return ", ".join(parts)


_SENT = {"PLAIN": "password", "OAUTHBEARER": "token"}


def security_warnings(config: ClientConfig) -> list[str]:
    """Return a sentence for each setting by which others can read the credentials or act as the server. Pure."""
    warnings = []
    sent = _SENT.get(config.sasl_mechanism)
    if config.security_protocol == "SASL_PLAINTEXT" and sent is not None:
        setting = f"security.protocol=SASL_PLAINTEXT with sasl.mechanism={config.sasl_mechanism}"
        warnings.append(f"{setting} sends the {sent} unencrypted; use SASL_SSL")
    endpoint = (config.sasl_oauthbearer_token_endpoint_url or "").lower()
    asks_endpoint = config.uses_sasl and config.sasl_mechanism == "OAUTHBEARER"
    if asks_endpoint and endpoint.startswith("http:"):
        warnings.append(
            "sasl.oauthbearer.token.endpoint.url begins with http: the client's secret is sent unencrypted; use https"
        )
    if config.uses_tls or (asks_endpoint and endpoint.startswith("https:")):
        warnings += _unverified(config, "")
    return warnings + _registry_warnings(config)


def _registry_warnings(config: ClientConfig) -> list[str]:
    try:
        registry = RegistrySettings.from_properties(config.given)
    except KcliError:  # reported by the commands that use the registry
        return []
    warnings = []
    has_credentials = registry.user_info is not None or registry.bearer_auth_token is not None
    if has_credentials and any(url.lower().startswith("http:") for url in registry.urls):
        warnings.append(
            "schema.registry.url begins with http: the registry's credentials are sent unencrypted; use https"
        )
    if any(url.lower().startswith("https:") for url in registry.urls):
        warnings += _unverified(registry.tls, "schema.registry.")
    return warnings


def _unverified(config: SecuritySettings, prefix: str) -> list[str]:
    if not config.enable_ssl_certificate_verification:
        return [f"{prefix}enable.ssl.certificate.verification=false: any certificate is accepted, also a forged one"]
    if not config.ssl_endpoint_identification_algorithm:
        return [f"{prefix}ssl.endpoint.identification.algorithm is empty: the certificate of any host is accepted"]
    return []


def _own_certificate(config: ClientConfig) -> Step | None:
    """Return the step for the certificate of the key store; None without TLS or a key store."""
    if "SSL" not in config.security_protocol.split("_"):
        return None
    from ssl import PEM_cert_to_DER_cert

    from kcli.security.key_stores import load_key_store

    material = load_key_store(config)
    if material is None:
        return None
    end = "-----END CERTIFICATE-----"
    first = material.certificates_pem[material.certificates_pem.index("-----BEGIN CERTIFICATE-----") :]
    certificate = _parsed(PEM_cert_to_DER_cert(first[: first.index(end) + len(end)]))
    if certificate is None:
        return Step("own-certificate", None, "it cannot be decoded")
    error = None
    now = datetime.now(timezone.utc)
    if not certificate.not_before <= now <= certificate.not_after:
        error = AuthenticationError(
            f"the certificate of ssl.keystore is valid from {certificate.not_before:%Y-%m-%d} to "
            f"{certificate.not_after:%Y-%m-%d} only; renew it"
        )
    return Step("own-certificate", None, _summary(certificate), error, _certificate_facts(certificate))


class _ServerCheck:
    """The steps with one bootstrap server; `steps` runs them, each on what the previous ones have found."""

    def __init__(
        self,
        config: ClientConfig,
        security: ClientSecurity | None,
        server: Node,
        clock: Clock,
        deadline_ms: float,
        resolve: Resolve,
    ) -> None:
        self._config = config
        self._security = security
        self._server = server
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._resolve = resolve
        self._addresses: list[SocketAddress] = []
        self._versions: Versions = {}
        self._offered: list[str] | None = None
        self._correlation_id = 0
        self._facts: Facts = {}
        self._detail: str | None = None

    def steps(self) -> Iterator[Step]:
        actions: dict[str, Callable[[], str]] = {"dns": self._look_up, "tcp": self._connect}
        if "SSL" in self._config.security_protocol.split("_"):
            actions["tls"] = self._secure
        actions["api-versions"] = self._negotiate
        if self._security is not None and self._security.mechanism is not None:
            actions["sasl"] = self._authenticate
        failed = False
        self._selector = Selector(self._clock, idle_ms=-1)
        try:
            for name, action in actions.items():
                if failed:
                    yield Step(name, address_of(self._server))
                    continue
                self._facts, self._detail = {}, None
                error = None
                try:
                    self._detail = action()
                except KcliError as problem:
                    error, failed = problem, True
                yield Step(name, address_of(self._server), self._detail, error, self._facts)
        finally:
            self._selector.close_all()

    def _look_up(self) -> str:
        host, port = self._server.host, self._server.port
        try:
            self._addresses = list(self._resolve(host, port))
        except OSError as error:
            raise DisconnectedError(
                f"the host name {host} cannot be resolved: {error.strerror or error}; check the name and the DNS server"
            ) from None
        shown = [format_address(address) for address in self._addresses]
        self._facts = {"addresses": shown}
        return ", ".join(shown)

    def _connect(self) -> str:
        """Connect to every address; the first one that answers is used for the other steps."""
        results = [(address, self._reach(address)) for address in self._addresses]
        self._facts = {
            "addresses": [{"address": format_address(address), "error": problem} for address, problem in results]
        }
        reached = [address for address, problem in results if problem is None]
        problems = [f"{format_address(address)}: {problem}" for address, problem in results if problem is not None]
        if not reached:
            raise DisconnectedError("; ".join(problems))
        self._addresses = reached
        return "; ".join([f"connected to {', '.join(map(format_address, reached))}", *problems])

    def _reach(self, address: SocketAddress) -> str | None:
        """Return the reason why an address cannot be connected to; None if it can."""
        family, sockaddr = address
        limit_ms = min(self._config.socket_connection_setup_timeout_ms, self._remaining_ms())
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.settimeout(max(limit_ms, 1) / 1000)
                sock.connect(sockaddr)
                finish_connect(sock)
        except TimeoutError:
            return f"no answer in {limit_ms / 1000:g} s; a firewall may drop the packets"
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                return "connection refused; check that the broker runs and listens on this address and port"
            return error.strerror or str(error)
        return None

    def _secure(self) -> str:
        from kcli.network.tls_transport import TlsTransport, fetch_certificate

        try:
            transport = self._open()
        except AuthenticationError:
            der = fetch_certificate(self._addresses[0], self._server.host)
            if der is not None and (certificate := _parsed(der)) is not None:
                self._facts = {"certificate": _certificate_facts(certificate)}
                self._detail = _summary(certificate)
            raise
        assert isinstance(transport, TlsTransport)
        version, _, cipher = transport.protection.partition(", ")
        certificate = _parsed(transport.peer_certificate or b"")
        self._facts = {"version": version, "cipher": cipher}
        if certificate is None:
            return transport.protection
        self._facts["certificate"] = _certificate_facts(certificate)
        return f"{transport.protection}; {_summary(certificate)}"

    def _negotiate(self) -> str:
        if not self._selector.is_connected(_CONNECTION):
            self._open()
        self._versions = self._drive(api_versions.negotiate()).versions
        self._facts = {"apis": len(self._versions)}
        return f"{len(self._versions)} APIs"

    def _authenticate(self) -> str:
        assert self._security is not None
        self._security.on_progress(self._selector.wakeup)
        try:
            lifetime_ms = self._drive(self._security.authentication(self._server.host, self._versions))
        finally:
            self._facts = {"mechanism": self._security.mechanism, "offered": self._offered}
        self._facts["session_lifetime_ms"] = lifetime_ms or None
        session = f"the session lasts {lifetime_ms / 1000:g} s" if lifetime_ms else "the session has no end"
        return f"{self._security.mechanism}; {session}; the broker offers {', '.join(self._offered or ())}"

    # The connection

    def _remaining_ms(self) -> float:
        return self._deadline_ms - self._clock.now_ms()

    def _open(self) -> Transport:
        """Connect, with TLS if it is configured; return the transport."""
        transport = PlainTransport if self._security is None else self._security.transport(self._server.host)
        self._selector.connect(_CONNECTION, self._addresses[0], transport=transport)
        self._poll(lambda: _CONNECTION in self._selector.connected, "the end of the TLS handshake")
        channel = self._selector.channel(_CONNECTION)
        assert channel is not None
        return channel.transport

    def _drive(self, steps: Generator[tuple[Any, int], Any, Any] | Steps) -> Any:
        """Run a handshake; return its result."""
        response = None
        while True:
            try:
                step = steps.send(response)
            except StopIteration as end:
                return end.value
            if step is None:
                if self._remaining_ms() <= 0:
                    raise TimeoutExpired("timed out before the OAuth token endpoint answered")
                self._poll(lambda: True, "the OAuth token")
                response = None
                continue
            request, version = step
            response = self._ask(request, version)
            if request.API_KEY == _HANDSHAKE_KEY:
                self._offered = list(response.mechanisms)

    def _ask(self, request: Any, version: int) -> Any:
        self._correlation_id += 1
        self._selector.send(
            _CONNECTION, [encode_request(request, version, self._correlation_id, self._config.client_id)]
        )
        api = type(request).__name__.removesuffix("Request")
        self._poll(lambda: bool(self._selector.completed_receives), f"the answer to {api}")
        _, frame = self._selector.completed_receives[0]
        try:
            correlation_id, response = decode_response(response_type(request.API_KEY), version, frame)
        except ProtocolError as error:
            raise DisconnectedError(f"the answer to {api} is not Kafka's: {error.message}") from None
        if correlation_id != self._correlation_id:
            raise DisconnectedError(f"the answer to {api} is not Kafka's: it belongs to another request")
        return response

    def _poll(self, is_done: Callable[[], bool], awaited: str) -> None:
        while True:
            self._selector.poll(max(0.0, self._remaining_ms()))
            if (reason := self._selector.disconnected.get(_CONNECTION)) is not None:
                raise self._lost(reason, awaited)
            if is_done():
                return
            if self._remaining_ms() <= 0:
                raise TimeoutExpired(f"timed out before {awaited}")

    def _lost(self, reason: str, awaited: str) -> KcliError:
        has_tls = self._security is not None and self._security.uses_tls
        if _CONNECTION in self._selector.refused and not has_tls:
            protocol = "SSL or SASL_SSL" if self._security is None else "SASL_SSL"
            return AuthenticationError(f"the listener expects TLS; set security.protocol={protocol}")
        if _CONNECTION in self._selector.refused:
            return AuthenticationError(reason)
        hint = (
            "" if has_tls or self._versions else "; if the listener expects TLS, set security.protocol=SSL or SASL_SSL"
        )
        return DisconnectedError(f"{reason} before {awaited}{hint}")


def _parsed(der: bytes) -> Certificate | None:
    from kcli.network.certificate import parse_certificate

    try:
        return parse_certificate(der)
    except ValueError:
        return None


def _days_left(certificate: Certificate) -> int:
    return (certificate.not_after - datetime.now(timezone.utc)).days


def _summary(certificate: Certificate) -> str:
    return (
        f"certificate {certificate.subject} for {', '.join(certificate.names)}, issued by {certificate.issuer}, valid "
        f"{certificate.not_before:%Y-%m-%d} to {certificate.not_after:%Y-%m-%d}, {_days_left(certificate)} days left"
    )


def _certificate_facts(certificate: Certificate) -> Facts:
    return {
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "names": list(certificate.names),
        "not_before": certificate.not_before.isoformat(),
        "not_after": certificate.not_after.isoformat(),
        "days_left": _days_left(certificate),
    }

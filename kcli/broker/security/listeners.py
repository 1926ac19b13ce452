"""The listeners of the broker: name, security protocol, addresses, and the properties of each one. Pure.

`listener.name.NAME.PROPERTY` sets a property for one listener, `listener.name.NAME.MECHANISM.PROPERTY` for one SASL
mechanism of it; both names in lower case. Source: https://kafka.apache.org/documentation/#listener_configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.security.security_settings import PROTOCOLS, SecuritySettings
from kcli.settings import Boolean, Int, List, Long, String, invalid_value, setting
from kcli.text import closest_name, format_alternatives

DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
#: The numbers of the protocols in registrations.
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
#: In Kafka, too, a controller listener that is not in the map has no security.
_CONTROLLER_PROTOCOL = "PLAINTEXT"

_PREFIX = "listener.name."
# Properties that Kafka's listeners do not have: of clients, and of librdkafka.
_OF_CLIENTS = (
    "sasl.mechanism",
    "sasl.oauthbearer.header.urlencode",
    "ssl.certificate.location",
    "ssl.key.location",
)
_OF_LISTENERS = ("connections.", "principal.", "sasl.", "ssl.")
# Properties of a listener that are accepted without effect, because one loop serves all of them.
_WITHOUT_EFFECT = (
    "background.threads",
    "max.connection.creation.rate",
    "max.connections",
    "num.io.threads",
    "num.network.threads",
    "queued.max.requests",
)


class ListenerSettings(SecuritySettings):
    """The properties that a listener may override."""

    connections_max_reauth_ms: Long = setting(0, "Longest session after which a client must authenticate again.")
    principal_builder_class: String = setting(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", "Java class; the default only."
    )
    sasl_enabled_mechanisms: List = setting(("GSSAPI",), "SASL mechanisms that clients may use.")
    sasl_kerberos_principal_to_local_rules: List = setting(("DEFAULT",), "Mapping of Kerberos principals.")
    sasl_oauthbearer_expected_audience: List = setting((), "Accepted values of the claim aud.")
    sasl_oauthbearer_expected_issuer: String | None = setting(None, "Accepted value of the claim iss.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Long = setting(3_600_000, "Interval between reads of the JWKS.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Long = setting(10_000, "Largest backoff of JWKS reads.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Long = setting(100, "Backoff of JWKS reads.")
    sasl_oauthbearer_jwks_endpoint_url: String | None = setting(None, "JWKS: http, https or file URL.")
    sasl_server_callback_handler_class: String | None = setting(None, "Java class; known names only.")
    sasl_server_max_receive_size: Int = setting(524_288, "Largest request before authentication, in bytes.")
    ssl_allow_dn_changes: Boolean = setting(False, "Accept a new key store with another name.")
    ssl_allow_san_changes: Boolean = setting(False, "Accept a new key store with other host names.")
    ssl_client_auth: String = setting(
        "none", "Client certificates.", choices=("required", "requested", "none"), ignore_case=True
    )
    ssl_principal_mapping_rules: String = setting("DEFAULT", "Rules from a certificate's name to a principal.")

    #: The names of the properties that are given for this listener only.
    of_this_listener: frozenset[str] = frozenset()

    @classmethod
    def of_listener(cls, name: str, properties: Mapping[str, str]) -> ListenerSettings:
        """Return the settings of one listener: its own properties, and otherwise the broker's."""
        prefix = f"{_PREFIX}{name.lower()}."
        own = {key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)}
        shared = {key: text for key, text in properties.items() if key in LISTENER_SETTINGS}
        try:
            settings = cls.from_properties({**shared, **own})
        except ConfigError as error:
            subject = error.message.partition(":")[0].partition(" ")[0]
            raise ConfigError(f"{prefix if subject in own else ''}{error.message}") from None
        vars(settings)["of_this_listener"] = frozenset(own)
        return settings

    def of_mechanism(self, mechanism: str) -> ListenerSettings:
        """Return the settings of one SASL mechanism: `MECHANISM.PROPERTY` replaces `PROPERTY`."""
        prefix = f"{mechanism.lower()}."
        own = {key.removeprefix(prefix): text for key, text in self.given.items() if key.startswith(prefix)}
        return self.with_properties(own) if own else self


#: Kafka's properties of the broker that a listener may override, with their definitions.
LISTENER_SETTINGS = {
    name: definition
    for name, definition in ListenerSettings.SETTINGS.items()
    if name.startswith(_OF_LISTENERS) and name not in _OF_CLIENTS
}


def is_listener_property(name: str) -> bool:
    """Return True for `listener.name.NAME.PROPERTY` with a property that a listener may override."""
    if not name.startswith(_PREFIX):
        return False
    _, _, own = name.removeprefix(_PREFIX).partition(".")
    return own in LISTENER_SETTINGS or own in _WITHOUT_EFFECT or own.partition(".")[2] in LISTENER_SETTINGS


def of_unknown_listeners(names: Iterable[str], endpoints: Iterable[Endpoint]) -> list[str]:
    """Return the properties of listeners that do not exist; a name of a listener may have dots."""
    prefixes = tuple(f"{_PREFIX}{endpoint.name.lower()}." for endpoint in endpoints)
    return [name for name in names if name.startswith(_PREFIX) and not name.startswith(prefixes)]


def suggestion(name: str) -> str | None:
    """Return the name closest to an unknown `listener.name.NAME.PROPERTY`."""
    if not name.startswith(_PREFIX):
        return None
    listener, _, own = name.removeprefix(_PREFIX).partition(".")
    close = closest_name(own, LISTENER_SETTINGS)
    return f"{_PREFIX}{listener}.{close}" if close else None


_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Endpoint(NamedTuple):
    """One listener: `host` and `port` to listen on, and the address that clients are told; None: the same.

    Port 0 means any free port. `protocol` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    """

    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None

    @property
    def address(self) -> str:
        """`host:port` for clients of this machine; a listener of all addresses has that of the loopback interface."""
        host = _LOOPBACK.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")


def parse_endpoints(
    listeners: Sequence[str],
    advertised: Sequence[str] | None,
    protocol_map: str,
    controller_names: Sequence[str],
    *,
    of_controller: bool = False,
) -> tuple[Endpoint, ...]:
    """Return the listeners of the broker, or those of its controller, in the given order. ConfigError if invalid."""
    protocols = _parse_protocol_map(protocol_map)
    controllers = {name.upper() for name in controller_names}
    told = {name: (host, port) for name, host, port in _parse_addresses("advertised.listeners", advertised or ())}
    endpoints: list[Endpoint] = []
    for name, host, port in _parse_addresses("listeners", listeners):
        if (name in controllers) != of_controller:
            continue
        protocol = protocols.get(name, _CONTROLLER_PROTOCOL if of_controller else None)
        if protocol is None:
            raise ConfigError(
                f"listeners: {name} has no security protocol; add {name}:PROTOCOL to listener.security.protocol.map"
            )
        endpoints.append(Endpoint(name, protocol, host, port, *told.pop(name, (None, None))))
    if not endpoints and of_controller:
        raise ConfigError(
            f"listeners must name a listener of the controller, such as {controller_names[0]}://127.0.0.1:9093"
        )
    if not endpoints:
        raise ConfigError("listeners must name at least one listener, such as PLAINTEXT://127.0.0.1:9092")
    if unknown := [name for name in told if (name in controllers) == of_controller]:
        raise ConfigError(f"advertised.listeners: {unknown[0]} is not in listeners")
    return tuple(endpoints)


def _parse_protocol_map(text: str) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = pair.partition(":")
        if not name or protocol.upper() not in PROTOCOLS:
            raise invalid_value(
                "listener.security.protocol.map", pair, f"NAME:PROTOCOL; PROTOCOL is {format_alternatives(PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def _parse_addresses(setting: str, listeners: Sequence[str]) -> list[tuple[str, str, int]]:
    addresses: list[tuple[str, str, int]] = []
    for text in listeners:
        name, separator, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        if (
            not name
            or not separator
            or not colon
            or not (port.isascii() and port.isdecimal())
            or int(port[:9]) > 65_535
        ):
            raise invalid_value(setting, text, "NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092")
        addresses.append((name.upper(), host.removeprefix("[").removesuffix("]"), int(port)))
    names = [name for name, _, _ in addresses]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"{setting}: {duplicates[0]} is given twice")
    bound = [(host, port) for _, host, port in addresses if port and setting == "listeners"]
    if taken := [address for address in bound if bound.count(address) > 1]:
        raise ConfigError(f"{setting}: two listeners have port {taken[0][1]}")
    return addresses

"""A listener without files to prepare: broker properties, and properties for each kind of client.

The certificates are those of `own_certificates`; users and passwords are the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.security.jaas import format_jaas
from kcli.security.security_settings import PROTOCOLS
from kcli.text import format_alternatives

if TYPE_CHECKING:
    import ssl

#: Clients with Kafka's property names, with librdkafka's, and those whose settings are keyword arguments in Python.
_OF_JAVA, _OF_LIBRDKAFKA, _OF_PYTHON = ("kcli", "java"), ("librdkafka", "confluent-kafka"), ("kafka-python", "aiokafka")
CLIENTS = (*_OF_JAVA, *_OF_LIBRDKAFKA, *_OF_PYTHON)
#: The mechanisms of a ready-made listener; clients get the first one by default.
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_PRINCIPALS_BY_COMMON_NAME = r"RULE:^.*CN=((?:\\.|[^,\\])*).*$/$1/,DEFAULT"


def plain_properties(client: str, address: str) -> dict[str, Any]:
    """Return the properties of a client of a PLAINTEXT listener, as `ReadyMade.client_properties` does."""
    _check_known("client", client, CLIENTS)
    return {"bootstrap_servers" if client in _OF_PYTHON else "bootstrap.servers": address}


def has_keywords(client: str) -> bool:
    """Return whether the settings of a client are keyword arguments, which no file can have."""
    return client in _OF_PYTHON


def _check_known(noun: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{value!r} is not a known {noun}; use {format_alternatives(known)}")


class ReadyMade(NamedTuple):
    """A security protocol and the passwords of its users.

    With SSL each user has a certificate, and clients without one are refused; with no users at all, clients need no
    certificate. Passwords are then not used.
    """

    protocol: str
    users: Mapping[str, str]

    @classmethod
    def checked(cls, protocol: str, users: Mapping[str, str] | None) -> ReadyMade:
        """Return the protocol in capitals with its users. ConfigError if they are not valid."""
        name = protocol.upper()
        if name not in PROTOCOLS:
            raise ConfigError(f"security: {protocol!r} is not valid; use {format_alternatives(PROTOCOLS)}")
        if name.startswith("SASL") and not users:
            raise ConfigError(f'security: {name} needs users; give their passwords, such as users={{"alice": "..."}}')
        if name == "PLAINTEXT" and users:
            raise ConfigError("security: PLAINTEXT has no users; choose another protocol")
        return cls(name, dict(users or {}))

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def broker_properties(self) -> dict[str, str]:
        """Return the properties of the broker, without `listeners`."""
        properties: dict[str, str] = {}
        if self.has_tls:
            from kcli.broker.security.own_certificates import authority, server_certificate

            own = server_certificate()
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": own.key_pem,
                "ssl.keystore.certificate.chain": own.certificate_pem,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": authority().certificate_pem,
                "ssl.principal.mapping.rules": _PRINCIPALS_BY_COMMON_NAME,
            }
        if self.protocol == "SSL" and self.users:
            properties["ssl.client.auth"] = "required"
        if self.has_sasl:
            properties["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            passwords = {f"user_{user}": password for user, password in self.users.items()}
            for mechanism in MECHANISMS:
                name = f"listener.name.{self.protocol.lower()}.{mechanism.lower()}.sasl.jaas.config"
                options = {} if mechanism == "OAUTHBEARER" else passwords
                properties[name] = format_jaas(_MODULES[mechanism], options).reveal()
        return properties

    def client_properties(
        self, client: str, address: str, user: str | None = None, mechanism: str | None = None
    ) -> dict[str, Any]:
        """Return the properties of a client, one of `CLIENTS`. `user`: by default the first one.

        ValueError for an unknown client, user or mechanism.
        """
        mechanism = mechanism or MECHANISMS[0]
        _check_known("client", client, CLIENTS)
        _check_known("mechanism", mechanism, MECHANISMS)
        if user is not None and user not in self.users:
            raise ValueError(f"{user!r} is not a user of this broker")
        user = next(iter(self.users), None) if user is None else user
        if client in _OF_PYTHON:
            return self._keywords(client, address, user, mechanism)
        properties: dict[str, Any] = {"bootstrap.servers": address, "security.protocol": self.protocol}
        is_java = client in _OF_JAVA
        if self.has_tls:
            properties |= self._tls_properties(is_java, user)
        if self.has_sasl:
            assert user is not None, "SASL has users"
            make = _java_login if is_java else _librdkafka_login
            properties |= make(mechanism, user, self.users[user])
        return properties

    def _keywords(self, client: str, address: str, user: str | None, mechanism: str) -> dict[str, Any]:
        keywords: dict[str, Any] = {"bootstrap_servers": address, "security_protocol": self.protocol}
        if self.has_tls:
            keywords["ssl_context"] = self._ssl_context(user)
        if self.has_sasl:
            assert user is not None, "SASL has users"
            if mechanism == "OAUTHBEARER":
                raise ValueError(f"{client} needs a token provider of its own for OAUTHBEARER; use another mechanism")
            keywords["sasl_mechanism"] = mechanism
            keywords["sasl_plain_username"], keywords["sasl_plain_password"] = user, self.users[user]
        return keywords

    def _ssl_context(self, user: str | None) -> ssl.SSLContext:
        """Return a client's context that trusts the listener and, without SASL, has the certificate of the user."""
        import ssl
        from tempfile import NamedTemporaryFile

        from kcli.broker.security.own_certificates import authority, client_certificate

        context = ssl.create_default_context(cadata=authority().certificate_pem)
        if self.protocol == "SSL" and user is not None:
            own = client_certificate(user)
            with NamedTemporaryFile("w") as file:  # OpenSSL reads certificates from files only; others cannot read it
                file.write(own.key_pem + own.certificate_pem)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def _tls_properties(self, is_java: bool, user: str | None) -> dict[str, str]:
        from kcli.broker.security.own_certificates import authority, client_certificate

        trusted = authority().certificate_pem
        properties = (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
            if is_java
            else {"ssl.ca.pem": trusted}
        )
        if self.protocol == "SSL" and user is not None:
            own = client_certificate(user)
            if is_java:
                properties["ssl.keystore.type"] = "PEM"
                properties["ssl.keystore.key"] = own.key_pem
                properties["ssl.keystore.certificate.chain"] = own.certificate_pem
            else:
                properties["ssl.key.pem"] = own.key_pem
                properties["ssl.certificate.pem"] = own.certificate_pem
        return properties


def _java_login(mechanism: str, user: str, password: str) -> dict[str, str]:
    options = {"username": user, "password": password}
    if mechanism == "OAUTHBEARER":
        options = {"unsecuredLoginStringClaim_sub": user}
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": format_jaas(_MODULES[mechanism], options).reveal()}


def _librdkafka_login(mechanism: str, user: str, password: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        own = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={user}"}
    else:
        own = {"sasl.username": user, "sasl.password": password}
    return {"sasl.mechanisms": mechanism, **own}


# kcat reads files without escapes, and kcli does for properties that only librdkafka has.
_WITHOUT_ESCAPES = ("sasl.username", "sasl.password")


def properties_text(properties: Mapping[str, str]) -> str:
    """Return properties as the text of a file that Java, kcli and kcat read; line breaks in values become `\\n`."""
    lines = []
    for name, value in properties.items():
        escaped = value if name in _WITHOUT_ESCAPES else _escaped(value)
        lines.append(f"{name}={escaped}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    """Return the value in ASCII, because Java does not read UTF-8."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    if text.isascii():
        return text
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)

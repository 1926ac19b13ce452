"""Properties of a schema registry, by the names of Confluent's clients. Pure.

    schema.registry.url                 one URL, or several separated by commas
    basic.auth.user.info                USER:PASSWORD
    basic.auth.credentials.source       USER_INFO (the default), or SASL_INHERIT: the user of sasl.*
    bearer.auth.token                   a token; also bearer.auth.logical.cluster and bearer.auth.identity.pool.id
    schema.registry.ssl.*               as the client's ssl.*, which apply if none of these is given

The check of the host name is never the client's: credentials for the registry go to the host of its URL, also where the
certificates of brokers have other names. `schema.registry.ssl.endpoint.identification.algorithm` alone switches it off.

The names of the credentials may have the prefix `schema.registry.`. Source:
https://docs.confluent.io/platform/current/schema-registry/sr-client-configs.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.errors import ConfigError
from kcli.security.security_settings import SecuritySettings
from kcli.settings import Password, Settings, String, Value, format_value, setting

URL = "schema.registry.url"
PREFIX = "schema.registry."
_TLS = f"{PREFIX}ssl."
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_USER_INFO = "basic.auth.user.info"

#: Properties of serialisers that files share with clients of a registry; they have no effect here.
OF_SERIALISERS = (
    "auto.register.schemas",
    "apicurio.registry.use-id",
    "avro.use.logical.type.converters",
    "key.subject.name.strategy",
    "latest.compatibility.strict",
    "normalize.schemas",
    "specific.avro.reader",
    "use.latest.version",
    "use.schema.id",
    "value.subject.name.strategy",
)


def _parse_urls(name: str, text: str) -> tuple[str, ...]:
    from kcli.security.http_request import parse_url

    urls = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    for url in urls:
        if "@" in url.partition("://")[2].partition("/")[0]:
            raise ConfigError(f"{name}: a URL with a user is not valid; use {_USER_INFO}")
        if parse_url(url) is None or "?" in url or "#" in url:
            raise ConfigError(f"{name}: it is not a URL of a registry; use http://host:port or https://host:port")
    if not urls:
        raise ConfigError(f"{name} is empty; use http://host:port or https://host:port")
    return urls


class RegistrySettings(Settings):
    """The address of a schema registry and the credentials for it. None means that a property is not set."""

    schema_registry_url: String | None = setting(
        None, "URL of the schema registry; several, separated by commas, are tried in turn.", parse=_parse_urls
    )
    basic_auth_credentials_source: String = setting(
        "USER_INFO",
        "User for the registry: USER_INFO, or SASL_INHERIT for that of sasl.*.",
        choices=("USER_INFO", "SASL_INHERIT", "URL"),
    )
    basic_auth_user_info: Password | None = setting(None, "User and password for the registry: USER:PASSWORD.")
    bearer_auth_credentials_source: String = setting(
        "STATIC_TOKEN", "Source of the token for the registry.", choices=("STATIC_TOKEN",)
    )
    bearer_auth_token: Password | None = setting(None, "Token for the registry.")
    bearer_auth_logical_cluster: String | None = setting(None, "Logical cluster of the registry, with a token.")
    bearer_auth_identity_pool_id: String | None = setting(None, "Identity pool of the token.")

    urls: tuple[str, ...]
    tls: SecuritySettings
    user_info: Password | None

    @classmethod
    def from_properties(cls, properties: Mapping[str, Value | None]) -> RegistrySettings:
        """Take the registry's properties out of all properties of a client. Raise ConfigError, one sentence."""
        given = {name: value for name, value in properties.items() if value is not None}
        own = {name: value for name, value in given.items() if cls.is_known(name) or name in cls.SETTINGS}
        for name in list(own):
            short = name.removeprefix(PREFIX)
            if short != name and short in cls.SETTINGS:
                own.setdefault(short, own[name])
        settings = super().from_properties(own)
        start = _TLS if _has_own_tls(given) else "ssl."
        tls = {f"ssl.{name.removeprefix(start)}": value for name, value in given.items() if name.startswith(start)}
        host_check = given.get(f"{PREFIX}{_HOST_CHECK}", "https")
        tls[_HOST_CHECK] = "" if host_check == "none" else host_check  # both are empty for Confluent's clients
        vars(settings).update(
            urls=settings.schema_registry_url or (),
            tls=SecuritySettings.from_properties(tls),
            user_info=settings._user_info(given),
        )
        return settings

    @staticmethod
    def takes_tls_of_client(given: Mapping[str, Any]) -> bool:
        """Return whether the properties of a client name a registry with https whose TLS has their ssl.*."""
        url = given.get(URL)
        return isinstance(url, str) and "https:" in url.lower() and not _has_own_tls(given)

    def _user_info(self, given: Mapping[str, Value]) -> Password | None:
        if self.basic_auth_credentials_source == "URL":
            return None
        if self.basic_auth_credentials_source == "USER_INFO":
            info = self.basic_auth_user_info
            if info is not None and ":" not in info.reveal():
                raise ConfigError(f"{_USER_INFO} is not valid; use USER:PASSWORD")
            return info
        user, password = (format_value(given.get(name, "")) for name in ("sasl.username", "sasl.password"))
        if not user and "sasl.jaas.config" in given:
            from kcli.security.jaas import parse_jaas

            login = parse_jaas(format_value(given["sasl.jaas.config"]))
            user, password = login.required("username"), login.required("password")
        if not user:
            raise ConfigError("basic.auth.credentials.source=SASL_INHERIT needs sasl.username and sasl.password")
        return Password(f"{user}:{password}")

    @classmethod
    def is_known(cls, name: str) -> bool:
        """Return whether this is a property of the registry, also one with the prefix."""
        if name in cls.SETTINGS or name in OF_SERIALISERS:
            return True
        short = name.removeprefix(PREFIX)
        return short != name and (short in cls.SETTINGS or (short.startswith("ssl.") and _is_tls(short)))

    @classmethod
    def is_secret(cls, name: str) -> bool:
        """Return whether the value of a property of the registry must not be printed."""
        if name in OF_SERIALISERS:
            return False
        short = name.removeprefix(PREFIX)
        for known in (name, short):
            if known in cls.SETTINGS:
                return bool(cls.SETTINGS[known].kind.startswith("Password"))
        return SecuritySettings.is_secret(short) if short != name else super().is_secret(name)


def _has_own_tls(given: Mapping[str, Any]) -> bool:
    return any(name.startswith(_TLS) and name != f"{PREFIX}{_HOST_CHECK}" for name in given)


def _is_tls(name: str) -> bool:
    return name in SecuritySettings.SETTINGS

"""The login of a client from properties that are simpler than a JAAS text: librdkafka's, and defaults. Pure.

The result is `sasl.jaas.config`, as a Java client would have it, so that mechanisms read one property only. The Java
classes that a client configuration may name are known by name here; any other one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.security_settings import SecuritySettings
from kcli.settings import Boolean, Password, String, setting
from kcli.text import format_alternatives

_KAFKA = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_KAFKA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_KAFKA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_KAFKA}.scram.ScramLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
    "OAUTHBEARER": f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OIDC_HANDLER = f"{_KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_JWT_BEARER_RETRIEVER = f"{_KAFKA}.oauthbearer.JwtBearerJwtRetriever"

#: The Java classes that may be named, by property: those whose work kcli does itself.
JAVA_CLASSES: Mapping[str, tuple[str, ...]] = {
    "sasl.client.callback.handler.class": (
        f"{_KAFKA}.authenticator.SaslClientCallbackHandler",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    ),
    "sasl.login.callback.handler.class": (
        _OIDC_HANDLER,
        f"{_KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        f"{_KAFKA}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        f"{_KAFKA}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    ),
    "sasl.oauthbearer.jwt.retriever.class": tuple(
        f"{_KAFKA}.oauthbearer.{name}"
        for name in (
            "DefaultJwtRetriever",
            "ClientCredentialsJwtRetriever",
            "FileJwtRetriever",
            "JwtBearerJwtRetriever",
        )
    ),
    "sasl.oauthbearer.jwt.validator.class": tuple(
        f"{_KAFKA}.oauthbearer.{name}" for name in ("DefaultJwtValidator", "ClientJwtValidator", "BrokerJwtValidator")
    ),
}

# librdkafka's sasl.oauthbearer.config, for tokens without signature: its keys, as options of Java's login module.
_UNSECURED_OPTIONS = {
    "principal": "unsecuredLoginStringClaim_sub",
    "principalClaimName": "unsecuredLoginPrincipalClaimName",
    "scope": "unsecuredLoginListClaim_scope",
    "scopeClaimName": "unsecuredLoginScopeClaimName",
    "lifeSeconds": "unsecuredLoginLifetimeSeconds",
}


class LoginSettings(SecuritySettings):
    """The security properties of a client, with those of librdkafka that become a JAAS text."""

    sasl_username: String | None = setting(None, "User name for PLAIN and SCRAM.")
    sasl_password: Password | None = setting(None, "Password for PLAIN and SCRAM.")
    sasl_kerberos_keytab: String | None = setting(None, "Keytab of the Kerberos principal.")
    sasl_kerberos_principal: String | None = setting(None, "Kerberos principal of this client.")
    sasl_oauthbearer_method: String = setting(
        "default", "oidc: request tokens from the token endpoint.", choices=("default", "oidc"), ignore_case=True
    )
    sasl_oauthbearer_grant_type: String = setting(
        "client_credentials", "Grant with which tokens are requested.", choices=("client_credentials", _JWT_BEARER)
    )
    sasl_oauthbearer_extensions: Password | None = setting(None, "Extensions sent with the token: key=value,key=value.")
    enable_sasl_oauthbearer_unsecure_jwt: Boolean = setting(
        False, "Make unsecured tokens from sasl.oauthbearer.config; for tests."
    )
    sasl_oauthbearer_config: Password | None = setting(
        None, "Unsecured token: principal=NAME scope=A,B lifeSeconds=3600 and others, separated by blanks."
    )

    def adjusted(self) -> dict[str, Any]:
        """Make the JAAS text, and the OAuth classes that librdkafka's properties stand for."""
        adjusted = super().adjusted()
        if not self.uses_sasl:
            return adjusted
        if self.sasl_mechanism == "OAUTHBEARER" and self._asks_endpoint:
            adjusted["sasl_login_callback_handler_class"] = self.sasl_login_callback_handler_class or _OIDC_HANDLER
        if self.sasl_oauthbearer_grant_type == _JWT_BEARER:
            adjusted["sasl_oauthbearer_jwt_retriever_class"] = _JWT_BEARER_RETRIEVER
        if self.sasl_jaas_config:
            return adjusted
        options = self._login_options()
        adjusted["sasl_jaas_config"] = None if options is None else self._jaas(options)
        return adjusted

    def check(self) -> None:
        """Raise ConfigError when no login follows from the properties, or two do, or a Java class is unknown."""
        super().check()
        if not self.uses_sasl:
            return
        for name, classes in JAVA_CLASSES.items():
            if name in self.given and (value := self.value(name)) and value not in classes:
                raise ConfigError(f"{name}: kcli does not have the Java class {value}; {_class_hint(name)}")
        if self.given.get("sasl.jaas.config"):
            self._check_one_login()
            self._check_mechanism()
            return
        for name in ("sasl.username", "sasl.password"):
            if self.given.get(name) and self.sasl_mechanism not in _WITH_PASSWORD:
                needs = f"{name} is for PLAIN and SCRAM, but sasl.mechanism is {self.sasl_mechanism}"
                raise ConfigError(f"{needs}; set sasl.mechanism")
        if self.sasl_jaas_config is None:
            raise ConfigError(self._missing_login())

    @property
    def uses_sasl(self) -> bool:
        """True if connections authenticate with SASL."""
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """True if connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def _asks_endpoint(self) -> bool:
        is_ours = not self.sasl_jaas_config and self.sasl_oauthbearer_token_endpoint_url is not None
        return self.sasl_oauthbearer_method == "oidc" or is_ours

    def _login_options(self) -> dict[str, str] | None:
        """The options of the login module; None if properties are missing."""
        if self.sasl_mechanism in _WITH_PASSWORD:
            if self.sasl_username is None or self.sasl_password is None:
                return None
            return {"username": self.sasl_username, "password": self.sasl_password.reveal()}
        if self.sasl_mechanism == "GSSAPI":
            return self._kerberos_options()
        if self.sasl_mechanism == "OAUTHBEARER":
            return self._oauth_options()
        return {}

    def _kerberos_options(self) -> dict[str, str]:
        if self.sasl_kerberos_keytab is None:
            options = {"useTicketCache": "true"}
        else:
            options = {"useKeyTab": "true", "storeKey": "true", "keyTab": self.sasl_kerberos_keytab}
        if self.sasl_kerberos_principal is not None:
            options["principal"] = self.sasl_kerberos_principal
        if self.sasl_kerberos_service_name is None:
            options["serviceName"] = "kafka"
        return options

    def _oauth_options(self) -> dict[str, str] | None:
        if self._asks_endpoint:
            options = {}
        elif self.enable_sasl_oauthbearer_unsecure_jwt:
            options = _unsecured_options(self.sasl_oauthbearer_config)
        else:
            return None
        extensions = _pairs("sasl.oauthbearer.extensions", self.sasl_oauthbearer_extensions, ",")
        return options | {f"extension_{key}": value for key, value in extensions.items()}

    def _jaas(self, options: Mapping[str, str]) -> Secret:
        from kcli.security.jaas import format_jaas

        return format_jaas(_MODULES[self.sasl_mechanism], dict(options))

    def _check_one_login(self) -> None:
        for name in LOGIN_PROPERTIES:
            if self.given.get(name):
                raise ConfigError(f"sasl.jaas.config and {name} are two logins; remove one of them")

    def _check_mechanism(self) -> None:
        """Refuse the default mechanism for a login of another one: sasl.mechanism was forgotten."""
        if "sasl.mechanism" in self.given or self.sasl_jaas_config is None:
            return
        from kcli.security.jaas import parse_jaas

        module = parse_jaas(self.sasl_jaas_config.reveal()).module
        mechanisms = [name for name, known in _MODULES.items() if known == module]
        if mechanisms and self.sasl_mechanism not in mechanisms:
            fitting = format_alternatives(mechanisms)
            raise ConfigError(
                f"sasl.mechanism is not set, and its default is GSSAPI; set {fitting}, for which sasl.jaas.config "
                "has a login"
            )

    def _missing_login(self) -> str:
        mechanism = self.sasl_mechanism
        if mechanism in _WITH_PASSWORD:
            if self.sasl_username is None and self.sasl_password is None:
                needs = f"sasl.mechanism={mechanism} needs a login"
                return f"{needs}; set sasl.jaas.config, or sasl.username and sasl.password"
            missing = "sasl.password" if self.sasl_password is None else "sasl.username"
            return f"{missing} is missing; {mechanism} needs sasl.username and sasl.password"
        return (  # GSSAPI and AWS_MSK_IAM take credentials of the environment by default
            "sasl.mechanism=OAUTHBEARER needs a login; set sasl.jaas.config, or sasl.oauthbearer.token.endpoint.url "
            "with a client id and secret"
        )


#: Properties that give a login without a JAAS text.
LOGIN_PROPERTIES = (
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
)


def _class_hint(name: str) -> str:
    return f"use {format_alternatives(JAVA_CLASSES[name])}"


def _unsecured_options(config: Secret | None) -> dict[str, str]:
    options = {}
    for key, value in _pairs("sasl.oauthbearer.config", config, None).items():
        if key not in _UNSECURED_OPTIONS and not key.startswith("extension_"):
            raise ConfigError(
                f"sasl.oauthbearer.config has an unknown key; use {format_alternatives(_UNSECURED_OPTIONS)}"
            )
        options[_UNSECURED_OPTIONS.get(key, key)] = value
    return options


def _pairs(name: str, text: Secret | None, separator: str | None) -> dict[str, str]:
    """The pairs key=value of a list. The error shows no part of it."""
    pairs = {}
    for number, part in enumerate(text.reveal().split(separator) if text else (), 1):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"{name}: element {number} has no equals sign; write key=value")
        pairs[key.strip()] = value.strip()
    return pairs

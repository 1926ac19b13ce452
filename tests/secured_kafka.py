"""A real Kafka with every kind of secured listener, for all tests of a run: fixture `secured_kafka`.

| listener | protocol | how clients authenticate |
|---|---|---|
| PLAINTEXT | PLAINTEXT | not: the principal is User:ANONYMOUS, a super user |
| SSL | SSL | not; client certificates are not requested |
| MTLS | SSL | with a client certificate; the principal is its common name |
| EXPIRED | SSL | not; the broker's certificate has expired |
| SASL, SASLS | SASL_PLAINTEXT, SASL_SSL | PLAIN, SCRAM-SHA-256 and -512, OAUTHBEARER with unsecured tokens, GSSAPI |
| OAUTHJ | SASL_PLAINTEXT | OAUTHBEARER with signed tokens |
| REAUTH | SASL_PLAINTEXT | SCRAM-SHA-256; a session lasts three seconds (KIP-368) |
| KRB | SASL_PLAINTEXT | GSSAPI |

Brokers are advertised as localhost, so a client that needs another path fails. `admin` is a super user and may do
everything; the other users have no rights until a test creates ACLs. Tests must use names of their own for topics,
groups and users in ACLs.
"""

from __future__ import annotations

import functools
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.certificates import Certificates, make_certificates
from tests.kerberos import REALM, SERVICE, Kdc, Kerberos
from tests.oauth_provider import AUDIENCE, OAuthKeys, OAuthProvider
from tests.real_kafka import CLUSTER_ID, SMALL_JVM, Kafka, KafkaNode

# Names and passwords, for PLAIN, SCRAM, Kerberos and as OAuth clients.
USERS = {
    "admin": "admin-secret",
    "alice": "alice-secret",
    "bob": "bob-secret",
    "odd": "quote\" back\\slash 'é",
    "marked": "m4rked-s3cret",
}
# `client` is the common name of the client certificate.
SUPER_USERS = ("admin", "odd", "marked", "ANONYMOUS", "broker", "client")
SECRET_VARIABLE = "KCLI_TEST_PASSWORD"  # it has admin's password in the JVM of Kafka's tools
REAUTH_MS = 3000

LISTENERS = {
    "SSL": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLS": "SASL_SSL",
    "OAUTHJ": "SASL_PLAINTEXT",
    "REAUTH": "SASL_PLAINTEXT",
    "KRB": "SASL_PLAINTEXT",
}
PASSWORDS_AND_TOKENS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
MODULES = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{MODULES}.plain.PlainLoginModule"
SCRAM_MODULE = f"{MODULES}.scram.ScramLoginModule"
OAUTH_MODULE = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LOGIN_HANDLER = f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


def jaas(module: str, **options: str) -> str:
    """Return a JAAS entry with quoted values."""
    quoted = {name: value.replace("\\", r"\\").replace('"', r"\"") for name, value in options.items()}
    return f"{module} required" + "".join(f' {name}="{value}"' for name, value in quoted.items()) + ";"


def escaped(value: str) -> str:
    """Return the value as a properties file has it, which Java reads as ISO-8859-1."""
    plain = value.replace("\\", "\\\\").replace("\n", "\\n")
    return plain.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")


class DelegationToken(NamedTuple):
    """The user name and the password of SCRAM with `tokenauth=true`."""

    identifier: str
    hmac: str


class SecuredKafka(Kafka):
    """The running broker, as tests see it."""

    def __init__(self, folder: str, ports: Mapping[str, int], token_url: str, jars: Path | None) -> None:
        """`folder` has the certificates, keys and keytabs; `bootstrap_servers` is the PLAINTEXT listener."""
        super().__init__(f"127.0.0.1:{ports['PLAINTEXT']}", jars)
        self.folder = Path(folder)
        self.ports = ports
        self.certificates = Certificates(Path(folder, "certificates"))
        self.kerberos = Kerberos(Path(folder, "kerberos"))
        self.oauth = OAuthKeys(Path(folder, "oauth"))
        self.token_url = token_url

    @property
    def jaas_file(self) -> Path:
        """A JAAS file whose section KafkaClient logs in as admin, by SCRAM."""
        return self.folder / "jaas.conf"

    @functools.cached_property
    def delegation_token(self) -> DelegationToken:
        """A new delegation token of admin, for SCRAM over TLS."""
        at = ("--bootstrap-server", self.servers("SASLS"), *self.command_config(self.properties("SASLS")))
        made = self.tool("DelegationTokenCommand", *at, "--create", "--max-life-time-period", "-1").stdout
        [columns] = [line.split() for line in made.splitlines() if "User:admin" in line]
        entry = jaas(SCRAM_MODULE, username=columns[0], password=columns[1], tokenauth="true")
        with_token = self.command_config({**self.properties("SASLS"), "sasl.jaas.config": entry})
        deadline = time.monotonic() + 30
        # The controller answers before the broker knows the token.
        while self.tool("TopicCommand", *at[:2], *with_token, "--list", check=False).returncode != 0:
            assert time.monotonic() < deadline, "the broker does not accept the delegation token"
            time.sleep(0.1)
        return DelegationToken(columns[0], columns[1])

    @classmethod
    def at(cls, address: str, jars: Path) -> SecuredKafka:
        """Return the broker that `start_secured` described."""
        return cls(**json.loads(address), jars=jars)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for clients: the Kerberos realm, the JAAS file as Kafka's scripts take it, a password."""
        return {
            **self.kerberos.environment,
            "KAFKA_OPTS": f"-Djava.security.auth.login.config={self.jaas_file}",
            SECRET_VARIABLE: USERS["admin"],
        }

    def servers(self, listener: str) -> str:
        """Return the bootstrap servers of a listener."""
        return f"localhost:{self.ports[listener]}"

    def properties(self, listener: str, mechanism: str = "SCRAM-SHA-256", user: str = "admin") -> dict[str, str]:
        """Return the properties of a client for a listener, as in the file of `--command-config`.

        Stores are PEM files. `mechanism` matters for SASL and SASLS only.
        """
        protocol = LISTENERS.get(listener, "PLAINTEXT")
        found = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.certificates.authority())}
        if listener == "MTLS":
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.certificates.pem("client"))}
        if protocol.startswith("SASL"):
            found |= self.login({"OAUTHJ": "OAUTHBEARER", "KRB": "GSSAPI"}.get(listener, mechanism), user)
        if listener == "OAUTHJ":
            found |= self.token_endpoint(user)
        return found

    def command_config(self, properties: Mapping[str, str]) -> tuple[str, str]:
        """Write the properties into a new file; return the option that names it."""
        handle, path = tempfile.mkstemp(dir=self.folder, suffix=".properties")
        with open(handle, "w") as file:
            file.writelines(f"{name}={escaped(value)}\n" for name, value in properties.items())
        return "--command-config", path

    def login(self, mechanism: str, user: str = "admin") -> dict[str, str]:
        """Return the SASL properties of a user. OAUTHBEARER gets an unsecured token, GSSAPI the user's keytab."""
        entry = {
            "PLAIN": jaas(PLAIN_MODULE, username=user, password=USERS[user]),
            "SCRAM-SHA-256": jaas(SCRAM_MODULE, username=user, password=USERS[user]),
            "SCRAM-SHA-512": jaas(SCRAM_MODULE, username=user, password=USERS[user]),
            "OAUTHBEARER": jaas(OAUTH_MODULE, unsecuredLoginStringClaim_sub=user),
            "GSSAPI": jaas(
                KERBEROS_MODULE,
                useKeyTab="true",
                storeKey="true",
                keyTab=str(self.kerberos.keytab(user)),
                principal=f"{user}@{REALM}",
            ),
        }[mechanism]
        found = {"sasl.mechanism": mechanism, "sasl.jaas.config": entry}
        if mechanism == "GSSAPI":
            found["sasl.kerberos.service.name"] = "kafka"
        return found

    def token_endpoint(self, user: str = "admin") -> dict[str, str]:
        """Return the properties of OAUTHBEARER with client credentials."""
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": LOGIN_HANDLER,
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.jaas.config": jaas(OAUTH_MODULE, clientId=user, clientSecret=USERS[user]),
        }

    def _jvm_of_tools(self, *more: str) -> tuple[str, ...]:
        oauth = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        oauth_files = [
            self.oauth.token_file,
            self.oauth.assertion_file,
            self.oauth.template_file,
            self.oauth.client.file,
        ]
        jvm = super()._jvm_of_tools(
            f"{oauth}.urls={self.token_url},{self.oauth.token_file.as_uri()}",
            f"{oauth}.files={','.join(map(str, oauth_files))}",
            f"-Djava.security.krb5.conf={self.kerberos.configuration}",
            self.environment["KAFKA_OPTS"],
            *more,
        )
        return ("env", *(f"{name}={value}" for name, value in self.environment.items()), *jvm)


class SecuredNode(KafkaNode):
    """The process. Its folder has the certificates, keys and keytabs."""

    def __init__(self, folder: Path, jars: Path) -> None:
        certificates = Certificates(folder / "certificates")
        kerberos = Kerberos(folder / "kerberos")
        jwks = OAuthKeys(folder / "oauth").key_set_file.as_uri()
        settings = {**secured_settings(certificates, jwks), **kerberos_settings(kerberos)}
        jvm = (
            *SMALL_JVM,
            f"-Djava.security.krb5.conf={kerberos.configuration}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}",
        )
        super().__init__(
            folder,
            jars,
            settings={name: escaped(value) for name, value in settings.items()},
            jvm=jvm,
            more_listeners=tuple(LISTENERS),
            advertised_host="localhost",
        )

    def format(self) -> None:
        """Format the data folder, with the users of SCRAM. The tool prints their keys, so its output is dropped."""
        command = ["format", "-t", CLUSTER_ID, "-c", str(self._config), "--standalone"]
        for name, password in USERS.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                command += ["--add-scram", f"{mechanism}=[name={name},iterations=4096,password={password}]"]
        done = self.tool("StorageTool", *command, check=False)
        assert done.returncode == 0, "the data folder of the secured Kafka could not be formatted"


def make_files(folder: Path) -> Certificates:
    """Make the certificates of a broker, and a JAAS file for its clients."""
    certificates = make_certificates(folder / "certificates")
    certificates.save()
    entry = jaas(SCRAM_MODULE, username="admin", password=USERS["admin"])
    (folder / "jaas.conf").write_text(f"KafkaClient {{\n  {entry}\n}};\n")
    return certificates


def start_secured(jars: Path, folder: Path) -> tuple[str, Callable[[], None]]:
    """Start the broker, its KDC and its OAuth provider. Return what `SecuredKafka.at` needs, and how to stop them."""
    folder.mkdir()
    make_files(folder)
    kdc = Kdc(folder / "kerberos", tuple(USERS))
    provider = OAuthProvider(OAuthKeys(folder / "oauth"), USERS)
    node = SecuredNode(folder, jars)

    def stop() -> None:
        node.kill()
        kdc.stop()
        provider.close()

    try:
        node.start()
    except BaseException:
        stop()
        raise
    return json.dumps({"folder": str(folder), "ports": node.ports, "token_url": provider.token_url}), stop


def secured_settings(certificates: Certificates, jwks: str) -> dict[str, str]:
    """Return the properties of a broker with these listeners, without those of Kerberos."""
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **LISTENERS}
    found = {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.pem("server")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority()),
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": PASSWORDS_AND_TOKENS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in SUPER_USERS),
        "delegation.token.secret.key": "a secret key of the tests",
        "broker.session.timeout.ms": "60000",
    }

    found |= _listener("mtls", ssl_client_auth="required")
    found |= _listener("expired", ssl_keystore_type="PEM", ssl_keystore_location=str(certificates.pem("expired")))
    users: dict[str, Any] = {f"user_{name}": password for name, password in USERS.items()}
    for name in ("sasl", "sasls"):
        found |= _listener(
            name,
            plain_sasl_jaas_config=jaas(PLAIN_MODULE, username="admin", password=USERS["admin"], **users),
            scram__sha__256_sasl_jaas_config=jaas(SCRAM_MODULE),
            scram__sha__512_sasl_jaas_config=jaas(SCRAM_MODULE),
            oauthbearer_sasl_jaas_config=jaas(OAUTH_MODULE, unsecuredLoginStringClaim_sub="broker"),
        )
    found |= _listener(
        "oauthj",
        sasl_enabled_mechanisms="OAUTHBEARER",
        oauthbearer_sasl_jaas_config=jaas(OAUTH_MODULE),
        oauthbearer_sasl_server_callback_handler_class=f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        oauthbearer_sasl_oauthbearer_jwks_endpoint_url=jwks,
        oauthbearer_sasl_oauthbearer_expected_audience=AUDIENCE,
    )
    found |= _listener(
        "reauth",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        scram__sha__256_sasl_jaas_config=jaas(SCRAM_MODULE),
        scram__sha__256_connections_max_reauth_ms=str(REAUTH_MS),
    )
    return found


def kerberos_settings(kerberos: Kerberos) -> dict[str, str]:
    """Return the properties of the listeners that offer GSSAPI."""
    keytab = str(kerberos.keytab("kafka"))
    entry = jaas(KERBEROS_MODULE, useKeyTab="true", storeKey="true", keyTab=keytab, principal=SERVICE)
    mechanisms = {"krb": "GSSAPI", "sasls": f"{PASSWORDS_AND_TOKENS},GSSAPI"}
    found: dict[str, str] = {}
    for name, enabled in mechanisms.items():
        found |= _listener(
            name,
            sasl_enabled_mechanisms=enabled,
            sasl_kerberos_service_name="kafka",
            gssapi_sasl_jaas_config=entry,
        )
    return found


def _listener(name: str, **settings: str) -> dict[str, str]:
    return {
        f"listener.name.{name}.{key.replace('__', '-').replace('_', '.')}": value for key, value in settings.items()
    }

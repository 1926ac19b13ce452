"""Configuration files of Kafka's tools, one for each way to connect to the secured Kafka.

`@name@` stands for a path, password or other value of the running broker: see `filled`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.certificates import PASSWORD
from tests.kerberos import REALM
from tests.needs import skip_or_fail
from tests.secured_kafka import SECRET_VARIABLE, USERS, SecuredKafka, escaped


class Configuration(NamedTuple):
    """The listener that a file is for, and the text of the file."""

    listener: str
    text: str


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
ADMIN = 'username="admin" password="@password@"'

TRUST = "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=@ca.pem@\n"
SASL = "security.protocol=SASL_PLAINTEXT\n"
SASL_SSL = "security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location=@ca.pem@\n"
OVER_HTTP = (
    "sasl.mechanism=OAUTHBEARER\n"
    "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
)
JWT_BEARER = (
    f"{SASL}{OVER_HTTP}sasl.oauthbearer.token.endpoint.url=@token url@\nsasl.jaas.config={OAUTH};\n"
    "sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever\n"
)
SCRAM_FILE = f"{SASL}sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={SCRAM} {ADMIN};\n"

CONFIGURATIONS = {
    # Trust stores
    "trust: PEM file": Configuration("SSL", TRUST),
    "trust: JKS": Configuration(
        "SSL", "security.protocol=SSL\nssl.truststore.location=@trust.jks@\nssl.truststore.password=@store password@\n"
    ),
    "trust: JKS without password": Configuration(
        "SSL", "security.protocol=ssl\nssl.truststore.type=JKS\nssl.truststore.location=@trust.jks@\n"
    ),
    "trust: PKCS12": Configuration(
        "SSL",
        "security.protocol=SSL\nssl.truststore.type=PKCS12\nssl.truststore.location=@trust.p12@\n"
        "ssl.truststore.password=@store password@\n",
    ),
    "trust: PKCS12 with type JKS": Configuration(
        "SSL",
        "security.protocol=SSL\nssl.truststore.type=JKS\nssl.truststore.location=@trust.p12@\n"
        "ssl.truststore.password=@store password@\n",
    ),
    "trust: inline PEM": Configuration(
        "SSL", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=@ca inline@\n"
    ),
    "trust: inline PEM on continued lines": Configuration(
        "SSL", "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=@ca continued@\n"
    ),
    "TLS 1.2 and a cipher suite": Configuration(
        "SSL",
        TRUST + "ssl.protocol=TLSv1.2\nssl.enabled.protocols=TLSv1.2\n"
        "ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n",
    ),
    "TLS 1.3 only": Configuration("SSL", TRUST + "ssl.enabled.protocols=TLSv1.3\n"),
    "no check of the host name": Configuration("SSL", TRUST + "ssl.endpoint.identification.algorithm=\n"),
    # Client certificates
    "client: PEM file": Configuration("MTLS", TRUST + "ssl.keystore.type=PEM\nssl.keystore.location=@client.pem@\n"),
    "client: PEM file with an encrypted key": Configuration(
        "MTLS",
        TRUST + "ssl.keystore.type=PEM\nssl.keystore.location=@encrypted.pem@\nssl.key.password=@store password@\n",
    ),
    "client: inline PEM": Configuration(
        "MTLS",
        TRUST + "ssl.keystore.type=PEM\nssl.keystore.key=@client key@\nssl.keystore.certificate.chain=@client chain@\n",
    ),
    "client: JKS": Configuration(
        "MTLS",
        TRUST + "ssl.keystore.location=@client.jks@\nssl.keystore.password=@store password@\n"
        "ssl.key.password=@store password@\n",
    ),
    "client: JKS with another key password": Configuration(
        "MTLS",
        TRUST + "ssl.keystore.type=JKS\nssl.keystore.location=@client-key.jks@\n"
        "ssl.keystore.password=@store password@\nssl.key.password=@key password@\n",
    ),
    "client: PKCS12": Configuration(
        "MTLS",
        TRUST + "ssl.keystore.type=PKCS12\nssl.keystore.location=@client.p12@\n"
        "ssl.keystore.password=@store password@\nssl.key.password=@store password@\n",
    ),
    # Passwords
    "PLAIN": Configuration("SASL", f"{SASL}sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} {ADMIN};\n"),
    "PLAIN over TLS": Configuration("SASLS", f"{SASL_SSL}sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} {ADMIN};\n"),
    "SCRAM-SHA-256": Configuration("SASL", SCRAM_FILE),
    "SCRAM-SHA-512 over TLS": Configuration(
        "SASLS", f"{SASL_SSL}sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} {ADMIN};\n"
    ),
    "SCRAM over TLS with a JKS": Configuration(
        "SASLS",
        "security.protocol=SASL_SSL\nssl.truststore.location=@trust.jks@\nssl.truststore.password=@store password@\n"
        f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={SCRAM} {ADMIN};\n",
    ),
    "JAAS with comments, single quotes, continued lines": Configuration(
        "SASL",
        f"{SASL} sasl.mechanism : SCRAM-SHA-256   \n! a comment\nsasl.jaas.config = /* who */ \\\n"
        f"    {SCRAM} \\\n    username=admin \\\n    password='@password@' ;\n",
    ),
    "a password with quotes, backslashes and an accent": Configuration(
        "SASL", f'{SASL}sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} username="odd" password="@odd escaped@";\n'
    ),
    "a delegation token": Configuration(
        "SASLS",
        f"{SASL_SSL}sasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM} username="@token id@" password="@token hmac@" tokenauth="true";\n',
    ),
    "a session of three seconds": Configuration("REAUTH", SCRAM_FILE),
    "a section of a JAAS file": Configuration("SASL", f"{SASL}sasl.mechanism=SCRAM-SHA-256\n"),
    # Config providers
    "provider: file": Configuration(
        "SASL",
        "config.providers=secrets\n"
        "config.providers.secrets.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"{SASL}sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="admin" password="${{secrets:@secrets.properties@:admin.password}}";\n',
    ),
    "provider: directory": Configuration(
        "SASL",
        "config.providers=dir\nconfig.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        f"{SASL}sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="admin" password="${{dir:@secrets@:password}}";\n',
    ),
    "provider: environment": Configuration(
        "SASL",
        "config.providers=env\nconfig.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        f"{SASL}sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="admin" password="${{env:{SECRET_VARIABLE}}}";\n',
    ),
    # OAuth
    "OAUTHBEARER: unsecured token": Configuration(
        "SASL", f'{SASL}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={OAUTH} unsecuredLoginStringClaim_sub="admin";\n'
    ),
    "OAUTHBEARER: client credentials": Configuration(
        "OAUTHJ",
        f"{SASL}{OVER_HTTP}sasl.oauthbearer.token.endpoint.url=@token url@\n"
        f'sasl.jaas.config={OAUTH} clientId="admin" clientSecret="@password@" scope="all";\n',
    ),
    "OAUTHBEARER: client credentials in properties": Configuration(
        "OAUTHJ",
        f"{SASL}{OVER_HTTP}sasl.oauthbearer.token.endpoint.url=@token url@\nsasl.jaas.config={OAUTH};\n"
        "sasl.oauthbearer.client.credentials.client.id=admin\n"
        "sasl.oauthbearer.client.credentials.client.secret=@password@\nsasl.oauthbearer.scope=all\n",
    ),
    "OAUTHBEARER: token in a file": Configuration(
        "OAUTHJ", f"{SASL}{OVER_HTTP}sasl.oauthbearer.token.endpoint.url=@token.jwt url@\nsasl.jaas.config={OAUTH};\n"
    ),
    "OAUTHBEARER: jwt-bearer": Configuration(
        "OAUTHJ",
        f"{JWT_BEARER}sasl.oauthbearer.assertion.private.key.file=@oauth key@\n"
        "sasl.oauthbearer.assertion.claim.iss=kcli\nsasl.oauthbearer.assertion.claim.sub=admin\n"
        "sasl.oauthbearer.assertion.claim.aud=provider\nsasl.oauthbearer.scope=all\n",
    ),
    "OAUTHBEARER: jwt-bearer with a template": Configuration(
        "OAUTHJ",
        f"{JWT_BEARER}sasl.oauthbearer.assertion.private.key.file=@oauth key@\n"
        "sasl.oauthbearer.assertion.template.file=@template.json@\n",
    ),
    "OAUTHBEARER: jwt-bearer with a finished assertion": Configuration(
        "OAUTHJ", f"{JWT_BEARER}sasl.oauthbearer.assertion.file=@assertion.jwt@\n"
    ),
    # Kerberos
    "GSSAPI: keytab": Configuration(
        "KRB",
        f"{SASL}sasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\nsasl.jaas.config={KERBEROS} useKeyTab=true "
        'storeKey=true keyTab="@admin.keytab@" principal="admin@realm@";\n',
    ),
    "GSSAPI: ticket cache": Configuration(
        "KRB",
        f"{SASL}sasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={KERBEROS} useTicketCache=true ticketCache="@ticket cache@";\n',
    ),
    "GSSAPI: service name in the JAAS text": Configuration(
        "KRB",
        f"{SASL}sasl.mechanism=GSSAPI\nsasl.jaas.config={KERBEROS} useKeyTab=true storeKey=true "
        'keyTab="@admin.keytab@" principal="admin@realm@" serviceName="kafka";\n',
    ),
}


KEY_PASSWORD = "key secret"


def _one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")


def _escaped(password: str) -> str:
    r"""Escape a password for a quoted JAAS value (`\"` and `\\`) and then for a properties file."""
    return escaped(password.replace("\\", r"\\").replace('"', r"\""))


class Values:
    """The values of the placeholders, made when a file needs them, in files of `folder`."""

    def __init__(self, kafka: SecuredKafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._makers = self._all()

    def filled(self, text: str) -> str:
        """Return the text with the values of its placeholders."""
        known = "|".join(map(re.escape, self._makers))
        return re.sub(f"@({known})@", lambda found: str(self._makers[found[1]]()), text).replace("@realm@", f"@{REALM}")

    def _all(self) -> Mapping[str, Callable[[], object]]:
        kafka, stores = self._kafka, self._kafka.certificates
        return {
            "password": lambda: USERS["admin"],
            "odd escaped": lambda: _escaped(USERS["odd"]),
            "store password": lambda: PASSWORD,
            "key password": lambda: KEY_PASSWORD,
            "ca.pem": stores.authority,
            "ca inline": lambda: _one_line(stores.authority().read_text()),
            "ca continued": lambda: stores.authority().read_text().strip().replace("\n", "\\n\\\n  "),
            "trust.jks": lambda: stores.truststore_jks,
            "trust.p12": lambda: stores.truststore_pkcs12,
            "client.pem": lambda: stores.pem("client"),
            "encrypted.pem": self._encrypted_pem,
            "client key": lambda: _one_line(stores.key_pem("client")),
            "client chain": lambda: _one_line(stores.chain_pem("client")),
            "client.jks": lambda: stores.jks("client"),
            "client-key.jks": lambda: stores.jks("client", key_password=KEY_PASSWORD),
            "client.p12": lambda: stores.pkcs12("client"),
            "token id": lambda: kafka.delegation_token.identifier,
            "token hmac": lambda: kafka.delegation_token.hmac,
            "secrets.properties": lambda: self._file("secrets.properties", f"admin.password={USERS['admin']}\n"),
            "secrets": lambda: self._file("secrets/password", USERS["admin"]).parent,
            "token url": lambda: kafka.token_url,
            "token.jwt url": kafka.oauth.token_file.as_uri,
            "oauth key": lambda: kafka.oauth.client.file,
            "template.json": lambda: kafka.oauth.template_file,
            "assertion.jwt": lambda: kafka.oauth.assertion_file,
            "admin.keytab": lambda: kafka.kerberos.keytab("admin"),
            "ticket cache": lambda: kafka.kerberos.ticket_cache("admin"),
        }

    def _encrypted_pem(self) -> Path:
        """Encrypt the key as Java 17 reads it: PBES1 with SHA-1 and Triple DES."""
        if shutil.which("openssl") is None:
            skip_or_fail("there is no `openssl` on the PATH")
        stores = self._kafka.certificates
        command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{PASSWORD}"]
        key = subprocess.run(
            command, input=stores.key_pem("client"), capture_output=True, text=True, check=True, timeout=120
        ).stdout
        return self._file("encrypted.pem", key + stores.chain_pem("client"))

    def _file(self, name: str, content: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

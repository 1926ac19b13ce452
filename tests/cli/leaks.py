"""The faults of the leak test: each puts a marked password where a user would, and makes kcli fail with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.certificates import Certificates
from tests.secured_kafka import (
    KERBEROS_MODULE,
    LOGIN_HANDLER,
    OAUTH_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    USERS,
    SecuredKafka,
    jaas,
)

MARK = USERS["marked"]

# For the faults after which no broker answers: every command waits for as long as it may.
SILENT = ("--timeout", "0.1")


class Fault(NamedTuple):
    """A configuration of kcli: the listener, lines of the properties file, more arguments, variables, a profile."""

    listener: str
    lines: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    profile: str | None = None


def _login(module: str, mechanism: str, **options: str) -> tuple[str, ...]:
    protocol = "security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}"
    return (*protocol, f"sasl.jaas.config={jaas(module, **options)}")


PLAIN = _login(PLAIN_MODULE, "PLAIN", username="admin", password=MARK)
SCRAM = _login(SCRAM_MODULE, "SCRAM-SHA-256", username="admin", password=MARK)
OAUTH = (
    "security.protocol=SASL_PLAINTEXT",
    "sasl.mechanism=OAUTHBEARER",
    f"sasl.login.callback.handler.class={LOGIN_HANDLER}",
)


def _jaas(text: str) -> tuple[str, ...]:
    return ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", f"sasl.jaas.config={text}")


class Scene(NamedTuple):
    """The broker, a folder for files of the faults, and a token endpoint that refuses with what it was sent."""

    kafka: SecuredKafka
    folder: Path
    echo_url: str

    @property
    def stores(self) -> Certificates:
        return self.kafka.certificates

    @property
    def trust(self) -> str:
        return f"ssl.truststore.location={self.stores.authority()}"

    def file(self, name: str, text: str) -> Path:
        """Write a file of the fault."""
        path = self.folder / name
        path.write_text(text)
        return path


def _over_tls(lines: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return (*(line.replace("SASL_PLAINTEXT", "SASL_SSL") for line in lines), *more)


ENTRY = f'{PLAIN_MODULE} required username="admin" password="{MARK}"'
FAULTS: dict[str, Callable[[Scene], Fault]] = {
    "none: the password is right": lambda s: Fault(
        "SASL", _login(PLAIN_MODULE, "PLAIN", username="marked", password=USERS["marked"])
    ),
    # properties
    "-X without an equals sign": lambda s: Fault("SASL", words=("-X", f"sasl.password {MARK}")),
    "-X with a password for a number": lambda s: Fault("SASL", words=("-X", f"request.timeout.ms={MARK}")),
    "-X with an unknown name": lambda s: Fault("PLAINTEXT", words=("-X", f"sasl.passwort={MARK}")),
    "-X with two logins": lambda s: Fault(
        "SASL", PLAIN, words=("-X", f"sasl.password={MARK}", "-X", "sasl.username=admin")
    ),
    "KCLI_PROPERTY without an equals sign": lambda s: Fault("SASL", environ={"KCLI_PROPERTY": f"sasl.password {MARK}"}),
    "a file with a password for a number": lambda s: Fault("SASL", (*PLAIN, f"retry.backoff.ms={MARK}")),
    "a file with a bad escape": lambda s: Fault("SASL", (*PLAIN, f"sasl.password=\\uZZZZ{MARK}")),
    "a file with a line that is no property": lambda s: Fault("SASL", (f"={MARK}", MARK, *PLAIN)),
    "a login without protocol": lambda s: Fault("SASL", PLAIN[1:], words=SILENT),
    "librdkafka's names, misspelled": lambda s: Fault(
        "SASL", ("sasl.username=admin", f"sasl.passsword={MARK}"), SILENT
    ),
    "no terminal for a prompt": lambda s: Fault("SASL", (*PLAIN[:2],), words=("-X", "sasl.password=prompt")),
    # JAAS
    "JAAS without semicolon": lambda s: Fault("SASL", _jaas(ENTRY)),
    "JAAS with an open quote": lambda s: Fault("SASL", _jaas(ENTRY[:-1] + ";")),
    "JAAS with two modules": lambda s: Fault("SASL", _jaas(f"{ENTRY}; {ENTRY};")),
    "JAAS with a bare number": lambda s: Fault("SASL", _jaas(ENTRY.replace('"admin"', f"5{MARK}") + ";")),
    "JAAS with an unknown flag": lambda s: Fault("SASL", _jaas(ENTRY.replace("required", MARK) + ";")),
    "JAAS with an unknown module": lambda s: Fault("SASL", _jaas(ENTRY.replace("PlainLogin", "PlaneLogin") + ";")),
    "JAAS that begins with the password": lambda s: Fault("SASL", _jaas(f"{MARK} {ENTRY};")),
    "JAAS with a slash": lambda s: Fault("SASL", _jaas(f"{PLAIN_MODULE} required password={MARK}/x username=a;")),
    "JAAS with a misspelled option": lambda s: Fault("SASL", _jaas(ENTRY.replace("password=", "pasword=") + ";")),
    "JAAS of another mechanism": lambda s: Fault("SASL", (*PLAIN[:1], "sasl.mechanism=SCRAM-SHA-256", PLAIN[2])),
    "JAAS of Kerberos": lambda s: Fault(
        "SASL", _login(KERBEROS_MODULE, "GSSAPI", useKeyTab="true", keyTab="/nonexistent", password=MARK)
    ),
    # stores
    "a trust store that is missing": lambda s: Fault(
        "SSL", ("security.protocol=SSL", "ssl.truststore.location=/nonexistent", f"ssl.truststore.password={MARK}")
    ),
    "a trust store with another password": lambda s: Fault(
        "SSL",
        (
            "security.protocol=SSL",
            f"ssl.truststore.location={s.stores.pkcs12('server')}",
            f"ssl.truststore.password={MARK}",
        ),
    ),
    "a key store with another password": lambda s: Fault(
        "MTLS",
        (
            "security.protocol=SSL",
            s.trust,
            f"ssl.keystore.location={s.stores.pkcs12('client')}",
            f"ssl.keystore.password={MARK}",
            f"ssl.key.password={MARK}",
        ),
    ),
    "an encrypted key with another password": lambda s: Fault(
        "MTLS",
        (
            "security.protocol=SSL",
            s.trust,
            f"ssl.keystore.location={s.file('key.pem', _encrypted(s.stores))}",
            f"ssl.key.password={MARK}",
        ),
    ),
    "an inline key that is none": lambda s: Fault(
        "MTLS",
        (
            "security.protocol=SSL",
            s.trust,
            f"ssl.keystore.key=-----BEGIN PRIVATE KEY----- {MARK} -----END PRIVATE KEY-----",
            "ssl.keystore.certificate.chain=" + s.stores.chain_pem("client").replace("\n", "\\n"),
        ),
    ),
    "inline certificates that are none": lambda s: Fault(
        "SSL", ("security.protocol=SSL", f"ssl.truststore.certificates={MARK}")
    ),
    # config providers and files
    "a provider that is not declared": lambda s: Fault(
        "SASL", (*PLAIN[:2], f'sasl.jaas.config={ENTRY} other="${{vault:{MARK}:x}}";')
    ),
    "a bad JAAS text from a variable": lambda s: Fault(
        "SASL",
        (
            "config.providers=env",
            "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            *PLAIN[:2],
            "sasl.jaas.config=${env:JAAS}",
        ),
        environ={"JAAS": ENTRY},
    ),
    "a missing key of a file with passwords": lambda s: Fault(
        "SASL",
        (
            "config.providers=file",
            "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider",
            *PLAIN[:2],
            f"sasl.jaas.config=${{file:{s.file('secrets.properties', f'other={MARK}')}:password}}",
        ),
    ),
    "a JAAS file that is malformed": lambda s: Fault(
        "SASL",
        (*PLAIN[:2],),
        environ={
            "KAFKA_OPTS": "-Djava.security.auth.login.config=" + str(s.file("jaas.conf", f"KafkaClient {{ {ENTRY} }};"))
        },
    ),
    # profiles
    "a profile that is no TOML": lambda s: Fault("SASL", profile=f'password = {MARK}\nx = "{MARK}'),
    "a profile with an unknown key": lambda s: Fault("SASL", profile=f'[profile.p]\npassword = "{MARK}"\n'),
    "a profile with a password for a number": lambda s: Fault(
        "SASL", profile=f'[profile.p]\nproperties = {{ "retry.backoff.ms" = "{MARK}" }}\n'
    ),
    "a profile with a wrong type": lambda s: Fault(
        "SASL", words=SILENT, profile=f'[profile.p]\nproperties = {{ "sasl.password" = ["{MARK}"] }}\n'
    ),
    "a profile with a wrong password": lambda s: Fault(
        "SASL",
        profile='[profile.p]\nproperties = { "security.protocol" = "SASL_PLAINTEXT", "sasl.mechanism" = "PLAIN", '
        f'"sasl.username" = "admin", "sasl.password" = "{MARK}" }}\n',
    ),
    "a password command that fails": lambda s: Fault(
        "SASL", PLAIN[:2], profile=_profile(s.file("failing.sh", f"#!/bin/sh\necho {MARK}\nexit 3\n"))
    ),
    "a password command with a wrong password": lambda s: Fault(
        "SASL",
        (*PLAIN[:2], "sasl.username=admin"),
        profile=_profile(s.file("printing.sh", f"#!/bin/sh\necho {MARK}\n")),
    ),
    # brokers that refuse
    "PLAIN: wrong password": lambda s: Fault("SASL", PLAIN),
    "PLAIN over TLS: wrong password": lambda s: Fault("SASLS", _over_tls(PLAIN, s.trust)),
    "SCRAM: wrong password": lambda s: Fault("SASL", SCRAM),
    "SCRAM: wrong delegation token": lambda s: Fault(
        "SASL", _login(SCRAM_MODULE, "SCRAM-SHA-256", username="id", password=MARK, tokenauth="true")
    ),
    "a mechanism that is not offered": lambda s: Fault("REAUTH", PLAIN),
    "MSK's mechanism with its key": lambda s: Fault(
        "SASL",
        (
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=AWS_MSK_IAM",
            "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;",
        ),
        environ={"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": MARK, "AWS_REGION": "eu-west-1"},
    ),
    "SASL on a plain listener": lambda s: Fault("PLAINTEXT", PLAIN),
    "SASL on a TLS listener": lambda s: Fault("SASLS", PLAIN),
    "TLS to a listener without it": lambda s: Fault("SASL", _over_tls(PLAIN, s.trust)),
    "an unknown authority": lambda s: Fault(
        "SASLS", _over_tls(PLAIN, f"ssl.truststore.location={s.stores.authority('other_ca')}")
    ),
    "an expired certificate": lambda s: Fault("EXPIRED", _over_tls(PLAIN, s.trust)),
    "no host of that name": lambda s: Fault("", PLAIN, words=("-b", "no-such-host.invalid:9092", *SILENT)),
    "no listener on that port": lambda s: Fault("", PLAIN, words=("-b", "127.0.0.1:1", *SILENT)),
    # OAuth
    "OAUTHBEARER: a provider that repeats the secret": lambda s: Fault(
        "OAUTHJ",
        (
            *OAUTH,
            f"sasl.oauthbearer.token.endpoint.url={s.echo_url}",
            f"sasl.jaas.config={jaas(OAUTH_MODULE, clientId='admin', clientSecret=MARK)}",
        ),
    ),
    "OAUTHBEARER: a provider that refuses the secret": lambda s: Fault(
        "OAUTHJ",
        (
            *OAUTH,
            f"sasl.oauthbearer.token.endpoint.url={s.kafka.token_url}",
            f"sasl.jaas.config={jaas(OAUTH_MODULE, clientId='admin', clientSecret=MARK)}",
        ),
    ),
    "OAUTHBEARER: an address that is none": lambda s: Fault(
        "OAUTHJ",
        (
            *OAUTH,
            "sasl.oauthbearer.token.endpoint.url=ftp://localhost/x",
            f"sasl.jaas.config={jaas(OAUTH_MODULE, clientId='admin', clientSecret=MARK)}",
        ),
    ),
    "OAUTHBEARER: a file without a token": lambda s: Fault(
        "OAUTHJ",
        (
            *OAUTH,
            f"sasl.oauthbearer.token.endpoint.url={s.file('token.jwt', MARK).as_uri()}",
            f"sasl.jaas.config={jaas(OAUTH_MODULE)}",
        ),
    ),
    "OAUTHBEARER: a token that the broker refuses": lambda s: Fault(
        "OAUTHJ",
        (
            *OAUTH,
            f"sasl.oauthbearer.token.endpoint.url={s.file('other.jwt', _forged(s.kafka)).as_uri()}",
            f"sasl.jaas.config={jaas(OAUTH_MODULE)}",
        ),
    ),
}


def _encrypted(stores: Certificates) -> str:
    return stores.key_pem("client", password="the right one") + stores.chain_pem("client")


def _forged(kafka: SecuredKafka) -> str:
    """Return a token with a signature that ends with the mark."""
    return kafka.oauth.token("admin").rpartition(".")[0] + f".{MARK}"


def _profile(script: Path) -> str:
    script.chmod(0o700)
    return f'[profile.p]\npassword-command = ["{script}"]\n'


class EchoingProvider(BaseHTTPRequestHandler):
    """A token endpoint that refuses with the header and the body of the request."""

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        told = json.dumps({"error": "invalid", "error_description": f"{sent} {self.headers} {MARK}"}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: object) -> None:
        pass


def echoing_provider() -> ThreadingHTTPServer:
    """Return the server, which is not yet running."""
    return ThreadingHTTPServer(("127.0.0.1", 0), EchoingProvider)

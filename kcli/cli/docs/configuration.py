"""The manual page kcli-configuration(7): every client property, its sources, and the ways to give a password."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kcli.cli.docs.page import Block, Item, Page, items, paragraphs, see_also
from kcli.client import librdkafka
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.client.login import JAVA_CLASSES, LoginSettings
from kcli.security.registry_settings import RegistrySettings
from kcli.settings import Setting, format_value

_SECTIONS = {
    "PROPERTIES": """\
Client properties are those of Apache Kafka 4.3, with the same names, defaults and bounds, so that the file of Apache's
tools works unchanged:

\b
kcli topic list --command-config client.properties

Python programs write them as keywords, with underscores for dots: Consumer("orders", security_protocol="SSL"). In
Spark, they are options of the data source with the prefix kafka. (kafka.security.protocol).

The names of librdkafka, of kcat and of the clients built on it are accepted, too: each property below shows its name
there. In the arguments of kcat nothing changes but its name, and -F FILE becomes --command-config FILE. A property
that is given under both names with different values is refused.

An unknown property is reported and ignored. A security property that kcli cannot honour is refused. One without effect
is a note if a file sets it, because clients share files, and an error on the command line.""",
    "PRECEDENCE": """\
A property has several sources. From strongest to weakest:

\b
-X KEY=VALUE, --property KEY=VALUE
the option of a command, such as --bootstrap-server, --timeout, --group
the environment: KCLI_PROPERTY (KEY=VALUE, one per line),
  KCLI_BOOTSTRAP_SERVER, KCLI_SCHEMA_REGISTRY, KCLI_TIMEOUT
the profile: -P, else KCLI_PROFILE, else the current profile
the file: --command-config, else KCLI_COMMAND_CONFIG, else that of the profile
the default; for commands, bootstrap.servers=localhost:9092 and
  default.api.timeout.ms=30000

The properties of the current profile apply only if nothing else names a cluster.""",
    "PASSWORDS": """\
Other users can see a password on the command line, in the list of processes; kcli warns about it. Instead of the value,
-X, KCLI_PROPERTY and a profile take where to find it, for each property of the type password:

\b
-X sasl.password=env:NAME     the environment variable NAME
-X sasl.password=file:PATH    a file, without blanks at its ends
-X sasl.password=prompt       ask on the terminal

A profile may also name a program that prints the password: password-command = ["pass", "show", "kafka"]. A properties
file has config providers, below. As options of Spark's data source, env: and file: are resolved in the process that
connects, on the driver and on each executor; the commands of kcli spark resolve those of -X themselves.

kcli prints no password: not in errors, not with -v, not in a traceback.""",
    "FILES": """\
A properties file has the format of java.util.Properties: key=value, comments with #, a backslash at the end of a line
to continue it, and the escapes \\\\, \\t, \\n, \\uXXXX. As in Java, the bytes are ISO-8859-1: write other characters as
\\uXXXX, also inside sasl.jaas.config. kcli warns about a value in UTF-8. A file that begins with a
byte order mark is UTF-8.

Properties that only librdkafka has are read as kcat reads them: UTF-8, without escapes and continued lines.""",
    "CONFIG PROVIDERS": """\
A value may contain references to values that are kept elsewhere, also inside sasl.jaas.config:

\b
config.providers=file,dir,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
ssl.key.password=${file:/etc/kafka/secrets.properties:key-password}
ssl.keystore.password=${dir:/run/secrets:keystore-password}
ssl.truststore.password=${env:TRUSTSTORE_PASSWORD}

The parameters config.providers.NAME.param.allowed.paths and .allowlist.pattern limit the files and the variables.
Other providers are refused. A reference that has no value, or names a provider that is not declared, is an error;
Java's clients send the reference itself as the password.""",
    "LOGIN": """\
sasl.jaas.config is the login of Java's clients. Without it, kcli reads the section KafkaClient of the JAAS login file
that -X java.security.auth.login.config=FILE names, or the same system property of Java in KAFKA_OPTS. sasl.username and
sasl.password are enough for PLAIN and SCRAM; GSSAPI uses sasl.kerberos.keytab, else the credential cache, with the
krb5.conf of KRB5_CONFIG, else of java.security.krb5.conf in KAFKA_OPTS; AWS_MSK_IAM uses the credentials of
AWS. sasl.jaas.config and one of these are refused together.""",
}


def page() -> Page:
    """Return the manual page."""
    client, login = ClientConfig.SETTINGS, LoginSettings.SETTINGS
    own = {
        cls: [value for name, value in cls.SETTINGS.items() if name not in login and value is not client.get(name)]
        for cls in (ConsumerConfig, ProducerConfig)
    }
    tuning = ", ".join(sorted(librdkafka.TUNING))
    sections = {
        **{title: paragraphs(text) for title, text in _SECTIONS.items()},
        "ALL CLIENTS": _properties(value for name, value in client.items() if name not in login),
        "SECURITY": _properties(login.values()),
        "CONSUMERS": _properties(own[ConsumerConfig]),
        "PRODUCERS": _properties(own[ProducerConfig]),
        "SCHEMA REGISTRY": [*paragraphs(_REGISTRY), *_properties(RegistrySettings.SETTINGS.values())],
        "JAVA CLASSES": [
            *paragraphs(_CLASSES),
            *items((name, ", ".join(classes)) for name, classes in JAVA_CLASSES.items()),
        ],
        "WITHOUT EFFECT": [
            *items(_reasons({**ConsumerConfig.NO_EFFECT, **ProducerConfig.NO_EFFECT})),
            *paragraphs(f"Properties that tune librdkafka: {tuning}."),
        ],
        "REFUSED": items(_reasons(ClientConfig.REFUSED)),
        "SEE ALSO": see_also(("kcli(1)", "kcli-profile-list(1)", "kcli-profile-check(1)")),
    }
    return Page("kcli-configuration", "Client properties, their sources, and passwords.", sections, 7)


_REGISTRY = """\
The names are those of Confluent's clients; those of the credentials may have the prefix schema.registry. as well. TLS
has the properties schema.registry.ssl.*, as ssl.* above; if none of them is given, ssl.* applies to the registry, too,
also where security.protocol is PLAINTEXT. The host name of the registry's certificate is checked in any case, unless
schema.registry.ssl.endpoint.identification.algorithm is empty.
Schemas that were fetched by their id are kept for a week in $XDG_CACHE_HOME/kcli/schemas, by default under ~/.cache;
those of a registry on this machine are not."""
_CLASSES = "kcli does the work of these Java classes itself; others are refused."


def _properties(settings: Iterable[Setting]) -> list[Block]:
    used = (setting for setting in settings if setting.name not in ClientConfig.NO_EFFECT)
    return [Item((("B", setting.name), ("R", _form(setting))), _meaning(setting)) for setting in used]


def _form(setting: Setting) -> str:
    default = "not set" if setting.default is None else format_value(setting.default) or "empty"
    return f" ({setting.kind.lower()}; default: {default})"


def _meaning(setting: Setting) -> str:
    parts = [setting.doc]
    if setting.choices:
        parts.append(f"Values: {', '.join(value or 'empty' for value in setting.choices)}.")
    if (bounds := _bounds(setting)) is not None:
        parts.append(bounds)
    names = [name for name, kafka_name in librdkafka.KAFKA_NAMES.items() if kafka_name == setting.name]
    if setting.name in librdkafka.OWN_NAMES:
        parts.append("A property of librdkafka; Java's clients do not have it.")
    elif names:
        parts.append(f"librdkafka: {', '.join(names)}.")
    return " ".join(parts)


def _bounds(setting: Setting) -> str | None:
    low, high = setting.at_least, setting.at_most
    if low is None and high is None:
        return None
    if high is None:
        return f"At least {low}."
    return f"At most {high}." if low is None else f"From {low} to {high}."


def _reasons(reasons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, reason in sorted(reasons.items()):
        if name not in librdkafka.TUNING:
            yield f"{name}*" if name.endswith(".") else name, reason[0].upper() + reason[1:] + "."

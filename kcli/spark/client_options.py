"""Client configuration from the `kafka.*` options: refused properties, files and environment variables.

Options are sent with every task, as those of Spark's Kafka connector are. To keep a password out of them,
`kafka.config.file` names a properties file, and a value `env:NAME` or `file:PATH` is read in the process that connects.
Config providers and a JAAS login file are read there, too.

Spark shows the options of a query in plans, in its UI and in event logs. It redacts those whose names match a setting
of the session, which by default knows "password", "secret" and "token", but not JAAS texts and private keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.client.librdkafka import KAFKA_NAMES, canonical
from kcli.errors import ConfigError
from kcli.spark.option_table import CONFIG_FILE, KAFKA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig

_REFUSED = {
    "auto.offset.reset": "use startingOffsets, which a restarted stream ignores",
    "key.deserializer": "keys are bytes; decode them with functions on the column",
    "value.deserializer": "values are bytes; decode them with functions on the column",
    "enable.auto.commit": "Spark keeps the offsets; use commitGroup to commit them to a group as well",
    "interceptor.classes": "interceptors are not supported",
}
_REFUSED_FOR_WRITING = {
    "key.serializer": "keys are of type binary or string; convert them with functions on the column",
    "value.serializer": "values are of type binary or string; convert them with functions on the column",
    "interceptor.classes": "interceptors are not supported",
    "transactional.id": "tasks write side by side, and producers with the same id fence each other",
}
_NO_EFFECT = {"max.poll.records": "a task reads its range of offsets in parts of bounded size"}
_FIXED_FOR_READING = {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}
_FIXED_FOR_WRITING = {"acks": "all", "enable.idempotence": "true"}
_ALLOWED_FOR_WRITING = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
# A task has much to send at once: larger batches than Kafka's defaults for single records.
_BULK = {"batch.size": "262144", "linger.ms": "50"}
# A file: URL is a value of these.
_URLS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url")
# The source never joins a group, so properties of group members in a shared file are dropped.
_MEMBER_PROPERTIES = ("group.", "session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")


def check_kafka(kafka: Mapping[str, str], *, writes: bool = False) -> None:
    """Raise ConfigError for properties that only the source or the sink may set, and if no broker is named."""
    for name, reason in (_REFUSED_FOR_WRITING if writes else _REFUSED).items():
        if name in kafka:
            raise ConfigError(f"{KAFKA}{name} cannot be set: {reason}")
    for name, allowed in _ALLOWED_FOR_WRITING.items():
        if writes and kafka.get(name, allowed[0]).lower() not in allowed:
            raise ConfigError(f"{KAFKA}{name} cannot be {kafka[name]!r}: records are always written with acks=all")
    if "bootstrap.servers" not in kafka and CONFIG_FILE not in kafka:
        raise ConfigError(f"{KAFKA}bootstrap.servers is required, as an option or in the file of {KAFKA}{CONFIG_FILE}")


def client_config(kafka: Mapping[str, str], environ: Mapping[str, str] | None = None) -> ConsumerConfig:
    """Return the configuration for reading. Call it where the client connects: files and environment variables are
    read here.

    An option takes precedence over the file. Properties of group members, and those that the source sets itself, are
    dropped from the file.
    """
    from kcli.client.config import ConsumerConfig

    kept = _properties(kafka, os.environ if environ is None else environ, (*_REFUSED, *_MEMBER_PROPERTIES))
    return ConsumerConfig.from_properties({**kept, **_FIXED_FOR_READING})


def producer_config(kafka: Mapping[str, str], environ: Mapping[str, str] | None = None) -> ProducerConfig:
    """Return the configuration for writing, with acks=all and idempotence; else as `client_config`."""
    from kcli.client.config import ProducerConfig

    kept = _properties(kafka, os.environ if environ is None else environ, (*_REFUSED, *_REFUSED_FOR_WRITING))
    return ProducerConfig.from_properties({**_BULK, **kept, **_FIXED_FOR_WRITING})


def _properties(kafka: Mapping[str, str], environ: Mapping[str, str], dropped: tuple[str, ...]) -> dict[str, str]:
    """Return the properties with all references resolved, without those whose names begin with one of `dropped`."""
    from kcli.client.external_values import complete, read_reference

    options = {name: value for name, value in canonical(kafka).items() if name != CONFIG_FILE}
    referring = {name for name, value in options.items() if name not in _URLS and value.startswith(("env:", "file:"))}
    referred = {name: read_reference(f"{KAFKA}{name}", options[name], environ) for name in referring}
    # A value that is referred to is not searched for references of config providers.
    properties = {**_file_properties(kafka.get(CONFIG_FILE)), **options, **dict.fromkeys(referring, "env:")}
    kept = {
        name: value
        for name, value in {**complete(properties, environ), **referred}.items()
        if not name.startswith(dropped)
    }
    if "bootstrap.servers" not in kept:
        raise ConfigError(f"{KAFKA}bootstrap.servers is required, as an option or in the file of {KAFKA}{CONFIG_FILE}")
    return kept


def properties_of(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return all properties of the client, also those of a schema registry, with all references resolved."""
    return _properties(kafka, os.environ, _MEMBER_PROPERTIES)


def ignored_properties(config: ClientConfig) -> list[str]:
    """Return one sentence for each property that the client does not know or that has no effect."""
    from kcli.client.config import nearest_name

    notes = []
    for name in sorted(config.unknown):
        near = nearest_name(name)
        hint = f"; did you mean {KAFKA}{near}?" if near else ""
        notes.append(f"{KAFKA}{name} is ignored: it is not a Kafka client property{hint}")
    reasons = config.no_effect | {name: reason for name, reason in _NO_EFFECT.items() if name in config.given}
    return notes + [f"{KAFKA}{name} has no effect: {reason}" for name, reason in sorted(reasons.items())]


def _file_properties(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    from kcli.client.properties import load_properties

    try:
        with open(path, "rb") as file:
            return canonical(load_properties(file.read()))
    except OSError as error:
        raise ConfigError(f"{KAFKA}{CONFIG_FILE}: cannot read {path}: {error.strerror}") from None


# Passwords in plans

REDACTION = "spark.sql.redaction.options.regex"


def hide_passwords(spark: SparkSession) -> None:
    """Add the names of all passwords to the names that the session redacts. Repeated calls have no effect."""
    pattern = spark.conf.get(REDACTION, "") or ""
    if (ours := redacted_names()) not in pattern:
        spark.conf.set(REDACTION, f"{pattern}|{ours}" if pattern else ours)


def redacted_names() -> str:
    """Return a regular expression of Java that finds the options that are passwords, regardless of case."""
    from kcli.client.config import ClientConfig
    from kcli.schemas.registry_client import RegistrySettings

    names = {
        name for name in (*ClientConfig.SETTINGS, *KAFKA_NAMES) if ClientConfig.is_secret(KAFKA_NAMES.get(name, name))
    }
    of_registry = {name for name in RegistrySettings.SETTINGS if RegistrySettings.is_secret(name)}
    client = "|".join(re.escape(name) for name in sorted(names))
    return f"(?i:{re.escape(KAFKA)}(?:{client})|{'|'.join(re.escape(name) for name in sorted(of_registry))})"

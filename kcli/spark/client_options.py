"""Client configuration from the `kafka.*` options: refused properties, files and environment variables.

Options are sent with every task, as those of Spark's Kafka connector are. To keep a password out of them,
`kafka.config.file` names a properties file, and a value `env:NAME` or `file:PATH` is read in the process that connects.
Config providers and a JAAS login file are read there, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.spark.option_table import CONFIG_FILE, KAFKA

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig

_REFUSED = {
    "auto.offset.reset": "use startingOffsets, which a restarted stream ignores",
    "key.deserializer": "keys are bytes; decode them with functions on the column",
    "value.deserializer": "values are bytes; decode them with functions on the column",
    "enable.auto.commit": "Spark keeps the offsets; use commitGroup to commit them to a group as well",
    "interceptor.classes": "interceptors are not supported",
}
# A file: URL is a value of these.
_URLS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url")
# The source never joins a group, so properties of group members in a shared file are dropped.
_MEMBER_PROPERTIES = ("group.", "session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")


def check_kafka(kafka: Mapping[str, str]) -> None:
    """Raise ConfigError for properties that only the source may set, and if no broker is named."""
    for name, reason in _REFUSED.items():
        if name in kafka:
            raise ConfigError(f"{KAFKA}{name} cannot be set: {reason}")
    if "bootstrap.servers" not in kafka and CONFIG_FILE not in kafka:
        raise ConfigError(f"{KAFKA}bootstrap.servers is required, as an option or in the file of {KAFKA}{CONFIG_FILE}")


def client_config(kafka: Mapping[str, str], environ: Mapping[str, str] | None = None) -> ConsumerConfig:
    """Return the client configuration. Call it where the client connects: files and environment variables are read
    here.

    An option takes precedence over the file. Properties of group members, and those that the source sets itself, are
    dropped from the file.
    """
    from kcli.client.config import ConsumerConfig
    from kcli.client.external_values import complete, read_reference
    from kcli.client.librdkafka import canonical

    environ = os.environ if environ is None else environ
    options = {name: value for name, value in canonical(kafka).items() if name != CONFIG_FILE}
    referring = {name for name, value in options.items() if name not in _URLS and value.startswith(("env:", "file:"))}
    referred = {name: read_reference(f"{KAFKA}{name}", options[name], environ) for name in referring}
    # A value that is referred to is not searched for references of config providers.
    properties = {**_file_properties(kafka.get(CONFIG_FILE)), **options, **dict.fromkeys(referring, "env:")}
    fixed = {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}
    kept = {
        name: value
        for name, value in {**complete(properties, environ), **referred}.items()
        if name not in _REFUSED and not name.startswith(_MEMBER_PROPERTIES)
    }
    if "bootstrap.servers" not in kept:
        raise ConfigError(f"{KAFKA}bootstrap.servers is required, as an option or in the file of {KAFKA}{CONFIG_FILE}")
    return ConsumerConfig.from_properties({**kept, **fixed})


def ignored_properties(config: ConsumerConfig) -> list[str]:
    """Return one sentence for each property that the client does not know or that has no effect."""
    from kcli.client.config import nearest_name

    notes = []
    for name in sorted(config.unknown):
        near = nearest_name(name)
        hint = f"; did you mean {KAFKA}{near}?" if near else ""
        notes.append(f"{KAFKA}{name} is ignored: it is not a Kafka client property{hint}")
    return notes + [f"{KAFKA}{name} has no effect: {reason}" for name, reason in sorted(config.no_effect.items())]


def _file_properties(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    from kcli.client.librdkafka import canonical
    from kcli.client.properties import load_properties

    try:
        with open(path, "rb") as file:
            return canonical(load_properties(file.read()))
    except OSError as error:
        raise ConfigError(f"{KAFKA}{CONFIG_FILE}: cannot read {path}: {error.strerror}") from None

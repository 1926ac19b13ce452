"""Client configuration from the `kafka.*` options: refused properties, files and environment variables.

Options are sent with every task, so they should not contain passwords: `kafka.config.file` names a properties file, and
a value `env:NAME` or `file:PATH` is read in the process that connects.
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

    properties = {**_file_properties(kafka.get(CONFIG_FILE)), **kafka}
    fixed = {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}
    kept = {
        name: _resolve(name, value, os.environ if environ is None else environ)
        for name, value in properties.items()
        if name != CONFIG_FILE and name not in _REFUSED and not name.startswith(_MEMBER_PROPERTIES)
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
    from kcli.client.properties import load_properties

    return load_properties(_read_text(f"{KAFKA}{CONFIG_FILE}", path))


def _resolve(name: str, value: str, environ: Mapping[str, str]) -> str:
    if value.startswith("env:"):
        variable = environ.get(value[4:])
        if variable is None:
            raise ConfigError(f"{KAFKA}{name}: environment variable {value[4:]} is not set in this process")
        return variable
    return _read_text(KAFKA + name, value[5:]).strip() if value.startswith("file:") else value


def _read_text(name: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise ConfigError(f"{name}: cannot read {path}: {reason}") from None

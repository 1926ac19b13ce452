"""From `kafka.*` options to the client's configuration: what is refused, and what is read only where it is needed.

Options travel with every task, so a password had better not be in them: `kafka.config.file` names a properties file,
and a value `env:NAME` or `file:PATH` is looked up in the process that connects.
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
    "auto.offset.reset": "say startingOffsets, which a restarted stream does not ask again",
    "key.deserializer": "keys are bytes; make of them what they are with functions on the column",
    "value.deserializer": "values are bytes; make of them what they are with functions on the column",
    "enable.auto.commit": "Spark keeps the offsets; commitGroup shows them to a group",
    "interceptor.classes": "nothing may change records on their way",
}
# A reader is no member of a group, whatever a shared file of properties says.
_OF_MEMBERS = ("group.", "session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")


def check_kafka(kafka: Mapping[str, str]) -> None:
    """ConfigError for properties that the source must decide itself, and when no broker is named."""
    for name, why in _REFUSED.items():
        if name in kafka:
            raise ConfigError(f"{KAFKA}{name} cannot be set: {why}")
    if "bootstrap.servers" not in kafka and CONFIG_FILE not in kafka:
        raise ConfigError(f"{KAFKA}bootstrap.servers is required (or {KAFKA}{CONFIG_FILE} with it)")


def client_config(kafka: Mapping[str, str], environ: Mapping[str, str] | None = None) -> ConsumerConfig:
    """The client's configuration, to be made where it is needed: files and environment variables are read here.

    An option is stronger than the file. Properties of group members are left out, and so is what the source decides
    itself, where a shared file has it.
    """
    from kcli.client.config import ConsumerConfig

    properties = {**_of_file(kafka.get(CONFIG_FILE)), **kafka}
    own = {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}
    kept = {
        name: _resolve(name, value, os.environ if environ is None else environ)
        for name, value in properties.items()
        if name != CONFIG_FILE and name not in _REFUSED and not name.startswith(_OF_MEMBERS)
    }
    if "bootstrap.servers" not in kept:
        raise ConfigError(f"neither {KAFKA}bootstrap.servers nor the file of {KAFKA}{CONFIG_FILE} names a broker")
    return ConsumerConfig.from_properties({**kept, **own})


def ignored_properties(config: ConsumerConfig) -> list[str]:
    """A sentence for each property that the client does not know, to be said once."""
    from kcli.client.config import nearest_name

    told = []
    for name in sorted(config.unknown):
        near = nearest_name(name)
        hint = f"; did you mean {KAFKA}{near}?" if near else ""
        told.append(f"{KAFKA}{name} is ignored: no client of Kafka knows it{hint}")
    return told


def _of_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    from kcli.client.config import load_properties

    return load_properties(_text(f"{KAFKA}{CONFIG_FILE}", path))


def _resolve(name: str, value: str, environ: Mapping[str, str]) -> str:
    if value.startswith("env:"):
        found = environ.get(value[4:])
        if found is None:
            raise ConfigError(f"{KAFKA}{name} refers to the environment variable {value[4:]}, which is not set here")
        return found
    return _text(KAFKA + name, value[5:]).strip() if value.startswith("file:") else value


def _text(name: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise ConfigError(f"{name}: cannot read {path}: {reason}") from None

"""The table of completion: each command's arguments and options, with the kind of their values, as JSON.

The content of the table:

    families     help line by word (topic, group, ...)
    short_forms  the second word that may be omitted, by family
    commands     by the words of the command: help, arguments, options
    properties   help, default and values by name, for each kind of property

A value has a `value`, its kind: "" (nothing to complete), file, dir, profile, a name that a cluster knows (topic,
group, member, ...), or a kind of property. `choices` lists the values, `list` means that commas separate them, and
`many` that the argument or option can be repeated. The kind follows from the placeholder in the help.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kcli.admin.explain.findings import SEVERITIES
from kcli.admin.groups.listing import STATES, TYPES
from kcli.admin.health.check import KINDS
from kcli.assignors.lookup import NAMES, STRATEGIES
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS
from kcli.broker.config import BrokerConfig
from kcli.cli.command_table import GROUPS, SHORT_FOR
from kcli.cli.docs.tree import CommandDoc, OptionDoc
from kcli.cli.group.rows import SORTS
from kcli.cli.options import OUTPUTS
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.schemas.serdes import NAMES as FORMATS
from kcli.schemas.serdes import PACK_LETTERS
from kcli.settings import Setting, format_value
from kcli.spark.option_table import OPTIONS as SPARK_OPTIONS

# The kind of a value by the first word of its placeholder.
_KINDS = {
    "DIR": "dir",
    "FILE": "file",
    "GROUP": "group",
    "PATH": "file",
    "PROFILE": "profile",
    "SUBJECT": "subject",
    "TOPIC": "topic",
}
# The kind of a value by its option or placeholder and by the command, for placeholders of several meanings.
_KINDS_OF_OPTIONS = {
    ("--client-id", "group remove-members"): "client-id",
    ("--fields", "spark export"): "",
    ("--from-topic", "spark load"): "topic",
    ("--config", "broker run"): "broker-property",
    ("--config", "topic alter"): "topic-property",
    ("--config", "topic create"): "topic-property",
    ("--instance-id", "group remove-members"): "instance-id",
    ("--member", "group remove-members"): "member",
    ("--node", "cluster api-versions"): "node",
    ("--option", ""): "spark-option",
    ("--property", ""): "client-property",
    ("--remove", "assignor diff"): "member",
    ("--schema-file", "consume topic"): "file",
    ("--schema-file", "produce"): "file",
    ("--subject", "produce"): "subject",
    ("[ID]", "offsets undo"): "snapshot",
    ("[ID]", "topic undo"): "setting-snapshot",
    ("[ID]", "undo"): "any-snapshot",
}
_DECODERS = [f"{side}{name}" for side in ("", "key=", "value=") for name in FORMATS if name not in PACK_LETTERS]
_START_AND_END = ("start", "end")
# The values of options whose placeholder does not list them.
_CHOICES = {
    ("--acks", "0|1|all"): ("0", "1", "all"),
    ("--assignor", "NAME"): NAMES,
    ("--before", "PLACE"): ("end",),
    ("--to-offset", "PLACE"): _START_AND_END,
    ("--against", "N|latest|all"): ("latest", "all"),
    ("--by", "FIELD,..."): ("topic", "partition", "producer", "total"),
    ("--by", "key|key,value|sequence"): ("key", "key,value", "sequence"),
    ("--columns", "NAME,.."): ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers"),
    ("--compare", "NAME,NAME"): NAMES,
    ("--compression", "CODEC"): ("none", "gzip", "snappy", "lz4", "zstd"),
    ("--delete-config", "KEY"): tuple(TOPIC_OPTIONS),
    ("--fail-on", "NAME,..."): (*SEVERITIES, *KINDS),
    ("--dedup", "key|key,value"): ("key", "key,value"),
    ("--fail-on", "SEVERITY"): SEVERITIES,
    ("--format", "FORMAT"): (),
    ("--from", "START"): ("earliest", "latest"),
    ("--ignore", "FINDING,..."): tuple(KINDS),
    ("--isolation-level", "LEVEL"): ("read_uncommitted", "read_committed"),
    ("--offset", "[P=]RANGE"): _START_AND_END,
    ("--master", "URL"): ("local[*]", "yarn", "spark://", "k8s://"),
    ("--output", "FORMAT[:FILE]"): (*OUTPUTS, "csv:", "json:", "jsonl:", "parquet:"),
    ("--sort", "KEY"): SORTS,
    ("--state", "STATE,.."): STATES,
    ("--state", "STATE,..."): STATES,
    ("--strategy", "NAME"): tuple(STRATEGIES),
    ("--to", "NAME"): NAMES,
    ("--type", "TYPE,.."): ("classic", "consumer"),
    ("--type", "TYPE,..."): TYPES,
    ("--until", "CONDITION"): ("empty", "stable", "lag<="),
    ("--until", "END"): ("latest",),
    ("--value", "raw|string|json[:DDL]"): ("raw", "string", "json"),
}
_CHOICES_OF_COMMANDS = {
    ("--by", "spark compare"): ("key", "value", "headers", "timestamp", "partition"),
    ("--format", "spark export"): ("parquet", "json", "csv", "orc"),
    ("--format", "spark load"): ("parquet", "json", "csv", "orc"),
    ("--value", "spark export"): ("raw", "string", "json", "avro", "protobuf", "json-schema"),
    ("--serde", "consume topic"): tuple(_DECODERS),
    ("--serde", "produce"): tuple(name for name in _DECODERS if not name.endswith("auto")),
    ("SHELL", "completion"): ("bash", "zsh", "fish"),
}


def table(commands: Iterable[CommandDoc]) -> str:
    """Return the text of the table, with one line for each argument, option and property."""
    parts = {
        "families": json.dumps(GROUPS, indent=1),
        "short_forms": json.dumps(SHORT_FOR),
        "commands": _object({" ".join(command.words): _command(command) for command in commands}),
        "properties": _object(_properties()),
    }
    return _object(parts) + "\n"


def _object(parts: Mapping[str, str]) -> str:
    """Return an object of JSON with a line for each member. The values are JSON."""
    return "{\n" + ",\n".join(f'"{name}": {value}' for name, value in parts.items()) + "}"


def _array(entries: Iterable[Mapping[str, Any]]) -> str:
    return "[" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "]"


def _command(command: CommandDoc) -> str:
    path = " ".join(command.words)
    arguments = [_value(path, metavar, metavar, text) for metavar, text in command.arguments]
    options = [_option(path, option) for option in command.options]
    return _object({"help": json.dumps(command.summary), "arguments": _array(arguments), "options": _array(options)})


def _option(path: str, option: OptionDoc) -> dict[str, Any]:
    entry: dict[str, Any] = {"names": option.names}
    if option.value is not None:
        entry |= _value(path, option.names[0], option.value, option.help)
    entry["help"] = option.help
    if option.repeatable:
        entry["many"] = True
    return entry


def _value(path: str, name: str, metavar: str, help_line: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"value": "", "help": help_line}
    choices = _CHOICES_OF_COMMANDS.get((name, path), _CHOICES.get((name, metavar), ())) or listed_choices(metavar)
    if choices:
        entry["choices"] = choices
    elif (kind := _KINDS_OF_OPTIONS.get((name, path)) or _KINDS_OF_OPTIONS.get((name, ""))) is not None:
        entry["value"] = kind
    elif (word := re.match(r"\[?([A-Z]+)(?![A-Z])", metavar)) is not None:
        entry["value"] = _KINDS.get(word[1], "")
    if re.search(r",\.\.+\]?\Z|\A(\w+),\1\Z", metavar):
        entry["list"] = True
    if metavar.removesuffix("]").endswith("...") and ",..." not in metavar:
        entry["many"] = True
    return entry


def listed_choices(metavar: str) -> tuple[str, ...]:
    """Return the values in a placeholder that lists them, such as table|json|jsonl."""
    return tuple(metavar.split("|")) if re.fullmatch(r"[a-z][\w-]*(\|[a-z][\w-]*)+", metavar) else ()


def _properties() -> dict[str, str]:
    client = {**ProducerConfig.SETTINGS, **ConsumerConfig.SETTINGS}
    kinds: dict[str, Mapping[str, Setting]] = {
        "client-property": {name: option for name, option in client.items() if name not in ConsumerConfig.NO_EFFECT},
        "topic-property": TOPIC_OPTIONS,
        "broker-property": BrokerConfig.SETTINGS,
        "spark-option": SPARK_OPTIONS,
    }
    return {
        kind: _object({name: json.dumps(_property(settings[name])) for name in sorted(settings)})
        for kind, settings in kinds.items()
    }


def _property(setting: Setting) -> dict[str, Any]:
    """Return the help of a property, and its values if they are known. The name says whether the value is a file."""
    entry: dict[str, Any] = {"help": setting.doc or _default(setting)}
    choices = ("true", "false") if setting.kind == "Boolean" else tuple(value for value in setting.choices if value)
    if choices:
        entry["choices"] = choices
    elif re.search(r"(^|\.)(location|keytab|dirs?|ccache)$|\.file$", setting.name):
        entry["value"] = "file"
    if setting.kind == "List":
        entry["list"] = True
    return entry


def _default(setting: Setting) -> str:
    return "" if setting.default is None else f"default: {format_value(setting.default)}"

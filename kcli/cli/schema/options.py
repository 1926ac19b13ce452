"""Options and inputs of the `kcli schema` commands: the registry, a schema file, references, versions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, TypeAlias

from kcli.cli.environment import Environment
from kcli.cli.options import Common, check_choice
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError, KcliError, NotFound

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.schemas.outline import Outline
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.schema import Reference, Schema

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
_SUFFIXES = {".avsc": "avro", ".proto": "protobuf", ".json": "json-schema"}

Subject: TypeAlias = Annotated[str, Argument(metavar="SUBJECT", help="Subject, such as orders-value.")]
SchemaFile: TypeAlias = Annotated[
    str | None,
    Option("--schema-file", metavar="FILE", help="Use the schema of this file: .avsc, .proto or .json."),
]
SchemaType: TypeAlias = Annotated[
    str | None,
    Option("--type", metavar="|".join(KINDS), help="Set the type of the schema file. [by its suffix]"),
]
References: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="Resolve a name of the schema file by this version; repeatable. [those of the newest version]",
    ),
]


def registry_of(common: Common, url: str | None) -> SchemaRegistry:
    """Return the schema registry. ConfigError if none is named."""
    registry = common.registry(url)
    if registry is None:
        raise ConfigError("no schema registry is named; use --schema-registry URL or the property schema.registry.url")
    return registry


def version_of(option: str, text: str, names: str = "or latest") -> int | str:
    """Return a version: a number or `latest`. ConfigError for anything else, with `names` as the other choices."""
    if text == "latest":
        return text
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise ConfigError(f"{option}: {text!r} is not a version; use a number from 1, {names}")
    return int(text)


def schema_of_file(
    env: Environment, registry: SchemaRegistry, path: str, kind: str | None, references: list[str] | None, subject: str
) -> Schema:
    """Return the schema of a file. Its references are the given ones, else those of the subject's newest version."""
    from kcli.schemas.decoders import read_schema_file
    from kcli.schemas.schema import Schema

    full_kind, text = KINDS[_kind_of_file(path, kind)], read_schema_file(path)
    if references:
        return Schema(full_kind, text, tuple(map(_reference, references)))
    try:
        newest = registry.latest(subject)
    except NotFound:
        return Schema(full_kind, text)
    if newest.kind != full_kind or not newest.references:
        return Schema(full_kind, text)
    names = ", ".join(f"{reference.name}={reference.subject}:{reference.version}" for reference in newest.references)
    env.report(f"kcli: note: {path} has the references of version {newest.version}: {names}")
    return Schema(full_kind, text, newest.references)


def _kind_of_file(path: str, given: str | None) -> str:
    if given is not None:
        check_choice("--type", given, KINDS)
        return given
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        raise ConfigError(f"--schema-file: the type of {path!r} is not known; use --type {', '.join(KINDS)}")
    return _SUFFIXES[suffix]


def _reference(text: str) -> Reference:
    from kcli.schemas.schema import Reference

    name, found, rest = text.partition("=")
    subject, colon, version = rest.rpartition(":")
    if not (found and colon and name and subject and version.isdigit()):
        raise ConfigError(
            f"--reference: {text!r} is not valid; use NAME=SUBJECT:VERSION, such as common.proto=common:1"
        )
    return Reference(name, subject, int(version))


def item_of(schema: Schema) -> Item:
    """Return the fields of a schema in a report, without its text."""
    references = [
        {"name": reference.name, "subject": reference.subject, "version": reference.version}
        for reference in schema.references
    ]
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid,
        "type": schema.kind,
        "references": references,
    }


def outline_of(registry: SchemaRegistry, schema: Schema) -> Outline:
    """Return the outline of a schema. Raise KcliError if it is not valid."""
    from kcli.schemas.outline import avro_outline, json_document, json_schema_outline, protobuf_outline

    if schema.kind == "AVRO":
        return avro_outline(json_document(schema.text, "Avro"))
    if schema.kind == "JSON":
        return json_schema_outline(json_document(schema.text, "JSON"))
    if schema.kind != "PROTOBUF":
        raise KcliError(f"schemas of the type {schema.kind} cannot be compared")
    from kcli.schemas.protobuf_schema import messages_of, require_protobuf

    require_protobuf()
    try:
        messages = messages_of(schema.text, {name: used.text for name, used in registry.closure(schema)})
    except ValueError as error:
        raise KcliError(f"the Protobuf schema is not valid: {error}") from None
    return protobuf_outline(messages.file)

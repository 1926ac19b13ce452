"""Outlines of schemas, one line for each field, and the differences of two. Pure.

An outline has a path for each field and attribute: `items[].price` is a field of the elements of an array, `tags{}` the
values of a map, `price @default` an attribute, `(Cat).name` a field of one of a union's branches. A schema of Protobuf
has `Order.id` for a field and `Colour.RED` for a value of an enum. A name of JSON that could be another path is quoted:
`"a.b"`. Nothing that a reader of records can notice is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcli.errors import KcliError

Outline = dict[str, str]
_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_OF_TYPES = {"type", "name", "namespace", "fields", "items", "values", "symbols", "size", "logicalType"}
_OF_DECIMALS = {"precision", "scale"}
_OF_OBJECTS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_OF_ALTERNATIVES = ("allOf", "anyOf", "oneOf", "prefixItems")
_OF_PARTS = ("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


class Change(NamedTuple):
    """One difference: a path with its text before and after. `kind`: added, removed or changed."""

    path: str
    kind: str
    old: str | None
    new: str | None


def changes(old: Outline, new: Outline) -> list[Change]:
    """Return the differences of two outlines, in the order of the old one, the added lines after their neighbours."""
    added: dict[str | None, list[str]] = {}
    neighbour: str | None = None
    for path in new:
        if path in old:
            neighbour = path
        else:
            added.setdefault(neighbour, []).append(path)
    order = [*added.get(None, ()), *(shown for path in old for shown in (path, *added.get(path, ())))]
    found = []
    for path in order:
        before, after = old.get(path), new.get(path)
        if before != after:
            kind = "added" if before is None else "removed" if after is None else "changed"
            found.append(Change(path, kind, before, after))
    return found


def json_document(text: str, kind: str) -> Any:
    """Return the document of an Avro or JSON schema. Raise KcliError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise KcliError(f"the {kind} schema is not valid JSON") from None


# Avro


def avro_outline(document: Any) -> Outline:
    """Return the outline of an Avro schema. Raise KcliError."""
    try:
        return dict(_avro(document, "", ""))
    except RecursionError:
        raise KcliError("the Avro schema is nested too deeply") from None


def _avro(schema: Any, path: str, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a schema and of what it contains."""
    yield path or ".", _avro_type(schema, namespace)
    yield from _avro_parts(schema, path, namespace)


def _avro_parts(schema: Any, path: str, namespace: str) -> Iterator[tuple[str, str]]:
    if isinstance(schema, list):
        parts = [branch for branch in schema if isinstance(branch, dict)]
        for branch in parts:
            name = _full_name(branch, namespace) if "name" in branch else _text(branch.get("type"))
            yield from _avro_parts(branch, path if len(parts) == 1 else f"{path}({name})", namespace)
        return
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind in ("record", "error"):
        namespace = _full_name(schema, namespace).rpartition(".")[0]
        for field in _dicts(schema.get("fields")):
            inner = f"{path}.{field.get('name')}" if path else str(field.get("name"))
            yield from _avro(field.get("type"), inner, namespace)
            for name, value in field.items():
                if name not in ("name", "type"):
                    yield f"{inner} @{name}", _text(value)
    elif kind == "array":
        yield from _avro_parts(schema.get("items"), f"{path}[]", namespace)
    elif kind == "map":
        yield from _avro_parts(schema.get("values"), f"{path}{{}}", namespace)
    elif isinstance(kind, (dict, list)):
        yield from _avro_parts(kind, path, namespace)
    used = _OF_TYPES | _OF_DECIMALS if schema.get("logicalType") == "decimal" else _OF_TYPES
    where = (
        f"{path} ".lstrip() if kind not in ("record", "error", "enum", "fixed") else f"{_full_name(schema, namespace)} "
    )
    for name, value in schema.items():
        if name not in used:
            yield f"{where}@{name}", _text(value)


def _avro_type(schema: Any, namespace: str) -> str:
    """Return a type on one line; a record is its name."""
    if isinstance(schema, list):
        return " | ".join(_avro_type(branch, namespace) for branch in schema)
    if isinstance(schema, str):
        is_full = schema in _PRIMITIVES or "." in schema or not namespace
        return schema.removeprefix(".") if is_full else f"{namespace}.{schema}"
    if not isinstance(schema, dict):
        return _text(schema)
    kind = schema.get("type")
    if kind == "array":
        text = f"array of {_avro_type(schema.get('items'), namespace)}"
    elif kind == "map":
        text = f"map of {_avro_type(schema.get('values'), namespace)}"
    elif kind == "enum":
        symbols = schema.get("symbols")
        shown = ", ".join(map(str, symbols)) if isinstance(symbols, list) else _text(symbols)
        text = f"enum {_full_name(schema, namespace)} ({shown})"
    elif kind == "fixed":
        text = f"fixed {_full_name(schema, namespace)} ({schema.get('size')} bytes)"
    elif kind in ("record", "error"):
        text = f"{kind} {_full_name(schema, namespace)}"
    else:
        text = _avro_type(kind, namespace)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"{text} decimal({schema.get('precision')}, {schema.get('scale', 0)})"
    return text if logical is None else f"{text} {logical}"


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name, own = str(schema.get("name")), schema.get("namespace", namespace)
    return name.removeprefix(".") if "." in name or not own else f"{own}.{name}"


# JSON Schema


def json_schema_outline(document: Any) -> Outline:
    """Return the outline of a JSON schema. Raise KcliError."""
    try:
        return dict(_json_schema(document, ""))
    except RecursionError:
        raise KcliError("the JSON schema is nested too deeply") from None


def _json_schema(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        yield path or ".", _text(schema)
        return
    kind = schema.get("type", schema.get("$ref", "any"))
    yield path or ".", " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    for name, value in schema.items():
        if name in _OF_OBJECTS and isinstance(value, dict):
            prefix = "" if name == "properties" else f"{name}/"
            for inner, part in value.items():
                inner = f"{prefix}{_member(inner)}"
                yield from _json_schema(part, f"{path}.{inner}" if path else inner)
        elif name in _OF_ALTERNATIVES and isinstance(value, list):
            for number, part in enumerate(value):
                yield from _json_schema(part, f"{path} {name}[{number}]".lstrip())
        elif name == "items" and isinstance(value, dict):
            yield from _json_schema(value, f"{path}[]")
        elif name in _OF_PARTS and isinstance(value, dict):
            yield from _json_schema(value, f"{path} {name}".lstrip())
        elif name == "required" and isinstance(value, list):
            for inner in map(_member, value):
                yield f"{path}.{inner} @required" if path else f"{inner} @required", "true"
        elif name not in ("type", "$ref") or (name == "$ref" and "type" in schema):
            yield f"{path} @{name}".lstrip(), _text(value)


def _member(name: Any) -> str:
    """Return the name of a member in a path: quoted if the path could be that of another one."""
    is_plain = re.fullmatch(r"[\w$-]+", str(name)) and name not in _OF_PARTS
    return str(name) if is_plain else json.dumps(name, ensure_ascii=False)


# Protobuf


def protobuf_outline(file: Any) -> Outline:
    """Return the outline of a FileDescriptorProto."""
    lines: Outline = {"@syntax": file.syntax or "proto2"}
    if file.package:
        lines["@package"] = file.package
    for name in file.dependency:
        lines[f"@import {name}"] = name
    for enum in file.enum_type:
        lines |= _enum(enum, "")
    for message in file.message_type:
        lines |= _message(message, "")
    for service in file.service:
        for method in service.method:
            lines[f"{service.name}.{method.name}"] = f"{_short(method.input_type)} -> {_short(method.output_type)}"
    return lines


_LABELS = {2: "required ", 3: "repeated "}


def _message(message: Any, path: str) -> Outline:
    path = f"{path}.{message.name}" if path else message.name
    lines: Outline = {path: "message"}
    entries = {f".{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
    for field in message.field:
        entry = next(
            (found for end, found in entries.items() if field.type_name.endswith(f"{message.name}{end}")), None
        )
        if entry is not None:
            text = f"map<{_field_type(entry.field[0])}, {_field_type(entry.field[1])}>"
        else:
            optional = "optional " if field.proto3_optional else ""
            text = f"{optional or _LABELS.get(field.label, '')}{_field_type(field)}"
        if field.HasField("oneof_index") and not field.proto3_optional:
            text += f" of {message.oneof_decl[field.oneof_index].name}"
        lines[f"{path}.{field.name}"] = f"{text} = {field.number}"
        if field.HasField("default_value"):
            lines[f"{path}.{field.name} @default"] = field.default_value
        if field.options.ByteSize():
            lines[f"{path}.{field.name} @options"] = " ".join(str(field.options).split())
    reserved = [
        f"{gap.start}" if gap.end - gap.start == 1 else f"{gap.start} to {gap.end - 1}"
        for gap in message.reserved_range
    ]
    if reserved or message.reserved_name:
        lines[f"{path} @reserved"] = ", ".join([*reserved, *message.reserved_name])
    for enum in message.enum_type:
        lines |= _enum(enum, path)
    for nested in message.nested_type:
        if not nested.options.map_entry:
            lines |= _message(nested, path)
    return lines


def _enum(enum: Any, path: str) -> Outline:
    path = f"{path}.{enum.name}" if path else enum.name
    return {path: "enum", **{f"{path}.{value.name}": str(value.number) for value in enum.value}}


def _field_type(field: Any) -> str:
    if field.type_name:
        return _short(field.type_name)
    descriptor = field.DESCRIPTOR.fields_by_name["type"].enum_type
    return str(descriptor.values_by_number[field.type].name.removeprefix("TYPE_").lower())


def _short(name: str) -> str:
    return name.removeprefix(".")


# Shared


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []

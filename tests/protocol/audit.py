"""Comparison of the message declarations with Kafka's definitions: the fields of each version, and common facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from kcli.protocol.registry import ApiKey, request_type, response_type
from kcli.protocol.wire import FieldType, Message, fields_of
from tests.protocol.kafka_definitions import (
    FieldFacts,
    Versions,
    children,
    default_of,
    fields_in,
    load_definitions,
    snake_case,
    stable_versions,
    versions,
)


def audit(source: Path) -> list[str]:
    """Return one sentence per difference between the declarations and the definitions at `source`."""
    definitions = load_definitions(source)
    return [difference for cls in our_messages() for difference in compare(cls, definitions)]


def our_messages() -> list[type[Message]]:
    """Return every request and response class of kcli."""
    return [cls for key in ApiKey for cls in (request_type(key), response_type(key))]


def compare(cls: type[Message], definitions: dict[str, Any]) -> Iterator[str]:
    """Return the differences of one message."""
    theirs = definitions.get(cls.__name__)
    if theirs is None:
        yield f"{cls.__name__}: Kafka has no such message"
        return
    valid = stable_versions(definitions, cls.__name__)
    facts = [
        ("API key", cls.API_KEY, theirs["apiKey"]),
        ("versions", cls.VERSIONS, tuple(valid)),
        ("first flexible version", cls.FLEXIBLE, _first(versions(theirs["flexibleVersions"]))),
    ]
    for what, ours, kafkas in facts:
        if ours != kafkas:
            yield f"{cls.__name__}: {what} is {ours}, in Kafka {kafkas}"
    named = _names_in_both(definitions, cls.__name__)
    for version in range(max(cls.VERSIONS[0], valid.first), min(cls.VERSIONS[1], valid.last) + 1):
        yield from _compare_version(cls, version, theirs, named)
    shared = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", ())}
    yield from _compare_defaults(cls, theirs["fields"], cls.__name__, valid, shared)


def _first(range_: Versions) -> int | None:
    return range_.first if range_.first <= range_.last else None


def _names_in_both(definitions: dict[str, Any], name: str) -> set[str]:
    """Return the names of structs that request and response define: in kcli, one of two has another name."""
    request, response = (re.sub("(Request|Response)$", kind, name) for kind in ("Request", "Response"))
    return _struct_names(definitions[request]) & _struct_names(definitions[response])


def _struct_names(definition: dict[str, Any]) -> set[str]:
    inside = [*definition.get("commonStructs", ()), *(field for field in definition["fields"] if "fields" in field)]
    names = {struct.get("type", struct["name"]).removeprefix("[]") for struct in inside}
    return names.union(*map(_struct_names, inside))


def _compare_version(cls: type[Message], version: int, theirs: dict[str, Any], named: set[str]) -> Iterator[str]:
    kafkas = fields_in(theirs, version)
    renamed = {field.path: field.type for field in kafkas if field.type.removeprefix("[]") in named}
    ours = list(_our_fields(cls, "", version, renamed))
    where = f"{cls.__name__} v{version}"
    yield from (f"{where}: ours has {field}, Kafka not" for field in ours if field not in kafkas)
    yield from (f"{where}: Kafka has {field}, ours not" for field in kafkas if field not in ours)
    if ours != kafkas and set(ours) == set(kafkas):
        yield f"{where}: the fields are in another order"


def _our_fields(cls: type, prefix: str, version: int, renamed: dict[str, str]) -> Iterator[FieldFacts]:
    """Return the fields of the version. A struct at a path in `renamed` has the type given there."""
    for field in fields_of(cls):
        if field.is_in(version):
            path, struct = prefix + field.name, _struct_in(field.type)
            kind = _type_name(field.type)
            if struct and renamed.get(path, "").startswith("[]") == kind.startswith("[]"):
                kind = renamed.get(path, kind)
            yield FieldFacts(path, kind, field.may_be_null(version), field.tag)
            if struct:
                yield from _our_fields(struct, path + ".", version, renamed)


def _type_name(type: FieldType) -> str:
    if type.element is not None:
        return "[]" + _type_name(type.element)
    return type.struct.__name__ if type.struct is not None else type.wire.name


def _struct_in(type: FieldType) -> type | None:
    return type.struct if type.element is None else type.element.struct


def _compare_defaults(
    cls: type, theirs: list[dict[str, Any]], where: str, parent: Versions, shared: dict[str, Any]
) -> Iterator[str]:
    """Compare defaults, and `ignorable` of fields that some version lacks although it has their struct."""
    ours = {field.name: field for field in fields_of(cls)}
    for field in theirs:
        name = snake_case(field["name"])
        first, last = versions(field["versions"])
        carried = Versions(max(first, parent.first), min(last, parent.last))
        if name not in ours or carried.first > carried.last:
            continue  # absent fields are reported by the comparison of versions
        mine = ours[name]
        if _plain(mine.make_default()) != default_of(field):
            yield f"{where}.{name}: the default is {mine.default!r}, in Kafka {default_of(field)!r}"
        if carried != parent and mine.ignorable != field.get("ignorable", False):
            yield f"{where}.{name}: ignorable is {mine.ignorable}, in Kafka {field.get('ignorable', False)}"
        if struct := _struct_in(mine.type):
            yield from _compare_defaults(struct, children(field, shared), f"{where}.{name}", carried, shared)


def _plain(default: Any) -> Any:
    if isinstance(default, UUID):
        return str(default)
    return default if isinstance(default, (int, float, str, bytes, list, type(None))) else "struct"

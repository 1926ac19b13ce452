"""Types of a schema of Avro by name, and the schema made safe for fastavro. Pure.

fastavro reads recursive values with C recursion: a few bytes of a payload could crash the process. For fastavro,
recursive types are therefore unrolled to `MAX_LEVELS` copies, whose names no type of the schemas can have. Logical
types get names with the prefix `kcli-`, whose readers `kcli.schemas.avro` registers, because fastavro's lose digits, or
fail outside datetime's years.

Source: https://avro.apache.org/docs/1.12.0/specification/.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kcli.schemas.contracts import MAX_DEPTH
from kcli.schemas.simple_formats import check_depth

#: Most levels of a type within itself.
MAX_LEVELS = 64

TOO_DEEP = "kcli-too-deep"
RESOLVED = "kcli-resolved"

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
_MAX_NODES = 100_000
_MOST_SCALE = 10_000

#: Logical types, and their base types.
LOGICAL = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
}


# The types with logical types that a reader may have for a type of the writer.
_PROMOTED = {
    "int": ("int", "long"),
    "long": ("long",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "fixed": ("fixed",),
}


class SchemaTree:
    """The types of a schema, and of those it refers to, by full name. Raise ValueError if it is not a valid schema."""

    def __init__(self, text: str, referred: Iterable[str] = ()) -> None:
        """`referred` has the texts of other schemas: those without references of their own first."""
        self.types: dict[str, tuple[dict[str, Any], str]] = {}
        for other in referred:
            self._collect(_parsed(other), "", 0)
        self.root = _parsed(text)
        self._collect(self.root, "", 0)
        self._sizes: dict[str, int] = {}
        self._depths: dict[str, int] = {}
        self.recursive = self._recursive_names()
        for name in self.recursive:
            self._measure(name)

    def _collect(self, schema: Any, namespace: str, depth: int) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace, depth + 1)
        if not isinstance(schema, (str, list, dict)):
            raise ValueError(f"{json.dumps(schema)} is not a type")
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        if kind in _NAMED:
            name, namespace = full_name(schema, namespace)
            first, _ = self.types.setdefault(name, (schema, namespace))
            if first != schema and _shape(first, self.types[name][1]) != _shape(schema, namespace):
                raise ValueError(f"there are two different types {name!r}")
        for part, inner in parts_of(schema, namespace):
            self._collect(part, inner, depth + 1)

    def _recursive_names(self) -> frozenset[str]:
        """The names of types that contain themselves, found by removing those that contain only finished ones."""
        uses = {name: set(self._used(schema, namespace)) for name, (schema, namespace) in self.types.items()}
        users: dict[str, list[str]] = {name: [] for name in uses}
        for name, used in uses.items():
            for other in used:
                users[other].append(name)
        missing = {name: len(used) for name, used in uses.items()}
        finished = [name for name, count in missing.items() if count == 0]
        for name in finished:
            self._measure(name)
            for user in users[name]:
                missing[user] -= 1
                if missing[user] == 0:
                    finished.append(user)
        return frozenset(missing.keys() - finished)

    def _measure(self, name: str) -> None:
        """Set the levels of records, arrays and maps in a type, where one that contains itself counts as a leaf."""
        schema, namespace = self.types[name]
        depth = max((self._depth(part, inner) for part, inner in parts_of(schema, namespace)), default=0) + 1
        if depth > MAX_DEPTH:
            raise ValueError(f"its types are nested deeper than {MAX_DEPTH} levels")
        self._depths[name] = depth

    def _depth(self, schema: Any, namespace: str) -> int:
        if isinstance(schema, str):
            return 0 if schema in PRIMITIVES else self._depths.get(self.resolve(schema, namespace), 0)
        if isinstance(schema, list):
            return max((self._depth(branch, namespace) for branch in schema), default=0)
        if schema.get("type") in _NAMED:
            return self._depths.get(full_name(schema, namespace)[0], 0)
        own = int(schema.get("type") in ("array", "map"))
        return own + max((self._depth(part, inner) for part, inner in parts_of(schema, namespace)), default=0)

    def _used(self, schema: Any, namespace: str, *, is_inner: bool = False) -> Iterable[str]:
        """Yield the names of the types that a type contains, not those within these."""
        if isinstance(schema, str):
            if schema not in PRIMITIVES:
                yield self.resolve(schema, namespace)
        elif isinstance(schema, list):
            for branch in schema:
                yield from self._used(branch, namespace, is_inner=True)
        elif is_inner and schema.get("type") in _NAMED:
            yield full_name(schema, namespace)[0]
        else:
            for part, inner in parts_of(schema, namespace):
                yield from self._used(part, inner, is_inner=True)

    def resolve(self, name: str, namespace: str) -> str:
        """Return the full name of a type that a schema names within a namespace."""
        full = name.removeprefix(".") if "." in name or not namespace else f"{namespace}.{name}"
        if full in self.types:
            return full
        if name in self.types:
            return name
        raise ValueError(f"there is no type {name!r}")

    def least_bytes(self, schema: Any, namespace: str, depth: int = 0) -> int:
        """Return the fewest bytes that a value takes, at most 1."""
        if isinstance(schema, list):
            return 1
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return int(schema != "null")
            name = self.resolve(schema, namespace)
            if name not in self._sizes:
                self._sizes[name] = 1  # a value that contains itself without a union, array or map is endless
                self._sizes[name] = self.least_bytes(*self.types[name], depth + 1)
            return self._sizes[name]
        kind = schema.get("type")
        if kind in ("record", "error"):
            _, namespace = full_name(schema, namespace)
            return max((self.least_bytes(it["type"], namespace, depth + 1) for it in schema["fields"]), default=0)
        if kind == "fixed":
            return int(schema["size"] > 0)
        return 1 if kind in ("enum", "array", "map") else self.least_bytes(kind, namespace, depth + 1)


def full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a named type and the namespace of the names inside it."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"a type {schema.get('type')} has no name")
    if name in PRIMITIVES:
        raise ValueError(f"a type cannot have the name {name!r}")
    if "." in name:  # with a dot at its beginning, a name has no namespace
        return name.removeprefix("."), name.rpartition(".")[0]
    own = schema.get("namespace", namespace)
    own = own if isinstance(own, str) else ""
    return (f"{own}.{name}" if own else name), own


def parts_of(schema: Mapping[str, Any], namespace: str) -> list[tuple[Any, str]]:
    """Return the types inside a type that is an object, each with its namespace. Raise ValueError."""
    kind = schema.get("type")
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(it, dict) and "type" in it for it in fields):
            raise ValueError(f"record {schema.get('name')!r} has no valid list of fields")
        inner = full_name(schema, namespace)[1]
        return [(it["type"], inner) for it in fields]
    if kind in ("array", "map"):
        name = "items" if kind == "array" else "values"
        if name not in schema:
            raise ValueError(f"a type {kind} has no {name}")
        return [(schema[name], namespace)]
    if kind == "fixed":
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ValueError(f"fixed {schema.get('name')!r} has no valid size")
        return []
    if kind == "enum":
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(it, str) for it in symbols):
            raise ValueError(f"enum {schema.get('name')!r} has no valid list of symbols")
        return []
    if isinstance(kind, (str, list, dict)):
        return [] if isinstance(kind, str) and kind in PRIMITIVES else [(kind, namespace)]
    raise ValueError("a type has no valid member 'type'")


def _shape(schema: Mapping[str, Any], namespace: str) -> Any:
    """Return what the bytes of a named type depend on: not its documentation, nor the writing of names."""
    kind = schema["type"]
    parts = [_part_shape(part, inner) for part, inner in parts_of(schema, namespace)]
    if kind in ("record", "error"):
        return kind, [(field.get("name"), part) for field, part in zip(schema["fields"], parts, strict=True)]
    return kind, schema.get("symbols"), schema.get("size"), _logical_shape(schema)


def _part_shape(schema: Any, namespace: str) -> Any:
    if isinstance(schema, str):
        is_full = schema in PRIMITIVES or "." in schema or not namespace
        return schema.removeprefix(".") if is_full else f"{namespace}.{schema}"
    if not isinstance(schema, dict):
        return [_part_shape(branch, namespace) for branch in schema] if isinstance(schema, list) else schema
    kind = schema.get("type")
    if kind in _NAMED:
        return full_name(schema, namespace)[0]
    parts = [_part_shape(part, inner) for part, inner in parts_of(schema, namespace)]
    if kind in ("array", "map"):
        return kind, parts[0]
    logical = _logical_shape(schema)
    part = parts[0] if parts else kind
    return (part, logical) if any(logical) else part


def _logical_shape(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(schema.get(name) for name in ("logicalType", "precision", "scale"))


class Expansion:
    """The schema of a tree in the form that fastavro reads safely.

    fastavro makes values of the logical types of the writer. In the schema of a writer, all types that have one, or may
    have one in the reader's, therefore have the logical type `RESOLVED`, which knows the reader's type, too.
    """

    def __init__(self, tree: SchemaTree, separator: str, reader: Expansion | None = None) -> None:
        """`separator` is that of `separator_of`; `reader` the expansion of the reader's schema if this is the writer's.

        `has_empty_items`: an array has items that take no bytes. It is set by `root`.
        """
        self._tree = tree
        self._separator = separator
        # fastavro cannot name a type without a namespace inside one that has one.
        self._prefix = f"{separator}." if any("." in name for name in tree.types) else ""
        self._reader = reader
        self.has_empty_items = False
        self._with_logical: set[str] = set()
        self._written: set[str] = set()
        self._nodes = 0

    def root(self) -> Any:
        """Return the schema. Raise ValueError."""
        return self._build(self._tree.root, "", 0)

    def _build(self, schema: Any, namespace: str, level: int) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise ValueError(f"it has more than {_MAX_NODES} types")
        if isinstance(schema, list):
            return [self._build(branch, namespace, level) for branch in schema]
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return self._logical({}, schema) or schema
            return self._named(*self._tree.types[self._tree.resolve(schema, namespace)], level)
        kind = schema.get("type")
        if kind in _NAMED:
            return self._named(schema, namespace, level)
        if kind == "array":
            if self._tree.least_bytes(schema["items"], namespace) == 0:
                self.has_empty_items = True
            return {"type": "array", "items": self._build(schema["items"], namespace, level)}
        if kind == "map":
            return {"type": "map", "values": self._build(schema["values"], namespace, level)}
        if isinstance(kind, str) and kind in PRIMITIVES:
            return self._logical(schema, kind) or kind
        return self._build(kind, namespace, level)

    def _named(self, schema: Mapping[str, Any], namespace: str, level: int) -> Any:
        name, inner = full_name(schema, namespace)
        kind = schema["type"]
        suffix = ""
        if name in self._tree.recursive:
            level += 1
            if level > MAX_LEVELS:
                return {"type": "null", "logicalType": TOO_DEEP}
            suffix = f"{self._separator}{level}"
        unique = f"{'' if '.' in name else self._prefix}{name}{suffix}"
        if unique in self._written:
            return unique
        self._written.add(unique)
        built: dict[str, Any] = {"type": kind, "name": unique}
        aliases = schema.get("aliases")
        if isinstance(aliases, list):
            built["aliases"] = [f"{alias}{suffix}" for alias in aliases if isinstance(alias, str)]
        if suffix:  # in another version of the schema, the type may not be recursive
            built["aliases"] = [*built.get("aliases", ()), name]
        if kind == "enum":
            built["symbols"] = schema["symbols"]
            if isinstance(schema.get("default"), str):
                built["default"] = schema["default"]
        elif kind == "fixed":
            built |= self._logical(schema, kind) or {}
            built["size"] = schema["size"]
        else:
            built["fields"] = [
                {name: field[name] for name in ("name", "default", "aliases") if name in field}
                | {"type": self._build(field["type"], inner, level)}
                for field in schema["fields"]
            ]
        return built

    def _logical(self, schema: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
        """Return the type with its logical type; None if it has none, or one that is not valid (as Avro says)."""
        name = logical_type(schema, kind)
        if name is None:
            may_have = self._reader is not None and not self._reader._with_logical.isdisjoint(_PROMOTED.get(kind, ()))
            return {"type": kind, "logicalType": RESOLVED} if may_have else None
        self._with_logical.add(kind)
        own = {"type": kind, "logicalType": f"kcli-{name}"}
        if name == "decimal":
            own["kcliScale"] = schema.get("scale", 0)
        return own if self._reader is None else {**own, "logicalType": RESOLVED, "kcliName": own["logicalType"]}


def separator_of(*trees: SchemaTree) -> str:
    """Return the text between the name of an unrolled type and its level: no name of the schemas contains it."""
    types = {name: schema for tree in trees for name, (schema, _) in tree.types.items()}
    names = json.dumps([*types, *(schema.get("aliases") for schema in types.values())])
    return "_" * (1 + max(map(len, re.findall("_+", names)), default=0))


def logical_type(schema: Mapping[str, Any], kind: str) -> str | None:
    """Return the logical type of a type, None if it has none that is known and valid."""
    name = schema.get("logicalType")
    if not isinstance(name, str) or kind not in LOGICAL.get(name, ()):
        return None
    if name == "decimal":
        return name if _is_decimal(schema, kind) else None
    if kind == "fixed" and schema.get("size") != {"uuid": 16, "duration": 12}[name]:
        return None
    return name


def _is_decimal(schema: Mapping[str, Any], kind: str) -> bool:
    """Return whether precision and scale are valid: a fixed must have room for each number of the precision."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= min(precision, _MOST_SCALE):
        return False
    return precision > 0 and (kind == "bytes" or precision <= math.floor(math.log10(2) * (8 * schema["size"] - 1)))


def _parsed(text: str) -> Any:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        # Some registries give a schema of one name without quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise ValueError(f"it is not JSON: {error}") from None
    check_depth(schema)
    return schema

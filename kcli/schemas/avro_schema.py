"""Types of a schema of Avro by name, and the reader's type for a type of the writer. Pure.

Source: https://avro.apache.org/docs/1.12.0/specification/, also its section "Schema Resolution".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcli.schemas.contracts import MAX_DEPTH
from kcli.schemas.simple_formats import check_depth

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "error", "enum", "fixed")
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


# The types that a value of a primitive type may become in the reader's schema.
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Type(NamedTuple):
    """A type where a schema uses it: its kind ("union", "record", "int", ...), its schema, and the namespace in it."""

    kind: str
    schema: Any
    namespace: str


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

    def definition(self, schema: Any, namespace: str) -> Type:
        """Return the type that a schema is, names or contains as its only type. Raise ValueError."""
        while True:
            if isinstance(schema, list):
                return Type("union", schema, namespace)
            if isinstance(schema, str):
                if schema in PRIMITIVES:
                    return Type(schema, {}, namespace)
                schema, namespace = self.types[self.resolve(schema, namespace)]
            kind = schema.get("type")
            if kind in _NAMED:
                return Type("record" if kind == "error" else kind, schema, namespace)
            if isinstance(kind, str) and (kind in ("array", "map") or kind in PRIMITIVES):
                return Type(kind, schema, namespace)
            schema = kind

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
            return max((self.least_bytes(field["type"], namespace, depth + 1) for field in schema["fields"]), default=0)
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
        if not isinstance(fields, list) or not all(isinstance(field, dict) and "type" in field for field in fields):
            raise ValueError(f"record {schema.get('name')!r} has no valid list of fields")
        inner = full_name(schema, namespace)[1]
        return [(field["type"], inner) for field in fields]
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
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
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


def reader_type(written: Type, tree: SchemaTree, schema: Any, namespace: str) -> Type | None:
    """Return the type of the reader's `schema` that takes values of the writer's type, not a union; None without one.

    In a union it is the branch of the same name or kind, else the first of the same unqualified name, of an alias, or
    to which values are promoted. That a record has the fields it needs is not checked, nor the items of arrays.
    """
    wanted = tree.definition(schema, namespace)
    branches = [wanted]
    if wanted.kind == "union":
        branches = [tree.definition(branch, wanted.namespace) for branch in wanted.schema]
    fitting = ((_distance(written, branch), branch) for branch in branches)
    ranked = [(distance, branch) for distance, branch in fitting if distance is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _distance(written: Type, reader: Type) -> int | None:
    """Return 0 for the same type, 1 for another name of it, 2 and more for promotions; None if it does not fit."""
    if written.kind != reader.kind:
        promoted = _PROMOTED.get(written.kind, ())
        return 2 + promoted.index(reader.kind) if reader.kind in promoted else None
    if written.kind not in _NAMED:
        return 0
    if written.kind == "fixed" and written.schema["size"] != reader.schema["size"]:
        return None
    full, own = (full_name(side.schema, side.namespace)[0] for side in (written, reader))
    if full == own:
        return 0
    aliases = reader.schema.get("aliases")
    short = full.rpartition(".")[2]
    names = [own.rpartition(".")[2], *(aliases if isinstance(aliases, list) else ())]
    return 1 if full in names or short in names else None


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

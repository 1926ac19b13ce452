"""Types of columns for JSON Schema. Pure.

| JSON Schema | column |
|---|---|
| string, boolean, integer, number | string, boolean, bigint, double |
| object with properties, or with additionalProperties only | struct, map |
| array with items | array |
| null or one other type | the other type |
| enum or const of texts | string |
| other alternatives, no type, a schema within itself | string with JSON text |

References are followed within the schema, and to the schemas that it refers to in the registry. Properties that the
schema does not name have no column. A value is checked against the types of its columns, not against the whole schema:
patterns, limits and required properties are left to the producer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag

from kcli.schemas.serdes import MAX_DEPTH
from kcli.spark.decoding.column_types import JSON, WHOLE, Array, Map, Struct

if TYPE_CHECKING:
    from kcli.spark.decoding.column_types import ColumnType

_SCALARS = {"string": "string", "boolean": "boolean", "integer": WHOLE, "number": "double"}
_MOST_COLUMNS = 10_000


def json_schema_column_type(text: str, referred: Mapping[str, str]) -> ColumnType:
    """Return the type of the column for values of a schema; `referred` has other schemas by name. Raise ValueError."""
    return _Types(text, referred).root()


class _Types:
    """Types within one schema and those that it refers to."""

    def __init__(self, text: str, referred: Mapping[str, str]) -> None:
        self._root = json.loads(text)
        self._documents: dict[str, Any] = {"": self._root}
        for name, other in referred.items():
            self._documents[name] = json.loads(other)
        for document in list(self._documents.values()):
            if isinstance(document, dict) and isinstance(document.get("$id"), str):
                self._documents.setdefault(urldefrag(document["$id"]).url, document)
        self._columns = 0

    def root(self) -> ColumnType:
        return self._type(self._root, self._root, ())

    def _type(self, schema: Any, document: Any, above: tuple[int, ...]) -> ColumnType:
        self._columns += 1
        if self._columns > _MOST_COLUMNS:
            raise ValueError(f"it has more than {_MOST_COLUMNS} columns")
        if not isinstance(schema, dict) or id(schema) in above or len(above) > MAX_DEPTH:
            return JSON
        above = (*above, id(schema))
        if isinstance(schema.get("$ref"), str):
            found = self._resolve(schema["$ref"], document)
            return JSON if found is None else self._type(*found, above)
        for name in ("anyOf", "oneOf"):
            if isinstance(schema.get(name), list) and "properties" not in schema:
                return self._only([self._type(part, document, above) for part in schema[name] if not _is_null(part)])
        kinds = [kind for kind in _kinds(schema) if kind != "null"]
        if set(kinds) == {"integer", "number"}:
            return "double"
        if len(kinds) != 1:
            return JSON
        if kinds[0] == "object":
            return self._object(schema, document, above)
        if kinds[0] == "array":
            items = schema.get("items")
            return Array(self._type(items, document, above)) if isinstance(items, dict) else JSON
        return _SCALARS.get(kinds[0], JSON)

    def _object(self, schema: dict[str, Any], document: Any, above: tuple[int, ...]) -> ColumnType:
        fields: dict[str, ColumnType] = {}
        parts = [(schema, document)]
        for part in schema.get("allOf", ()):
            found = self._resolve(part["$ref"], document) if isinstance(part, dict) and "$ref" in part else None
            parts.append(found or (part, document))
        for part, within in parts:
            properties = part.get("properties") if isinstance(part, dict) else None
            for name, inner in (properties or {}).items():
                fields.setdefault(name, self._type(inner, within, above))
        if fields:
            return Struct(tuple(fields.items()))
        others = schema.get("additionalProperties")
        return Map(self._type(others, document, above)) if isinstance(others, dict) and others else JSON

    @staticmethod
    def _only(kinds: list[ColumnType]) -> ColumnType:
        return kinds[0] if len(set(kinds)) == 1 else JSON

    def _resolve(self, reference: str, document: Any) -> tuple[Any, Any] | None:
        """Return a schema and its document; None if it is not known."""
        url, fragment = urldefrag(reference)
        document = self._documents.get(url) if url else document
        found = document
        for step in unquote(fragment).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                return None
            found = found[step]
        return None if found is None else (found, document)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _kinds(schema: dict[str, Any]) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(name) for name in kind]
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values and all(isinstance(value, str) or value is None for value in values):
        return ["string"]
    return ["object"] if "properties" in schema or "allOf" in schema else ["array"] if "items" in schema else []

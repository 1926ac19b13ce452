"""Types of columns for a schema of Avro, as Spark's from_avro has them. Pure.

| Avro | column |
|---|---|
| boolean, int, long, float, double, bytes, string | boolean, int, bigint, float, double, binary, string |
| record, array, map, fixed, enum | struct, array, map, binary, string |
| date, timestamp, local timestamp | date, timestamp, timestamp_ntz, nanoseconds cut to microseconds |
| decimal | decimal of its precision and scale; string if Spark has no such decimal |
| uuid, time, duration | string |
| union with null | the other type; int and long are bigint, float and double are double |
| other unions, a record within itself | string with JSON text |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.schemas.avro_schema import PRIMITIVES, SchemaTree, full_name, logical_type
from kcli.spark.decoding.column_types import JSON, LOCAL_NANOS, NANOS, TEXT, Array, Map, Struct, decimal_type

if TYPE_CHECKING:
    from kcli.spark.decoding.column_types import ColumnType

_PRIMITIVE = {
    "null": JSON,
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    "date": "date",
    "time-millis": TEXT,
    "time-micros": TEXT,
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "timestamp-nanos": NANOS,
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-nanos": LOCAL_NANOS,
    "uuid": TEXT,
    "duration": JSON,
}
_WIDER = ({"int", "bigint"}, "bigint"), ({"float", "double"}, "double")


def avro_column_type(tree: SchemaTree) -> ColumnType:
    """Return the type of the column for values of a schema."""
    return _type(tree, tree.root, "", frozenset())


def _type(tree: SchemaTree, schema: Any, namespace: str, above: frozenset[str]) -> ColumnType:
    if isinstance(schema, list):
        return _union(tree, schema, namespace, above)
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return _PRIMITIVE[schema]
        return _type(tree, *tree.types[tree.resolve(schema, namespace)], above)
    kind = schema.get("type")
    if kind in ("record", "error"):
        name, inner = full_name(schema, namespace)
        if name in above:
            return JSON
        fields = [(field["name"], _type(tree, field["type"], inner, above | {name})) for field in schema["fields"]]
        return Struct(tuple(fields)) if fields else JSON  # files have no struct without fields
    if kind == "array":
        return Array(_type(tree, schema["items"], namespace, above))
    if kind == "map":
        return Map(_type(tree, schema["values"], namespace, above))
    if not isinstance(kind, str) or kind not in (*PRIMITIVES, "fixed", "enum"):
        return _type(tree, kind, namespace, above)
    logical = logical_type(schema, kind)
    if logical == "decimal":
        return decimal_type(schema["precision"], schema.get("scale", 0))
    return _LOGICAL[logical] if logical else {**_PRIMITIVE, "fixed": "binary", "enum": "string"}[kind]


def _union(tree: SchemaTree, branches: list[Any], namespace: str, above: frozenset[str]) -> ColumnType:
    kinds = {_type(tree, branch, namespace, above) for branch in branches if branch != "null"}
    if len(kinds) == 1:
        return kinds.pop()
    return next((wider for together, wider in _WIDER if kinds == together), JSON)

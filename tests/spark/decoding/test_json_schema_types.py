"""Columns of JSON Schemas: no JVM, no registry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.spark.decoding.column_types import sql_type
from kcli.spark.decoding.json_schema_types import json_schema_column_type


def sql(schema: Any, **referred: Any) -> str:
    return sql_type(
        json_schema_column_type(json.dumps(schema), {name: json.dumps(it) for name, it in referred.items()})
    )


def properties(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["number", "null"]}, "double"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": ["string", "integer"]}, "string"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"enum": ["a", None]}, "string"),
        ({"const": 5}, "string"),
        (True, "string"),
        ({}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "string"),
        ({"type": "object"}, "string"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({**properties(a={"type": "string"}), "additionalProperties": {"type": "number"}}, "struct<a:string>"),
        ({"properties": {"Größe": {"type": "number"}}}, "struct<`Größe`:double>"),
        (
            {**properties(a={"$ref": "#/definitions/x~1y"}), "definitions": {"x/y": properties(b={"type": "integer"})}},
            "struct<a:struct<b:bigint>>",
        ),
        ({**properties(id={"type": "integer"}, next={"$ref": "#"})}, "struct<id:bigint,next:string>"),
        (properties(a={"$ref": "#/nowhere"}), "struct<a:string>"),
        (
            {"allOf": [properties(a={"type": "integer"}), {"$ref": "#/$defs/b"}], "$defs": {"b": properties(b={})}},
            "struct<a:bigint,b:string>",
        ),
    ],
)
def test_columns_of_types(schema: Any, expected: str) -> None:
    assert sql(schema) == expected


def test_references_to_other_schemas_are_followed_within_them() -> None:
    point = {"$id": "http://x/point", **properties(x={"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "number"}}}
    root = properties(by_name={"$ref": "point.json"}, by_id={"$ref": "http://x/point#/properties/x"})
    assert sql(root, **{"point.json": point}) == "struct<by_name:struct<x:double>,by_id:double>"


def test_a_schema_that_doubles_itself_is_bounded() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(15):
        schema = properties(a=schema, b=schema)
    with pytest.raises(ValueError, match="more than 10000 columns"):
        sql(schema)

"""Outlines of Avro and JSON schemas, and their differences."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.errors import KcliError
from kcli.schemas.outline import Change, avro_outline, changes, json_schema_outline

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "price", "type": ["null", PRICE], "default": None}]}


def _record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields), **more}


def test_avro_has_a_path_for_what_arrays_maps_unions_and_records_contain() -> None:
    items = {"name": "items", "type": ["null", {"type": "array", "items": ITEM}], "doc": "the goods"}
    tags = {"name": "tags", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}}
    size = {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"], "default": "S"}}
    assert avro_outline(_record(items, tags, size, {"name": "next", "type": "Order"})) == {
        ".": "record shop.Order",
        "items": "null | array of record shop.Item",
        "items[].price": "null | bytes decimal(9, 2)",
        "items[].price @default": "null",
        "items @doc": "the goods",
        "tags": "map of long timestamp-millis",
        "size": "enum shop.Size (S, L)",
        "shop.Size @default": "S",
        "next": "shop.Order",
    }


def test_json_schema_has_a_path_for_properties_items_and_alternatives() -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
            "any": {"oneOf": [{"type": "string"}, {"type": ["null", "number"]}]},
        },
        "$defs": {"line": {"type": "object", "properties": {"n": True}}},
    }
    assert json_schema_outline(schema) == {
        ".": "object",
        "id @required": "true",
        "id": "integer",
        "id @minimum": "0",
        "lines": "array",
        "lines[]": "#/$defs/line",
        "any": "any",
        "any oneOf[0]": "string",
        "any oneOf[1]": "null | number",
        "$defs/line": "object",
        "$defs/line.n": "true",
    }


def test_changes_come_in_the_order_of_the_fields() -> None:
    old = avro_outline(_record(*({"name": name, "type": "int"} for name in "abc")))
    new = avro_outline(
        _record(*({"name": name, "type": kind} for name, kind in (("c", "long"), ("d", "int"), ("a", "int"))))
    )
    assert changes(old, new) == [
        Change("b", "removed", "int", None),
        Change("c", "changed", "int", "long"),
        Change("d", "added", None, "int"),
    ]


def test_the_order_of_fields_and_attributes_is_no_change() -> None:
    first = {"name": "a", "type": "int", "default": 1, "doc": "x"}
    second = {"name": "b", "type": "int"}
    turned = {"doc": "x", "default": 1, "type": "int", "name": "a"}
    assert changes(avro_outline(_record(first, second)), avro_outline(_record(second, turned))) == []


@pytest.mark.parametrize(
    "document",
    [None, 5, [], {}, {"type": {}}, {"type": "record"}, {"type": "array"}, [[]], {"type": "enum", "symbols": 5}],
)
def test_a_document_that_is_not_a_schema_has_an_outline(document: Any) -> None:
    assert "." in avro_outline(document)
    assert "." in json_schema_outline(document)


def test_deep_nesting_is_an_error() -> None:
    avro: Any = "int"
    schema: Any = {}
    for _ in range(5000):
        avro, schema = {"type": "array", "items": avro}, {"items": schema}
    with pytest.raises(KcliError, match="nested too deeply"):
        avro_outline(avro)
    with pytest.raises(KcliError, match="nested too deeply"):
        json_schema_outline(schema)


def test_names_of_json_that_could_be_other_paths_are_quoted() -> None:
    integer, text = {"type": "integer"}, {"type": "string"}
    nested = {"type": "object", "properties": {"b": integer}}
    schema = {
        "properties": {"a": nested, "a.b": text, "not": text, "a @minimum": text, "": text},
        "not": {"type": "null"},
        "required": ["a.b"],
    }
    assert json_schema_outline(schema) == {
        ".": "any",
        "a": "object",
        "a.b": "integer",
        '"a.b"': "string",
        '"a.b" @required': "true",
        '"not"': "string",
        '"a @minimum"': "string",
        '""': "string",
        "not": "null",
    }


def test_fields_of_several_branches_of_a_union_of_avro_are_all_there() -> None:
    def animal(name: str, kind: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "size", "type": kind}]}

    branches = ["null", animal("Cat", "int"), animal("Dog", "string")]
    assert avro_outline(_record({"name": "pet", "type": branches})) == {
        ".": "record shop.Order",
        "pet": "null | record shop.Cat | record shop.Dog",
        "pet(shop.Cat).size": "int",
        "pet(shop.Dog).size": "string",
    }

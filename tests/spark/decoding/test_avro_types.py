"""Columns of Avro schemas, and the conversion of decoded values to Arrow: no JVM, no registry."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

import pyarrow as pa

from kcli.schemas.avro_schema import SchemaTree
from kcli.schemas.json_values import Duration, Timestamp
from kcli.spark.decoding.avro_types import avro_column_type
from kcli.spark.decoding.column_types import arrow_type, converter, sql_type


def column(schema: Any, *referred: Any) -> Any:
    return avro_column_type(SchemaTree(json.dumps(schema), [json.dumps(it) for it in referred]))


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": it} for name, it in fields.items()]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


CASES: list[tuple[Any, str, Any, Any]] = [
    ("int", "int", 7, 7),
    ("long", "bigint", -(2**62), -(2**62)),
    ("bytes", "binary", b"\xff", b"\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, "binary", b"ab", b"ab"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", "A", "A"),
    ({"type": "array", "items": ["null", "int"]}, "array<int>", [1, None], [1, None]),
    ({"type": "map", "values": "long"}, "map<string,bigint>", {"a": 1}, [("a", 1)]),
    (["null", "string"], "string", None, None),
    (["int", "null", "long"], "bigint", 5, 5),
    (["float", "double"], "double", 0.5, 0.5),
    (["string", "int"], "string", 5, "5"),
    (["string", "int"], "string", "x", '"x"'),
    (logical("int", "date"), "date", date(2026, 1, 2), date(2026, 1, 2)),
    (
        logical("long", "timestamp-micros"),
        "timestamp",
        datetime(2026, 1, 2, tzinfo=timezone.utc),
        datetime(2026, 1, 2, tzinfo=timezone.utc),
    ),
    (logical("long", "timestamp-nanos"), "timestamp", Timestamp(1_999), datetime(1970, 1, 1, 0, 0, 0, 1, timezone.utc)),
    (
        logical("long", "local-timestamp-millis"),
        "timestamp_ntz",
        datetime(2026, 1, 2, 3, 4, 5),
        datetime(2026, 1, 2, 3, 4, 5),
    ),
    (logical("long", "time-micros"), "string", time(1, 2, 3, 4), "01:02:03.000004"),
    (logical("string", "uuid"), "string", UUID(int=1), str(UUID(int=1))),
    (logical("bytes", "decimal", precision=6, scale=2), "decimal(6,2)", Decimal("1234.5"), Decimal("1234.50")),
    (logical("bytes", "decimal", precision=50, scale=2), "string", Decimal("1.50"), '"1.50"'),
    (
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        "string",
        Duration(1, 2, 3),
        '{"months":1,"days":2,"milliseconds":3}',
    ),
]


@pytest.mark.parametrize(("schema", "sql", "native", "expected"), CASES)
def test_columns_and_values_of_types(schema: Any, sql: str, native: Any, expected: Any) -> None:
    """Alone, and as a field of a record in an array."""
    kind = column(schema)
    assert sql_type(kind) == sql
    nested = column({"type": "array", "items": record(f=schema)})
    assert sql_type(nested) == f"array<struct<f:{sql}>>"
    for it, value, wanted in ((kind, native, expected), (nested, [{"f": native}], [{"f": expected}])):
        for exact in (False, True):
            convert = converter(it, exact=exact)
            ready = value if convert is None or value is None else convert(value)
            (found,) = pa.array([ready], arrow_type(it)).to_pylist()
            assert found == wanted


def test_a_record_within_itself_is_json_text() -> None:
    schema = record(id="int", next=["null", "R"], others={"type": "array", "items": "R"})
    assert sql_type(column(schema)) == "struct<id:int,next:string,others:array<string>>"


def test_references_and_namespaces_are_resolved() -> None:
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "X y", "type": "int"}]}
    assert sql_type(column(record(a="geo.Point", b=["null", "geo.Point"]), point)) == (
        "struct<a:struct<`X y`:int>,b:struct<`X y`:int>>"
    )
    assert sql_type(column({"type": "record", "name": "Empty", "fields": []})) == "string"


@pytest.mark.parametrize(
    ("kind", "native", "problem"),
    [
        ("decimal(4,2)", Decimal("1.555"), "1.555 has more than 2 digits after the point"),
        ("decimal(4,2)", Decimal("100"), "100 has more than 4 digits"),
        ("timestamp", Timestamp(10**30), "is out of range"),
        ("string", 5, "the value must be a text, not a whole number"),
        ("whole", 1.5, "1.5 is not an integer"),
        ("whole", "s", "the value must be an integer, not a text"),
    ],
)
def test_values_without_a_place_are_refused(kind: str, native: Any, problem: str) -> None:
    convert = converter(kind, exact=True)
    assert convert is not None
    with pytest.raises(ValueError, match=problem):
        convert(native)

"""Avro values of every type: for confluent-kafka's serialiser, as kcli prints them, and in Avro's JSON encoding."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

UTC = datetime.timezone.utc
NAMESPACE = "kcli.tests"


class AvroCase(NamedTuple):
    """The field `f` of a record; the field `after` shows that no byte too many was read.

    `native` is the value of Python's serialisers, `plain` the JSON of kcli, `tagged` Avro's JSON encoding, which Java
    reads and writes.
    """

    kind: Any
    native: Any
    plain: Any
    tagged: Any

    @property
    def schema(self) -> str:
        """The schema of the record."""
        fields = [{"name": "f", "type": self.kind}, {"name": "after", "type": "int"}]
        return json.dumps({"type": "record", "name": "Case", "namespace": NAMESPACE, "fields": fields})


def _same(kind: Any, value: Any) -> AvroCase:
    return AvroCase(kind, value, value, value)


def _logical(base: Any, name: str, native: Any, plain: Any, raw: Any, **more: Any) -> AvroCase:
    kind = {**(base if isinstance(base, dict) else {"type": base}), "logicalType": name, **more}
    return AvroCase(kind, native, plain, raw)


def record(value: Any) -> dict[str, Any]:
    """Return the record with this value of `f`."""
    return {"f": value, "after": -7}


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}
NAMED = {"type": "record", "name": "Named", "fields": [{"name": "name", "type": "string"}]}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}
LIST = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
_NOON = datetime.datetime(2024, 2, 29, 12, 0, 1, 234000, UTC)
_MICROS = _NOON.replace(microsecond=234567)
_MS, _US = 1709208001234, 1709208001234567

CASES: dict[str, AvroCase] = {
    "null": _same("null", None),
    "boolean": _same("boolean", True),
    "least int": _same("int", -(2**31)),
    "greatest int": _same("int", 2**31 - 1),
    "least long": _same("long", -(2**63)),
    "greatest long": _same("long", 2**63 - 1),
    "float": _same("float", 0.5),
    "double": _same("double", -1.7976931348623157e308),
    "not a number": AvroCase("double", math.nan, "NaN", "NaN"),
    "infinity": AvroCase("float", -math.inf, "-Infinity", "-Infinity"),
    "empty string": _same("string", ""),
    "string": _same("string", 'Grüße, 世界 "🙂"\n'),
    "bytes": AvroCase("bytes", b"\x00\xffA", "AP9B", "\x00\xffA"),
    "fixed": AvroCase({"type": "fixed", "name": "Two", "size": 2}, b"\xfe\x01", "/gE=", "\xfe\x01"),
    "enum": _same(COLOUR, "GREEN"),
    "enum with default": _same({**COLOUR, "default": "RED"}, "RED"),
    "empty array": _same({"type": "array", "items": "long"}, []),
    "array": _same({"type": "array", "items": "long"}, list(range(200))),
    "array of arrays": _same({"type": "array", "items": {"type": "array", "items": "string"}}, [["a"], [], ["b", "c"]]),
    "empty map": _same({"type": "map", "values": "int"}, {}),
    "map": _same({"type": "map", "values": "int"}, {"ä": 1, "": 2}),
    "map of records": _same({"type": "map", "values": POINT}, {"p": {"x": 1, "y": -1}}),
    "record": _same(POINT, {"x": 1, "y": 2}),
    "record without fields": _same({"type": "record", "name": "Empty", "fields": []}, {}),
    "record with a name used twice": _same(
        {
            "type": "record",
            "name": "Line",
            "fields": [{"name": "from", "type": POINT}, {"name": "to", "type": "Point"}],
        },
        {"from": {"x": 1, "y": 2}, "to": {"x": 3, "y": 4}},
    ),
    "record with another namespace": _same({**POINT, "namespace": "other.space"}, {"x": 1, "y": 2}),
    "recursive record": AvroCase(
        LIST,
        {"value": 1, "next": {"value": 2, "next": None}},
        {"value": 1, "next": {"value": 2, "next": None}},
        {"value": 1, "next": {f"{NAMESPACE}.Node": {"value": 2, "next": None}}},
    ),
    # unions
    "optional, absent": _same(["null", "string"], None),
    "optional, present": AvroCase(["null", "string"], "a", "a", {"string": "a"}),
    "optional with null last": AvroCase(["long", "null"], 5, 5, {"long": 5}),
    "union of simple types": AvroCase(["null", "boolean", "int", "string"], 7, 7, {"int": 7}),
    "union, a long beside int": AvroCase(["int", "long"], 2**40, 2**40, {"long": 2**40}),
    "union, a boolean beside int": AvroCase(["int", "boolean"], False, False, {"boolean": False}),
    "union of records": AvroCase([POINT, NAMED], {"name": "n"}, {"name": "n"}, {f"{NAMESPACE}.Named": {"name": "n"}}),
    "union with array": AvroCase(
        ["null", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}], [1], [1], {"array": [1]}
    ),
    "union with map": AvroCase(
        ["null", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}],
        {"a": 1},
        {"a": 1},
        {"map": {"a": 1}},
    ),
    "union with enum": AvroCase(["null", COLOUR], "RED", "RED", {f"{NAMESPACE}.Colour": "RED"}),
    "union with bytes": AvroCase(["null", "bytes"], b"\x01\x02", "AQI=", {"bytes": "\x01\x02"}),
    "array of unions": AvroCase(
        {"type": "array", "items": ["null", "int", "string"]},
        [None, 1, "a"],
        [None, 1, "a"],
        [None, {"int": 1}, {"string": "a"}],
    ),
    "union with a timestamp": AvroCase(
        ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        _NOON,
        "2024-02-29T12:00:01.234000Z",
        {"long": _MS},
    ),
    "union with a decimal": AvroCase(
        ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        Decimal("12.30"),
        "12.30",
        {"bytes": "\x04\xce"},
    ),
    # logical types
    "date": _logical("int", "date", datetime.date(1969, 12, 31), "1969-12-31", -1),
    "time in ms": _logical("int", "time-millis", datetime.time(23, 59, 59, 999000), "23:59:59.999000", 86399999),
    "time in us": _logical("long", "time-micros", datetime.time(0, 0, 0, 1), "00:00:00.000001", 1),
    "timestamp in ms": _logical("long", "timestamp-millis", _NOON, "2024-02-29T12:00:01.234000Z", _MS),
    "timestamp in us": _logical("long", "timestamp-micros", _MICROS, "2024-02-29T12:00:01.234567Z", _US),
    "timestamp before 1970": _logical(
        "long", "timestamp-millis", datetime.datetime(1900, 1, 1, tzinfo=UTC), "1900-01-01T00:00:00Z", -2208988800000
    ),
    "local timestamp in ms": _logical(
        "long", "local-timestamp-millis", _NOON.replace(tzinfo=None), "2024-02-29T12:00:01.234000", _MS
    ),
    "local timestamp in us": _logical(
        "long", "local-timestamp-micros", _MICROS.replace(tzinfo=None), "2024-02-29T12:00:01.234567", _US
    ),
    "decimal of bytes": _logical("bytes", "decimal", Decimal("-1.23"), "-1.23", "\x85", precision=10, scale=2),
    "decimal with zeros": _logical("bytes", "decimal", Decimal("5.00"), "5.00", "\x01\xf4", precision=10, scale=2),
    "decimal of fixed": _logical(
        {"type": "fixed", "name": "Money", "size": 4},
        "decimal",
        Decimal("1.5"),
        "1.5",
        "\x00\x00\x00\x0f",
        precision=8,
        scale=1,
    ),
    "uuid": _logical(
        "string",
        "uuid",
        UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ),
    "unknown logical type": _logical("string", "colour", "red", "red", "red"),
}


class Evolution(NamedTuple):
    """The fields of a writer's and of a reader's record, and a value of the writer."""

    writer: list[dict[str, Any]]
    reader: list[dict[str, Any]]
    value: dict[str, Any]

    @property
    def schemas(self) -> tuple[str, str]:
        """The schema of the writer and that of the reader."""
        writer, reader = (
            json.dumps({"type": "record", "name": "Case", "namespace": NAMESPACE, "fields": fields})
            for fields in (self.writer, self.reader)
        )
        return writer, reader


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


_OTHER_POINT = {**POINT, "fields": [_field("y", "long"), _field("z", "int", default=9)]}

EVOLUTIONS: dict[str, Evolution] = {
    "int to long": Evolution([_field("a", "int")], [_field("a", "long")], {"a": 5}),
    "long to double": Evolution([_field("a", "long")], [_field("a", "double")], {"a": 2**53}),
    "string to bytes": Evolution([_field("a", "string")], [_field("a", "bytes")], {"a": "ä"}),
    "bytes to string": Evolution([_field("a", "bytes")], [_field("a", "string")], {"a": b"\xc3\xa4"}),
    "added fields with defaults": Evolution(
        [_field("a", "int")],
        [
            _field("a", "int"),
            _field("n", ["null", "string"], default=None),
            _field("s", "string", default="x"),
            _field("r", POINT, default={"x": 1, "y": 2}),
            _field("l", {"type": "array", "items": "int"}, default=[1]),
        ],
        {"a": 1},
    ),
    "removed field": Evolution([_field("a", "string"), _field("b", "int")], [_field("b", "int")], {"a": "a", "b": 1}),
    "other order": Evolution(
        [_field("a", "string"), _field("b", "int")], [_field("b", "int"), _field("a", "string")], {"a": "a", "b": 1}
    ),
    "renamed field": Evolution([_field("a", "int")], [_field("b", "int", aliases=["a"])], {"a": 3}),
    "unknown symbol": Evolution(
        [_field("c", COLOUR)], [_field("c", {**COLOUR, "symbols": ["RED"], "default": "RED"})], {"c": "GREEN"}
    ),
    "simple type to union": Evolution([_field("a", "int")], [_field("a", ["null", "long"])], {"a": 5}),
    "union to simple type": Evolution([_field("a", ["null", "int"])], [_field("a", "int")], {"a": 5}),
    "records in an array": Evolution(
        [_field("l", {"type": "array", "items": POINT})],
        [_field("l", {"type": "array", "items": _OTHER_POINT})],
        {"l": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    ),
}

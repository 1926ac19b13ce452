"""Values of Avro: logical types, evolution, the registry's frame, and payloads and schemas that mean harm."""

import datetime
import io
import itertools
import json
import math
import struct
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.clock import ManualClock
from kcli.errors import ConfigError
from kcli.schemas.avro import make_read, tree_of
from kcli.schemas.avro_compile import compile_reader
from kcli.schemas.avro_write import AvroWriter
from kcli.schemas.json_values import Duration, Timestamp, json_ready, json_text
from kcli.schemas.serdes import MAX_DEPTH, DecodeError, EncodeError, make_decoder, make_encoder
from kcli.schemas.wire_format import problem_of
from tests.needs import needs_package
from tests.schemas.known_registry import KnownRegistry, by_id

UTC = datetime.timezone.utc
NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "a.b",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def read(schema: Any, payload: bytes, reader: Any = None, *referred: Any) -> Any:
    tree = tree_of(json.dumps(schema), map(json.dumps, referred))
    return make_read(tree, 0, None if reader is None else tree_of(json.dumps(reader)))(payload)


def problem(schema: Any, payload: bytes, *referred: Any) -> str:
    with pytest.raises(Exception) as failed:
        read(schema, payload, None, *referred)
    return problem_of(failed.value)


def long(number: int) -> bytes:
    """The zigzag varint of a number, as the writer makes it."""
    return AvroWriter(tree_of('"long"')).encode(number)


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


@pytest.mark.parametrize(
    ("schema", "payload", "value"),
    [
        (logical("bytes", "decimal", precision=2, scale=2), b"\6\x7f\xff\xff", Decimal("83886.07")),
        (logical("fixed", "decimal", name="f", size=2, precision=4), b"\xff\xfe", Decimal(-2)),
        # Those that are not valid have the type below, as avro-1.12.1.jar reads them.
        (logical("bytes", "decimal", precision=2, scale=-1), b"\2a", b"a"),
        (logical("bytes", "decimal", precision=2, scale=3), b"\2a", b"a"),
        (logical("bytes", "decimal", precision=0), b"\2a", b"a"),
        (logical("bytes", "decimal", scale=1), b"\2a", b"a"),
        (logical("bytes", "decimal", precision="4"), b"\2a", b"a"),
        (logical("bytes", "decimal", precision=True), b"\2a", b"a"),
        (logical("bytes", "decimal", precision=4, scale=None), b"\2a", b"a"),
        (logical("fixed", "decimal", name="f", size=2, precision=5), b"ab", b"ab"),
        (logical("fixed", "decimal", name="f", size=1, precision=2), b"a", Decimal(97)),
        (logical("fixed", "decimal", name="f", size=0, precision=1), b"", b""),
        (logical("int", "date"), long(-1), datetime.date(1969, 12, 31)),
        (logical("int", "date"), long(2**31 - 1), 2**31 - 1),
        (logical("int", "time-millis"), long(1), datetime.time(microsecond=1000)),
        (logical("int", "time-millis"), long(-1), -1),
        (logical("long", "time-micros"), long(86_400_000_000), 86_400_000_000),
        (logical("long", "timestamp-millis"), long(-1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (logical("long", "timestamp-millis"), long(2**63 - 1), Timestamp((2**63 - 1) * 10**6)),
        (logical("long", "timestamp-micros"), long(-(2**63)), Timestamp(-(2**63) * 1000)),
        (logical("long", "timestamp-nanos"), long(1), Timestamp(1)),
        (logical("long", "timestamp-nanos"), long(1000), datetime.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (logical("long", "local-timestamp-micros"), long(1), datetime.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (logical("long", "local-timestamp-nanos"), long(-1), Timestamp(-1, is_local=True)),
        (logical("string", "uuid"), b"\x48" + b"00000000-0000-0000-0000-000000000005", UUID(int=5)),
        (logical("string", "uuid"), b"\2x", "x"),
        (logical("fixed", "uuid", name="f", size=16), bytes(15) + b"\5", UUID(int=5)),
        (logical("fixed", "duration", name="f", size=12), b"\1\0\0\0\2\0\0\0\3\0\0\0", Duration(1, 2, 3)),
        (logical("int", "no-such-type"), long(3), 3),
        ({"type": {"type": "string", "avro.java.string": "String"}}, b"\2x", "x"),
    ],
)
def test_logical_types(schema: Any, payload: bytes, value: Any):
    assert read(schema, payload) == value


def test_time_out_of_range_leaves_other_times_as_they_are():
    fields = [{"name": n, "type": logical("long", "timestamp-millis")} for n in "ab"]
    value = read({"type": "record", "name": "R", "fields": fields}, long(2**60) + long(0))
    assert value == {"a": Timestamp(2**60 * 10**6), "b": datetime.datetime(1970, 1, 1, tzinfo=UTC)}


def test_bytes_of_java_are_the_payload_itself():
    assert read("bytes", b"abc") == b"abc"
    assert read("bytes", b"\6abc") == b"abc"


def test_reader_schema():
    def record(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": list(fields)}

    old = record({"name": "a", "type": "int"}, {"name": "gone", "type": "string"})
    new = record(
        {"name": "b", "type": "double", "aliases": ["a"]}, {"name": "c", "type": ["null", "int"], "default": None}
    )
    assert read(old, long(3) + b"\2x", new) == {"b": 3.0, "c": None}
    text = problem_with_reader(old, long(3) + b"\2x", record({"name": "a", "type": "string"}))
    assert text == "the schemas do not resolve: int was written, the reader's schema has string"
    text = problem_with_reader(old, long(3) + b"\2x", record({"name": "d", "type": "string"}))
    assert text.endswith("a record without this field was written, the reader's schema has no default of the field 'd'")
    text = problem_with_reader(old, long(3) + b"\2x", {**new, "name": "a.S"})
    assert text.endswith("record 'R' was written, the reader's schema has record 'a.S'")


@pytest.mark.parametrize(
    ("written", "payload", "reader", "value"),
    [
        (["null", "int", "string"], b"\4\2x", ["string", "null"], "x"),
        (["null", "int", "string"], b"\0", ["string", "null"], None),
        ("int", long(3), ["string", "double", "long"], 3),  # the branch that is nearest, not the first
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            b"\2",
            {"type": "enum", "name": "x.E", "symbols": ["B"]},
            "B",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            b"\0",
            {"type": "enum", "name": "E", "symbols": ["B", "C"], "default": "C"},
            "C",
        ),
        (
            {"type": "record", "name": "old.R", "fields": []},
            b"",
            {"type": "record", "name": "New", "aliases": ["old.R"], "fields": []},
            {},
        ),
        ({"type": "map", "values": "int"}, b"\2\2k\6\0", {"type": "map", "values": ["null", "float"]}, {"k": 3.0}),
    ],
)
def test_resolution_of_unions_names_and_symbols(written: Any, payload: bytes, reader: Any, value: Any):
    resolved = read(written, payload, reader)
    assert resolved == value
    assert type(resolved) is type(value)


def test_a_type_that_does_not_resolve_is_an_error_only_where_it_occurs():
    written = ["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string"]
    reader = [{"type": "enum", "name": "E", "symbols": ["B"]}, "null"]
    assert read(written, b"\2\2", reader) == "B"
    assert "the data is not of this schema" in problem_with_reader(written, b"\2\0", reader)
    assert problem_with_reader(written, b"\4\2x", reader).endswith("string was written, the reader's schema has union")


SECOND = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "payload", "reader", "value"),
    [
        # A logical type that was added or removed later is that of the reader, as for Java's GenericDatumReader.
        ("long", long(1000), logical("long", "timestamp-millis"), SECOND),
        ("int", long(1000), ["null", logical("long", "timestamp-millis")], SECOND),
        (["null", "long"], b"\2" + long(1000), logical("long", "timestamp-millis"), SECOND),
        ("bytes", b"\2\5", logical("bytes", "decimal", precision=9, scale=2), Decimal("0.05")),
        ("string", b"\2\5", logical("bytes", "decimal", precision=9, scale=2), Decimal("0.05")),
        ("string", b"\x48" + str(UUID(int=5)).encode(), logical("string", "uuid"), UUID(int=5)),
        (
            {"type": "fixed", "name": "D", "size": 12},
            b"\1\0\0\0" * 3,
            logical("fixed", "duration", name="D", size=12),
            Duration(1, 1, 1),
        ),
        (logical("long", "timestamp-millis"), long(1000), "long", 1000),
        (logical("long", "timestamp-millis"), long(1000), "double", 1000.0),
        (logical("bytes", "decimal", precision=9, scale=2), b"\2A", "string", "A"),
        # A type that has one in both keeps its value: the unit and the scale are those of the writer.
        (logical("long", "timestamp-millis"), long(1000), logical("long", "timestamp-micros"), SECOND),
        (
            logical("bytes", "decimal", precision=9, scale=2),
            b"\2\5",
            logical("bytes", "decimal", precision=9, scale=3),
            Decimal("0.05"),
        ),
        # All other types are promoted as without a logical type in the schema.
        ("int", long(3), "double", 3.0),
        ("string", b"\2a", "bytes", b"a"),
        ("bytes", b"\2a", "string", "a"),
    ],
)
def test_logical_type_of_the_readers_schema(written: Any, payload: bytes, reader: Any, value: Any):
    resolved = read(written, payload, reader)
    assert resolved == value
    assert type(resolved) is type(value)
    # within a record whose other fields have logical types
    others = [("t", logical("int", "date")), ("u", logical("string", "uuid"))]
    fields = [{"name": name, "type": kind} for name, kind in others]
    records = [
        {"type": "record", "name": "R", "fields": [*fields, {"name": "a", "type": it}]} for it in (written, reader)
    ]
    data = long(1) + b"\2x" + payload
    assert read(records[0], data, records[1]) == {"t": datetime.date(1970, 1, 2), "u": "x", "a": value}


def problem_with_reader(schema: Any, payload: bytes, reader: Any) -> str:
    with pytest.raises(Exception) as failed:
        read(schema, payload, reader)
    return problem_of(failed.value)


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        ("string", b"\x14abc", "the data ends before the value"),
        ("string", b"\x09abcdef", "a length is negative"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1x", "ends before|out of range"),
        ("string", b"\4\xff\xff", "a text is not valid UTF-8: byte 0xff at 0"),
        ("string", b"\2ab", "1 bytes follow the value"),
        ("long", b"\xff" * 30, "an integer is longer than 64 bits"),
        (["null", "int"], b"\x08", "a union has no branch with its index"),
        (["null", "int"], b"\3\2", "a union has no branch with its index"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x08", "the data is not of this schema"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\1", "the data is not of this schema"),
        ("boolean", b"\2", "the data is not of this schema"),
        ("double", b"\2", "the data ends before the value"),
        (logical("bytes", "decimal", precision=9), b"\x0c\2", "the data ends before the value"),
        ({"type": "fixed", "name": "F", "size": 9}, b"\2", "the data ends before the value"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", "more items than"),
        ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0", "more items than"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\1\0", "items that take no bytes"),
        (
            {"type": "array", "items": {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}},
            b"\xfe\xff\xff\xff\xff\xff\1\0",
            "items that take no bytes",
        ),
        ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\xff\xff\1\0", "more items than"),
        (NODE, b"\2\2" * 500_000 + b"\0\0", "nested deeper"),
        (logical("bytes", "decimal", precision=9), long(5000) + bytes(5000), "a decimal has 5000 bytes"),
    ],
)
def test_hostile_payloads(schema: Any, payload: bytes, text: str):
    assert any(part in problem(schema, payload) for part in text.split("|"))


def test_recursive_type_is_read_to_its_limit():
    value = read(NODE, b"\2\2" * 127 + b"\2\0")
    depth = 0
    while value is not None:
        value, depth = value["next"], depth + 1
    assert depth == MAX_DEPTH
    assert "nested deeper" in problem(NODE, b"\2\2" * 128 + b"\2\0")
    other = {**NODE, "fields": NODE["fields"][::-1]}
    assert read(NODE, b"\2\2" * 127 + b"\2\0", other) == read(NODE, b"\2\2" * 127 + b"\2\0")
    assert "nested deeper" in problem_with_reader(NODE, b"\2\2" * 128 + b"\2\0", other)
    assert "nested deeper" in problem_with_reader(NODE, b"\2\2" * 500_000 + b"\2\0", other)


EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("items", "value"),
    [
        ("null", None),
        (EMPTY, {}),
        ({"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}, {"n": None}),
        ({"type": "fixed", "name": "F", "size": 0}, b""),
    ],
)
def test_items_without_bytes_are_read_up_to_a_bound(items: Any, value: Any):
    schema = {"type": "array", "items": items}
    wider = {"type": "array", "items": ["string", items]}
    for reader in (None, wider):
        assert read(schema, b"\0", reader) == []
        assert read(schema, long(3) + b"\0", reader) == [value] * 3
        assert read(schema, long(-3) + b"\0" + long(2) + b"\0", reader) == [value] * 5
        assert read(schema, long(10_000) + b"\0", reader) == [value] * 10_000
        for count in (10_001, -10_001, 2**62, -(2**63)):
            with pytest.raises(ValueError, match="more than 10000 items that take no bytes"):
                read(schema, long(count) + b"\0" * 2, reader)
    # The bound is that of all arrays of a payload, and each payload begins anew.
    nested = {"type": "array", "items": schema}
    compiled = compile_reader(tree_of(json.dumps(nested)), 0)
    with pytest.raises(ValueError, match="more than 10000 items that take no bytes"):
        compiled(long(2) + (long(6_000) + b"\0") * 2 + b"\0")
    for _ in range(3):
        assert compiled(long(1) + long(6_000) + b"\0" * 2) == [[value] * 6_000]


def test_recursive_type_of_another_version():
    fields = [*NODE["fields"], {"name": "w", "type": "int", "default": 7}]
    assert read(NODE, b"\2\2\4\0", {**NODE, "fields": fields})["next"] == {"v": 2, "next": None, "w": 7}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "foo"}, "there is no type 'foo'"),
        ({"type": "record", "name": "R"}, "record 'R' has no valid list of fields"),
        ({"type": "record", "fields": []}, "a type record has no name"),
        ({"type": "fixed", "name": "f", "size": -1}, "fixed 'f' has no valid size"),
        ({"type": "enum", "name": "e", "symbols": "ab"}, "enum 'e' has no valid list of symbols"),
        ({"type": "array"}, "a type array has no items"),
        ({"type": 5}, "a type has no valid member 'type'"),
        ({}, "a type has no valid member 'type'"),
        (5, "5 is not a type"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": None}]}, "null is not a type"),
        ({"type": "array", "items": True}, "true is not a type"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}, "there is no type 'Other'"),
    ],
)
def test_schemas_that_are_not_valid(schema: Any, text: str):
    assert text in problem(schema, b"\0")


def test_schemas_without_bounds():
    deep: Any = "int"
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    assert "nested deeper" in problem(deep, b"\0")
    chain = [{"type": "record", "name": f"R{n}", "fields": [{"name": "a", "type": f"R{n + 1}"}]} for n in range(900)]
    chain.append({"type": "record", "name": "R900", "fields": []})
    assert "its types are nested deeper than 128 levels" in problem("R0", b"\0", *reversed(chain))
    twice = [
        {
            "type": "record",
            "name": f"D{n}",
            "fields": [{"name": f, "type": f"D{n + 1}" if n < 90 else "int"} for f in "ab"],
        }
        for n in range(91)
    ]
    with pytest.raises(IndexError):  # compiled, though the value has 2^91 parts
        read("D0", b"\0", None, *reversed(twice))


def test_types_that_all_contain_each_other():
    names = [f"C{n}" for n in range(60)]
    types = [{"type": "record", "name": name, "fields": [{"name": "a", "type": ["null", *names]}]} for name in names]
    assert read("C0", b"\6\2\0", None, *types) == {"a": {"a": {"a": None}}}
    changed = {"type": "record", "name": "C0", "fields": [{"name": "b", "type": "int", "default": 1}]}
    assert make_read(tree_of('"C0"', map(json.dumps, types)), 0, tree_of(json.dumps(changed)))(b"\2\0") == {"b": 1}
    # each pair of types that meet is compiled once
    wider = [{**it, "fields": [*it["fields"], {"name": "b", "type": "int", "default": 1}]} for it in types]
    resolve = make_read(
        tree_of('"C0"', map(json.dumps, types)), 0, tree_of(json.dumps({**wider[0]}), map(json.dumps, wider[1:]))
    )
    assert resolve(b"\6\2\0") == {"a": {"a": {"a": None, "b": 1}, "b": 1}, "b": 1}


def test_many_types_within_each_other():
    schema: Any = {"type": "record", "name": "R", "fields": [{"name": "v", "type": ["null", "int"]}]}
    for n in range(20):
        inner = {"type": "map", "values": schema} if n % 2 else {"type": "array", "items": ["null", schema]}
        schema = {"type": "record", "name": f"R{n}", "fields": [{"name": "v", "type": inner}]}
    value: Any = {"v": 5}
    for n in range(20):
        value = {"v": {"k": value} if n % 2 else [None, value]}
    assert read(schema, AvroWriter(tree_of(json.dumps(schema))).encode(value)) == value


def arrays(levels: int, of: Any) -> Any:
    for _ in range(levels):
        of = {"type": "array", "items": of}
    return of


@pytest.mark.parametrize("name", ["f0", "f1", "f2", "read", "varint", "MAX", "b", "c12"])
def test_record_with_a_name_of_the_generated_code(name: str):
    needs_package("fastavro")
    from fastavro import parse_schema, schemaless_reader, schemaless_writer

    inner = {"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]}
    fields = [
        {"name": "deep", "type": arrays(12, "int")},
        {"name": "first", "type": inner},
        {"name": "second", "type": name},
        {"name": "deeper", "type": arrays(12, name)},
    ]
    schema = {"type": "record", "name": "Top", "fields": fields}
    ones, records = [1], [{"x": 4}]
    for _ in range(11):
        ones, records = [ones], [records]
    value = {"deep": ones, "first": {"x": 2}, "second": {"x": 3}, "deeper": records}
    file = io.BytesIO()
    schemaless_writer(file, parse_schema(schema), value)
    assert schemaless_reader(io.BytesIO(file.getvalue()), parse_schema(schema), None) == value
    assert read(schema, file.getvalue()) == value


def test_a_name_has_one_type():
    same = {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}
    other = {**same, "fields": [{"name": "x", "type": "string"}]}

    def schema(second: Any) -> Any:
        fields = [{"name": "a", "type": same}, {"name": "b", "type": second}]
        return {"type": "record", "name": "T", "fields": fields}

    assert read(schema(same), b"\2\4") == {"a": {"x": 1}, "b": {"x": 2}}
    # Java's parser takes these for one type, too (avro-1.12.1.jar).
    documented = {**same, "name": ".S", "doc": "d", "fields": [{"name": "x", "type": {"type": "int"}, "doc": "e"}]}
    assert read(schema(documented), b"\2\4") == {"a": {"x": 1}, "b": {"x": 2}}
    assert "there are two different types 'S'" in problem(schema(other), b"\2\2x")
    assert "a type cannot have the name 'int'" in problem({**same, "name": "int"}, b"\2")


def test_name_with_a_dot_at_its_beginning_has_no_namespace():
    """As Java's parser reads it (avro-1.12.1.jar)."""
    of_none = {"type": "record", "name": ".Y", "namespace": "a", "fields": [{"name": "s", "type": "string"}]}
    of_a = {"type": "record", "name": "Y", "fields": [{"name": "n", "type": "int"}]}
    fields = [
        {"name": name, "type": kind}
        for name, kind in [("p", of_none), ("q", of_a), ("r", ".Y"), ("s", "Y"), ("t", "a.Y")]
    ]
    schema = {"type": "record", "name": "a.X", "fields": fields}
    value = {"p": {"s": "p"}, "q": {"n": 1}, "r": {"s": "r"}, "s": {"n": 2}, "t": {"n": 3}}
    assert read(schema, b"\2p\2\2r\4\6") == value
    wider = {**schema, "fields": [*fields, {"name": "w", "type": "int", "default": 7}]}
    assert read(schema, b"\2p\2\2r\4\6", wider) == {**value, "w": 7}
    # The name without its dot is the same.
    single = {"type": "record", "name": "X", "fields": [{"name": "p", "type": of_none}, {"name": "q", "type": "Y"}]}
    assert read(single, b"\2p\2q") == {"p": {"s": "p"}, "q": {"s": "q"}}


def test_names_within_namespaces_and_references():
    address = {"type": "record", "name": "Address", "namespace": "x", "fields": [{"name": "s", "type": "string"}]}
    other = {**address, "namespace": "y", "fields": [{"name": "n", "type": "int"}]}
    fields = [{"name": "a", "type": "Address"}, {"name": "b", "type": "y.Address"}]
    customer = {"type": "record", "name": "x.Customer", "fields": fields}
    assert read(customer, b"\2s\4", None, address, other) == {"a": {"s": "s"}, "b": {"n": 2}}


# With a registry


def test_frames():
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    registry = by_id(id1=schema, id2="string")
    registry.answers["/schemas/guids/00000000-0000-0000-0000-000000000005"] = {"schema": '"string"'}
    registry.answers["apicurio:ids/globalIds/9"] = '"string"'
    registry.answers["apicurio:ids/globalIds/9/references"] = []
    decoder = make_decoder("avro", "value", registry=registry)
    one, two = b"\0\0\0\0\1", b"\0\0\0\0\2"
    payloads = [one + b"\4", None, two + b"\2x", one + b"\6", b"\2g", b"\2i", b"\0" * 8 + b"\x09\2a"]
    headers = [None, None, None, None, b"\1" + bytes(15) + b"\5", two, None]
    values = decoder.decode("t", payloads, headers)
    assert values == [{"a": 2}, None, "x", {"a": 3}, "g", "i", "a"]
    assert decoder.decode("t", payloads, headers) == values
    assert len(registry.asked) == len(set(registry.asked)) == 7 - 2 + 1  # the payloads, references, Apicurio's version


@pytest.mark.parametrize(
    ("payload", "header", "text"),
    [
        (b"", None, "avro: the data has no schema id: it does not start with byte 0 and an id"),
        (b"\0\0\0\1", None, "avro: the data has no schema id"),
        (b"\1\0\0\0\1\2", None, "avro: the data has no schema id"),
        (b"\0\0\0\0\7\2", None, "avro: the registry has no schema with id 7"),
        (
            b"\0\0\0\0\1\xff",
            None,
            "avro with schema 1: the data is not of this schema|avro with schema 1: the data ends",
        ),
        (b"\0\0\0\0\1\2x", None, "avro with schema 1: 1 bytes follow the value"),
        (b"\0\0\0\0\3\2", None, "avro with schema 3: the schema is not valid: there is no type 'nothing'"),
        (b"\2", b"\1short", "avro: the header __value_schema_id is not a schema id"),
        (b"\2", b"", "avro: the header __value_schema_id is not a schema id"),
    ],
)
def test_payload_that_does_not_decode_is_an_error_beside_the_others(payload: bytes, header: bytes | None, text: str):
    decoder = make_decoder("avro", "value", registry=by_id(id1="int", id3="nothing"))
    good = b"\0\0\0\0\1\4"
    first, error, last = decoder.decode("t", [good, payload, good], [None, header, None])
    assert (first, last) == (2, 2)
    assert isinstance(error, DecodeError)
    assert str(error).startswith(tuple(text.split("|")))


def test_error_names_the_schema_as_the_record_does():
    """A registry may answer with a GUID as well, by which nobody looks for the id of a payload."""
    guid = "0000abc0-0000-4000-8000-000000000001"
    answer = {"schema": '"int"', "guid": guid}
    decoder = make_decoder(
        "avro", "value", registry=KnownRegistry({"/schemas/ids/1": answer, f"/schemas/guids/{guid}": answer})
    )
    errors = decoder.decode("t", [b"\0\0\0\0\1\2x", b"\2x"], [None, b"\1" + UUID(guid).bytes])
    assert [str(error) for error in errors] == [
        "avro with schema 1: 1 bytes follow the value",
        f"avro with schema {guid}: 1 bytes follow the value",
    ]


def test_unknown_ids_are_asked_for_once_and_not_without_end():
    clock = ManualClock()
    registry = KnownRegistry({}, clock=clock)
    decoder = make_decoder("avro", "value", registry=registry)
    payloads = [b"\0" + n.to_bytes(4, "big") + b"\2" for n in range(1, 1500)] * 2
    assert all(isinstance(value, DecodeError) for value in decoder.decode("t", payloads))
    assert len(registry.asked) == 2000  # each by its id, and by the topic's subject
    # A follower finds the schemas that are registered while it runs.
    registry.answers = {"/schemas/ids/1": {"schema": '"int"'}, "/schemas/ids/1400": {"schema": '"long"'}}
    clock.advance(29_999)
    assert all(isinstance(value, DecodeError) for value in decoder.decode("t", [payloads[0], payloads[1399]]))
    clock.advance(1)
    assert decoder.decode("t", [payloads[0], payloads[1399]]) == [1, 1]
    assert len(registry.asked) == 2002


def test_a_schema_file_may_begin_with_a_byte_order_mark(tmp_path: Path):
    file = tmp_path / "user.avsc"
    file.write_text('{"type": "record", "name": "User", "fields": [{"name": "id", "type": "int"}]}', "utf-8-sig")
    assert make_decoder("avro", "value", schema_file=str(file)).decode("t", [b"\2"]) == [{"id": 1}]


def test_schema_file(tmp_path: Path):
    file = tmp_path / "a.avsc"
    file.write_text(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}))
    decoder = make_decoder("avro", "value", schema_file=str(file))
    framed = b"\0\0\0\0\7\2x"
    assert decoder.decode("t", [b"\2x", framed, None]) == [{"a": "x"}, {"a": "x"}, None]
    (error,) = decoder.decode("t", [b"\xff"])
    assert isinstance(error, DecodeError)
    reader = make_decoder("avro", "value", registry=by_id(id7={**json.loads(file.read_text()), "fields": []}))
    assert reader.decode("t", [framed[:5]]) == [{}]
    file.write_text("{")
    with pytest.raises(ConfigError, match="it is not a valid Avro schema: it is not JSON"):
        make_decoder("avro", "value", schema_file=str(file))


def test_no_source_of_schemas():
    with pytest.raises(
        ConfigError, match="value: avro needs a schema: use --schema-registry URL, or --schema-file FILE"
    ):
        make_decoder("avro", "value")


# Writing

SCALARS: list[tuple[Any, Any]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False, allow_infinity=False)),
    ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ("string", st.text()),
    ("bytes", st.binary()),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    (
        logical("bytes", "decimal", precision=12, scale=3),
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
    (logical("int", "date"), st.dates()),
    (logical("long", "time-micros"), st.times()),
    (logical("long", "timestamp-micros"), st.datetimes(timezones=st.just(UTC))),
    (logical("long", "timestamp-nanos"), st.integers(-(2**63), 2**63 - 1).map(Timestamp)),
    (logical("long", "local-timestamp-micros"), st.datetimes()),
    (logical("string", "uuid"), st.uuids()),
    (logical("fixed", "duration", name="D", size=12), st.builds(Duration, *[st.integers(0, 2**32 - 1)] * 3)),
]


@pytest.mark.parametrize(("schema", "values"), SCALARS, ids=lambda it: json.dumps(it) if not hasattr(it, "map") else "")
@given(data=st.data())
def test_json_of_a_value_is_written_to_the_same_bytes(schema: Any, values: Any, data: st.DataObject):
    name = schema.get("name", schema) if isinstance(schema, dict) else schema
    record = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "one", "type": schema},
            {"name": "many", "type": {"type": "array", "items": name}},
            {"name": "by", "type": {"type": "map", "values": name}},
        ],
    }
    parts = data.draw(st.lists(values, max_size=3 if schema != "null" else 0))
    value = {"one": data.draw(values), "many": parts, "by": {str(n): part for n, part in enumerate(parts)}}
    payload = AvroWriter(tree_of(json.dumps(record))).encode(json_ready(value))
    decoded = read(record, payload)
    assert json_ready(decoded) == json_ready(value)


UNION = ["null", "double", "long", "boolean", "string", "bytes", {"type": "array", "items": ["null", "long"]}, NODE]


@pytest.mark.parametrize(
    "value", [None, 1, 1.0, 1e300, True, "AQI=", [1, None], {"v": 1, "next": {"v": 2, "next": None}}]
)
def test_union_takes_the_branch_that_has_the_value_exactly(value: Any):
    decoded = read(UNION, AvroWriter(tree_of(json.dumps(UNION))).encode(value))
    assert decoded == value
    assert type(decoded) is type(value)


def test_union_of_floats_keeps_all_digits():
    writer = AvroWriter(tree_of('["float", "double"]'))
    assert writer.encode(0.5)[0] == 0
    assert read(["float", "double"], writer.encode(0.1)) == 0.1
    assert math.isnan(read(["float", "double"], writer.encode("NaN")))


def test_decimal_from_a_number():
    schema = logical("bytes", "decimal", precision=30, scale=2)
    writer = AvroWriter(tree_of(json.dumps(schema)))
    for number in (9999999999999.99, -9999999999999.99, 10**27, 0.1, "12345678901234567.89"):
        assert read(schema, writer.encode(number)) == Decimal(str(number))


def test_union_with_a_tag():
    assert AvroWriter(tree_of('["null", "int", "long"]')).encode({"long": 5}) == b"\4\x0a"


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ("int", 2**31, "value: the number has more than 32 bits"),
        ("int", True, "value: the value must be a whole number, not a boolean"),
        ("float", 1e300, "value: the number is too large for a float"),
        (["null", "double"], 10**400, "value: the number is too large for a float"),
        ("bytes", "é", "value: the value must be base64 text"),
        ("string", "\ud800", "value: the text has a character without a form in UTF-8"),
        (logical("bytes", "decimal", precision=3, scale=1), "1.23", "value: the number has more than 1 decimal places"),
        (logical("bytes", "decimal", precision=3, scale=1), "123.4", "value: the number has more than 3 digits"),
        (logical("bytes", "decimal", precision=3, scale=1), "1e999999999", "value: the value must be a decimal number"),
        (
            logical("bytes", "decimal", precision=30, scale=2),
            12345678901234567.89,  # which Python's JSON reads as ...568.0
            "value: a number with a decimal point keeps 15 digits; give a longer decimal as text",
        ),
        (logical("long", "timestamp-millis"), "2024-01-01T00:00:00.0001Z", "value: the time has more decimal places"),
        (logical("long", "timestamp-millis"), "2024-01-01T00:00:00", "value: the value must be a time, such as 2024"),
        (
            NODE,
            {"v": 1, "next": {"v": "x", "next": None}},
            "value.next.v: the value must be a whole number, not a text",
        ),
        (NODE, {"v": 1}, "value.next: the field is missing and has no default"),
        (NODE, {"v": 1, "next": None, "w": 1}, "value: the schema has no field 'w'"),
        ({"type": "array", "items": "int"}, [1, None], "value[1]: the value must be a whole number, not null"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "C", "value: 'C' is not a symbol of the enum; use A, B"),
    ],
)
def test_values_that_do_not_fit_the_schema(schema: Any, value: Any, text: str):
    with pytest.raises(EncodeError) as failed:
        AvroWriter(tree_of(json.dumps(schema))).encode(value)
    assert text in str(failed.value)


def test_missing_field_has_its_default():
    fields = [
        {"name": "b", "type": "bytes", "default": "\xff"},
        {"name": "n", "type": ["null", "int"], "default": None},
    ]
    record = {"type": "record", "name": "R", "fields": fields}
    assert read(record, AvroWriter(tree_of(json.dumps(record))).encode({})) == {"b": b"\xff", "n": None}


INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {"name": "b", "type": "bytes"},
        {"name": "two", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "again", "type": "Two", "default": "\u00ff\u00ff"},
    ],
}


def test_encoder_frames_the_value():
    registry = by_id(id7="string")
    registry.answers["/subjects/t-value/versions/latest"] = {"schema": '"long"', "id": 8, "version": 1, "subject": "t"}
    encoder = make_encoder("avro", "value", registry=registry, schema_id=7)
    assert encoder.encode("t", "x") == b"\0\0\0\0\7\2x"
    assert make_encoder("avro", "value", registry=registry).encode("t", 1) == b"\0\0\0\0\x08\2"
    with pytest.raises(EncodeError, match="avro: value: the value must be a text, not a whole number"):
        encoder.encode("t", 1)


def test_recursion_limit_is_not_met():
    """The deepest value that decodes can be made to JSON, and be read from it."""
    value = read(NODE, b"\2\2" * 127 + b"\2\0")
    assert json.loads(json_text(value)) == value
    assert AvroWriter(tree_of(json.dumps(NODE))).encode(json_ready(value)) == b"\2\2" * 127 + b"\2\0"


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("bytes", "a\u00ff", b"a\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u0001", b"\0\1"),
    ("double", 1, 1.0),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "\u0005", Decimal("0.05")),
    ({"type": "long", "logicalType": "timestamp-millis"}, 0, datetime.datetime(1970, 1, 1, tzinfo=UTC)),
    ({"type": "int", "logicalType": "date"}, 1, datetime.date(1970, 1, 2)),
    ({"type": "int", "logicalType": "date"}, -99_719_163, -99_719_163),
    ({"type": "string", "logicalType": "uuid"}, str(UUID(int=42)), UUID(int=42)),
    (["null", "bytes"], None, None),
    ({"type": "map", "values": "bytes"}, {"a": "b"}, {"a": b"b"}),
    (
        {"type": "array", "items": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "float"}]}},
        [{"x": 2}],
        [{"x": 2.0}],
    ),
    ({"type": {"type": "bytes"}}, "abcd", b"abcd"),
    (["double", "long"], 5, 5.0),
    ([{"type": "map", "values": "bytes"}, "null"], {"a": "abcd"}, {"a": b"abcd"}),
    (INNER, {"b": "abcd", "two": "\u0000\u0001"}, {"b": b"abcd", "two": b"\0\1", "again": b"\xff\xff"}),
]


@pytest.mark.parametrize(("kind", "default", "native"), DEFAULTS)
def test_default_of_a_readers_field_is_native(kind: Any, default: Any, native: Any) -> None:
    """Source: Avro 1.12, "Complex Types": defaults are JSON, bytes are text with the code points 0 to 255."""
    written: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    reader = {**written, "fields": [*written["fields"], {"name": "added", "type": kind, "default": default}]}
    value = read(written, b"\x02", reader)
    assert value == {"id": 1, "added": native}
    assert type(value["added"]) is type(native)


@pytest.mark.parametrize(("kind", "default", "native"), DEFAULTS)
def test_default_of_a_missing_field_is_written(kind: Any, default: Any, native: Any) -> None:
    """Source as above. A base64 text within a default, such as "abcd", is four bytes as all other texts."""
    record: dict[str, Any] = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": kind, "default": default}],
    }
    value = read(record, AvroWriter(tree_of(json.dumps(record))).encode({}))
    assert value == {"f": native}
    assert type(value["f"]) is type(native)


@pytest.mark.parametrize(
    ("kind", "default", "text"),
    [
        ("bytes", "\u0100", "value.f: the default of bytes has a character above U+00FF"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "value.f: the default must be 2 bytes, not 3"),
        (INNER, {"b": ""}, "value.f.two: the field is missing and has no default"),
        (["null", "int"], "x", "value.f: the value must be null, not a text"),
    ],
)
def test_default_that_is_not_valid(kind: Any, default: Any, text: str) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": default}]}
    with pytest.raises(EncodeError) as failed:
        AvroWriter(tree_of(json.dumps(record))).encode({})
    assert text in str(failed.value)


@pytest.mark.parametrize(
    ("kind", "default", "text"),
    [
        ({"type": "array", "items": {"type": "array", "items": "string"}}, ["xyz"], "f[0]: the value must be a list"),
        ({"type": "map", "values": INNER}, {"k": [["one", 1]]}, "f.k: the value must be an object"),
        ({"type": "array", "items": "double"}, [True], "f[0]: the value must be a number"),
    ],
)
def test_default_of_another_type_in_a_readers_schema(kind: Any, default: Any, text: str) -> None:
    """Java's parser refuses the schema."""
    old: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {**old, "fields": [*old["fields"], {"name": "f", "type": kind, "default": default}]}
    assert f"a default of the type 'R' is not valid: {text}" in problem_with_reader(old, b"\2", new)


# The whole of it at random

TYPES = st.recursive(
    st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"]),
    lambda inner: (
        inner.map(lambda it: {"type": "array", "items": it})
        | inner.map(lambda it: {"type": "map", "values": it})
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: {
                "type": "record",
                "name": "R",
                "fields": [{"name": f"f{n}", "type": part} for n, part in enumerate(parts)],
            }
        )
    ),
    max_leaves=6,
)


def with_names(schema: Any, numbers: Iterator[int]) -> Any:
    """The schema with a name of its own for each record."""
    if isinstance(schema, dict):
        schema = {key: with_names(part, numbers) for key, part in schema.items()}
        return {**schema, "name": f"f{next(numbers)}"} if schema.get("type") == "record" else schema
    return [with_names(part, numbers) for part in schema] if isinstance(schema, list) else schema


@given(schema=TYPES.map(lambda it: with_names(it, itertools.count())), payload=st.binary(max_size=60))
def test_any_bytes_give_what_fastavro_reads_or_an_error(schema: Any, payload: bytes):
    needs_package("fastavro")
    from fastavro import parse_schema, schemaless_reader

    compiled = compile_reader(tree_of(json.dumps(schema)), 0)
    try:
        value = compiled(payload)
    except (ValueError, IndexError, KeyError, EOFError, struct.error):
        return
    json_text(value)
    assert repr(schemaless_reader(io.BytesIO(payload), parse_schema(schema), None)) == repr(value)


def test_a_readers_schema_may_add_a_recursive_field() -> None:
    written: dict[str, Any] = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "p", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}},
        ],
    }
    reader = json.loads(json.dumps(written))
    reader["fields"][1]["type"]["fields"].append({"name": "next", "type": ["null", "P"], "default": None})
    assert read(written, b"\x02\x04", reader) == {"id": 1, "p": {"x": 2, "next": None}}


def evolved(schema: Any, draw: Any) -> Any:
    """A later version of a schema: promoted types, unions, fields that are new, renamed or gone."""
    later = evolved_in_union(schema, draw)
    return ["null", later] if later != "null" and draw(st.integers(0, 4)) == 4 else later


def evolved_in_union(schema: Any, draw: Any) -> Any:
    if isinstance(schema, str):
        wider = {"int": ["long", "float", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}
        return draw(st.sampled_from([schema, *wider.get(schema, [])]))
    if schema["type"] in ("array", "map"):
        part = "items" if schema["type"] == "array" else "values"
        return {**schema, part: evolved(schema[part], draw)}
    fields = []
    for field in schema["fields"]:
        change = draw(st.sampled_from(["keep", "keep", "drop", "rename"]))
        if change != "drop":
            name = field["name"] if change == "keep" else f"{field['name']}_new"
            fields.append({"name": name, "aliases": [field["name"]], "type": evolved(field["type"], draw)})
    if draw(st.booleans()):
        fields.append({"name": "added", "type": "int", "default": 7})
    return {**schema, "fields": fields}


@given(schema=TYPES.map(lambda it: with_names(it, itertools.count())), payload=st.binary(max_size=60), data=st.data())
def test_any_bytes_are_resolved_as_fastavro_does_it_or_an_error(schema: Any, payload: bytes, data: st.DataObject):
    needs_package("fastavro")
    from fastavro import parse_schema, schemaless_reader

    reader = evolved(schema, data.draw)
    compiled = compile_reader(tree_of(json.dumps(schema)), 0, tree_of(json.dumps(reader)))
    try:
        value = compiled(payload)
    except (ValueError, IndexError, KeyError, EOFError, struct.error):
        return
    assert repr(schemaless_reader(io.BytesIO(payload), parse_schema(schema), parse_schema(reader))) == repr(value)

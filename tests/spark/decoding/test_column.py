"""Decoded columns of record batches: reader's schema, errors beside the bytes, headers with schema ids. No JVM."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from kcli.errors import ConfigError, NotFound
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.schemas.schema import Schema
from kcli.structs import TopicPartition

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

import fastavro

from kcli.spark import decoding
from kcli.spark.arrow import Batcher
from kcli.spark.decoding import decode_plan
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.record_schema import ddl
from kcli.spark.source import columns_of, with_schema

BASE = {"kafka.bootstrap.servers": "a:9092", "subscribe": "orders", "value.decode": "avro"}
GUID = "00000000-0000-0000-0000-00000000002a"


def order(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    columns = [{"name": name, "type": kind, **more.get(name, {})} for name, kind in fields]
    return {"type": "record", "name": "Order", "fields": columns}


FIRST = order(("id", "int"), ("old", "string"))
SECOND = order(("id", "long"), ("text", "string"), ("country", "string"), country={"default": "DE"})
SECOND["fields"][1]["aliases"] = ["old"]


class FakeRegistry:
    """The schemas of one subject by id, the newest last."""

    def __init__(self, *schemas: Mapping[str, Any]) -> None:
        self.schemas = [Schema("AVRO", json.dumps(it), id=number) for number, it in enumerate(schemas, 1)]

    def version(self, subject: str, version: int | str = "latest") -> Schema:
        if subject != "orders-value":
            raise NotFound(f"the registry has no version {version} of subject {subject!r}")
        return self.schemas[-1 if version == "latest" else int(version) - 1]

    def schema(self, id: int, subject: str | None = None) -> Schema:
        if not 0 < id <= len(self.schemas):
            raise NotFound(f"the registry has no schema with id {id}")
        return self.schemas[id - 1]

    def by_guid(self, guid: str) -> Schema:
        assert guid == GUID
        return self.schemas[0]

    def closure(self, schema: Schema) -> list[tuple[str, Schema]]:
        return []

    def forget(self, schema: Schema) -> bool:
        return False


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    fake = FakeRegistry(FIRST, SECOND)
    monkeypatch.setattr(decode_plan, "registry_of", lambda _: fake)
    monkeypatch.setattr(decode_plan, "_kept", {})
    return fake


def payload(schema: Mapping[str, Any], value: Any, id: int | None = None) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return (b"" if id is None else b"\0" + id.to_bytes(4, "big")) + file.getvalue()


def planned(**more: str) -> SourceOptions:
    options = decode_plan.plan_decodings(
        parse_options({**BASE, **{name.replace("_", "."): it for name, it in more.items()}})
    )
    assert pickle.loads(pickle.dumps(options)) == options
    return options


def rows(options: SourceOptions, *values: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Any:
    records = [NewRecord(None, value, 1_700_000_000_000 + n, list(headers)) for n, value in enumerate(values)]
    batch = build_batch(records, base_offset=0)
    (section,) = decode_sections([RecordSection("orders", 0, memoryview(batch), 0)])
    decoded = decode_plan.decoded_columns(options, "orders")
    (made,) = Batcher(TopicPartition("orders", 0), options.record_columns(), decoded=decoded).batches(section.columns)
    made.validate(full=True)
    return made.to_pylist()


@pytest.mark.usefixtures("registry")
def test_older_records_have_the_columns_of_the_newest_schema() -> None:
    options = planned()
    assert ddl(columns_of(options)).startswith(
        "`key` binary, `value` struct<id:bigint,text:string,country:string>, `value_error` string, `value_raw` binary,"
    )
    first, second, null = rows(
        options,
        payload(FIRST, {"id": 1, "old": "a"}, 1),
        payload(SECOND, {"id": 2**40, "text": "b", "country": "FR"}, 2),
        None,
    )
    assert first["value"] == {"id": 1, "text": "a", "country": "DE"}
    assert second["value"] == {"id": 2**40, "text": "b", "country": "FR"}
    assert null["value"] is None
    assert {(row["value_error"], row["value_raw"]) for row in (first, second, null)} == {(None, None)}
    assert (first["topic"], first["offset"], second["offset"]) == ("orders", 0, 1)


@pytest.mark.usefixtures("registry")
def test_a_pinned_version_keeps_the_columns_of_a_stream() -> None:
    assert dict(columns_of(planned(value_schema_version="1")))["value"] == "struct<id:int,old:string>"


@pytest.mark.usefixtures("registry")
def test_payloads_that_do_not_decode_are_beside_their_reason() -> None:
    good = payload(SECOND, {"id": 1, "text": "", "country": ""}, 2)
    bad = [b"text", payload(FIRST, {"id": 1, "old": "a"}, 9), good[:-1], b""]
    found = rows(planned(columns="value,value_error,value_raw,offset"), good, *bad)
    assert [row["value_raw"] for row in found] == [None, *bad]
    assert [row["value"] is None for row in found] == [False, True, True, True, True]
    errors = [row["value_error"] for row in found]
    assert errors[0] is None
    assert errors[1] == "avro: the data has no schema id: it does not start with byte 0 and an id"
    assert errors[2] == "avro: the registry has no schema with id 9"
    assert errors[3].startswith("avro with schema 2: ")
    every = rows(planned(value_raw="all"), good, b"text")
    assert [row["value_raw"] for row in every] == [good, b"text"]


def test_a_value_outside_its_column_is_an_error_of_its_record_only(registry: FakeRegistry) -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
    schema = order(("amount", amount))
    registry.schemas = [Schema("AVRO", json.dumps(schema), id=1)]
    values = [b"\0\0\0\0\1\2" + bytes([digits]) for digits in (5, 99)]
    huge = b"\0\0\0\0\1\6\x7f\xff\xff"
    found = rows(planned(), *values, huge)
    assert [row["value"] and str(row["value"]["amount"]) for row in found] == ["0.5", "9.9", None]
    assert found[2]["value_error"] == "the value does not fit its column: amount: 838860.7 has more than 4 digits"
    assert found[2]["value_raw"] == huge


JSON_TYPES: dict[str, Any] = {
    "b": {"type": "boolean"},
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "s": {"type": "string"},
    "l": {"type": "array", "items": {"type": "string"}},
    "o": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "l": {"type": "array", "items": {"type": "number"}}},
    },
    "m": {"type": "object", "additionalProperties": {"type": "integer"}},
}
JSON_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    5,
    -1.5,
    2.0,
    2**53 + 1,
    2**64,
    "",
    "xyz",
    [],
    ["a"],
    [["x", 5]],
    {},
    {"x": 5},
]


@pytest.mark.parametrize("has_registry", [True, False])
def test_values_of_json_have_the_types_of_their_columns_or_an_error(
    registry: FakeRegistry, has_registry: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each JSON value in a column of each type: the referee is the validator of the package jsonschema."""
    jsonschema = pytest.importorskip("jsonschema")
    document = {"type": "object", "properties": JSON_TYPES}
    registry.schemas = [Schema("JSON", json.dumps(document), id=1)]
    more, frame = {"value_decode": "json-schema"}, b"\0\0\0\0\1"
    if not has_registry:
        monkeypatch.setattr(decode_plan, "registry_of", lambda _: None)
        (tmp_path / "s.json").write_text(json.dumps(document))
        more, frame = {**more, "value_schema_file": str(tmp_path / "s.json")}, b""
    options = planned(**more)
    cases = [(name, value) for name in JSON_TYPES for value in JSON_VALUES]
    found = rows(options, *(frame + json.dumps({name: value}).encode() for name, value in cases))
    for (name, value), row in zip(cases, found, strict=True):
        is_valid = value is None or jsonschema.Draft7Validator(JSON_TYPES[name]).is_valid(value)
        fits = (name, value) not in (("i", 2**64), ("n", 2**53 + 1))
        if is_valid and fits:
            assert row["value_error"] is None, (name, value, row)
            read = row["value"][name]
            if name == "m" and read is not None:
                read = dict(read)
            if name == "o" and value is not None:
                read = {key: part for key, part in read.items() if part is not None}
            assert read == value
        else:
            assert row["value"] is None, (name, value)
            assert row["value_error"].startswith(f"the value does not fit its column: {name}"), row
            assert row["value_raw"] is not None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"m": []}, "m: the value must be an object, not a list"),
        ({"m": {"k": "v"}}, "m.k: the value must be an integer, not a text"),
        ([], "the value must be an object, not a list"),
        ([["i", 5]], "the value must be an object, not a list"),
        ({"l": "xyz"}, "l: the value must be a list, not a text"),
        ({"l": ["a", None, 5]}, "l[2]: the value must be a text, not a whole number"),
        ({"n": True}, "n: the value must be a number, not a boolean"),
        ({"o": {"l": [1, {}]}}, "o.l[1]: the value must be a number, not an object"),
        ({"i": 1.5}, "i: 1.5 is not an integer"),
        ({"i": 2**63}, "i: the integer 9223372036854775808 has more than 64 bits"),
        ({"n": 2**53 + 1}, "n: the integer 9007199254740993 has more digits than a double keeps"),
    ],
)
def test_reasons_name_the_place_of_a_value_that_has_another_type(
    registry: FakeRegistry, value: Any, reason: str
) -> None:
    registry.schemas = [Schema("JSON", json.dumps({"type": "object", "properties": JSON_TYPES}), id=1)]
    bad, good = rows(
        planned(value_decode="json-schema"), b"\0\0\0\0\1" + json.dumps(value).encode(), b'\0\0\0\0\1{"i":7}'
    )
    assert bad["value"] is None
    assert bad["value_error"] == f"the value does not fit its column: {reason}"
    assert good["value"] == {"b": None, "i": 7, "n": None, "s": None, "l": None, "o": None, "m": None}


def test_values_of_avro_fit_the_checked_columns_as_they_are() -> None:
    """Columns of Avro are filled without a check of each value, because the decoder makes the types of the schema."""
    import pyarrow as pa

    from kcli.schemas.avro import make_read, tree_of
    from kcli.schemas.avro_schema import LOGICAL
    from kcli.spark.decoding.avro_types import avro_column_type
    from kcli.spark.decoding.column_types import arrow_type, converter

    sizes = {"uuid": 16, "duration": 12, "decimal": 2}
    numbers = {kind: [0, 1, -1, 86_399_999, 2**31 - 1, -(2**31)] for kind in ("int", "long")}
    numbers["long"] += [2**63 - 1, -(2**63), 2**53 + 1, 253_402_300_800_000]
    text = "00000000-0000-0000-0000-000000000005"
    values = {
        **numbers,
        "string": ["", "x", text],
        "bytes": [b"", b"\5"],
        "boolean": [True],
        "float": [1.5],
        "double": [2.5],
    }
    kinds: list[tuple[Any, list[Any]]] = [(kind, values[kind]) for kind in values]
    for name, bases in LOGICAL.items():
        for base in bases:
            logical = {"type": base, "logicalType": name, "precision": 4, "scale": 1}
            if base == "fixed":
                kinds.append(({**logical, "name": f"F{name}", "size": sizes[name]}, [bytes(sizes[name])]))
            else:
                kinds.append((logical, values[base]))
    for kind, some in kinds:
        schema = order(
            ("a", kind), ("l", {"type": "array", "items": "int"}), ("m", {"type": "map", "values": "string"})
        )
        tree = tree_of(json.dumps(schema))
        column = avro_column_type(tree)
        read, plain, exact = make_read(tree, 0), converter(column), converter(column, exact=True)
        assert exact is not None
        for value in some:
            decoded = read(payload(schema_without_logical(schema), {"a": value, "l": [1], "m": {"k": "v"}}))
            try:
                wanted = pa.array([plain(decoded) if plain else decoded], arrow_type(column))
            except (pa.ArrowException, OverflowError, ValueError):
                continue
            assert pa.array([exact(decoded)], arrow_type(column)) == wanted


def schema_without_logical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: schema_without_logical(part) for name, part in schema.items() if name != "logicalType"}
    return [schema_without_logical(part) for part in schema] if isinstance(schema, list) else schema


@pytest.mark.usefixtures("registry")
def test_the_schema_id_may_be_in_a_header() -> None:
    guid = b"\1" + bytes.fromhex(GUID.replace("-", ""))
    value = payload(FIRST, {"id": 7, "old": "x"})
    (row,) = rows(planned(), value, headers=(("other", b""), ("__value_schema_id", guid)))
    assert row["value"] == {"id": 7, "text": "x", "country": "DE"}


def test_decoders_without_a_schema() -> None:
    servers = {name: BASE[name] for name in ("kafka.bootstrap.servers", "subscribe")}
    for name, value, kind, expected in (
        ("string", b"text", "string", "text"),
        ("q", (5).to_bytes(8, "big"), "bigint", 5),
        ("json", b'{"a": [1.50]}', "string", '{"a":[1.5]}'),
    ):
        options = decode_plan.plan_decodings(parse_options({**servers, "value.decode": name}))
        assert dict(columns_of(options))["value"] == kind
        good, bad = rows(options, value, b"\xff")
        assert (good["value"], good["value_error"]) == (expected, None)
        assert bad["value"] is None
        assert bad["value_error"]


def test_a_schema_file_needs_no_registry(tmp_path: Any) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(SECOND))
    options = decode_plan.plan_decodings(parse_options({**BASE, "value.schema.file": str(file)}))
    file.unlink()
    value = {"id": 1, "text": "a", "country": "b"}
    bare, framed = rows(options, payload(SECOND, value), payload(SECOND, value, 77))
    assert bare["value"] == framed["value"] == value


@pytest.mark.usefixtures("registry")
def test_a_schema_given_by_the_user_may_leave_out_columns_only() -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    options = planned()
    fields = [StructField(name, kind) for name, kind in (("id", LongType()), ("text", StringType()))]
    value = StructType([*fields, StructField("country", StringType())])
    only = with_schema(options, StructType([StructField("value", value), StructField("offset", LongType())]))
    assert only.columns == ("value", "offset")
    with pytest.raises(ConfigError, match="value is of type struct<id:bigint,text:string,country:string>"):
        with_schema(options, StructType([StructField("value", StructType(fields))]))


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"subscribe": "orders,pays"}, "value.decode=avro of several topics requires value.subject"),
        ({"subscribe": "pays"}, "subject 'pays-value'; use value.subject"),
        ({"value.decode": "protobuf"}, "the schema of subject orders-value is one of AVRO"),
        ({"value.decode": "arvo"}, "'arvo' is not a known format"),
        ({"value.schema.version": "0"}, "latest, or a number from 1"),
        ({"value.schema.file": "/nowhere.avsc"}, "cannot read schema file /nowhere.avsc"),
    ],
)
def test_decodings_that_cannot_be_planned(more: dict[str, str], problem: str) -> None:
    with pytest.raises((ConfigError, NotFound)) as raised:
        decode_plan.plan_decodings(parse_options({**BASE, **more}))
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_registry_or_a_file_is_required() -> None:
    with pytest.raises(ConfigError, match=r"value\.decode=avro requires schema\.registry\.url, or value\.schema\.file"):
        decode_plan.plan_decodings(parse_options(BASE))


def test_properties_of_the_registry_have_a_prefix_or_none() -> None:
    for prefix in ("", "kafka."):
        url = {f"{prefix}schema.registry.url": "http://r:8081", f"{prefix}basic.auth.user.info": "u:secret"}
        options = parse_options({**BASE, **url})
        assert options.kafka["schema.registry.url"] == "http://r:8081"
        assert "secret" not in repr(options)
        assert str(decode_plan.registry_of(options.kafka)) == "<SchemaRegistry http://r:8081 schemas=0>"
    assert decoding.__doc__

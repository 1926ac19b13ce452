"""Encoders with a registry: the schema that they take, and what they refuse before a record is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ConfigError, NotFound
from kcli.schemas.serdes import EncodeError, make_encoder
from tests.needs import needs_package
from tests.schemas.known_registry import KnownRegistry

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "to": {"$ref": "address.json"}, "far": {"$ref": "http://far.example/x"}},
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "order.avsc"
    path.write_text(ORDER)
    return str(path)


def test_schema_file_without_a_registry_has_no_frame(file: str):
    assert make_encoder("avro", "value", schema_file=file).encode("t", {"id": 1}) == b"\2"


def test_schema_of_the_topic_of_a_subject_or_of_an_id():
    answers = {
        "/subjects/orders-key/versions/latest": {"schema": ORDER, "id": 3, "subject": "orders-key", "version": 2},
        "/subjects/mine%2Fx/versions/latest": {"schema": ORDER, "id": 4, "subject": "mine/x", "version": 1},
        "/schemas/ids/5": {"schema": ORDER},
    }
    registry = KnownRegistry(answers)
    for options, id in (({}, 3), ({"subject": "mine/x"}, 4), ({"schema_id": 5}, 5)):
        encoder = make_encoder("avro", "key", registry=registry, **options)
        assert encoder.encode("orders", {"id": 1}) == b"\0\0\0\0" + bytes([id]) + b"\2"
        assert encoder.encode("orders", {"id": 2})[5:] == b"\4"
    assert len(registry.asked) == 3


def test_schema_of_a_file_is_registered_only_on_request(file: str):
    registry = KnownRegistry({"/subjects/t-value/versions": {"id": 9}})
    with pytest.raises(NotFound, match=r"subject 't-value' does not have the schema of .*; use --register to add it"):
        make_encoder("avro", "value", registry=registry, schema_file=file).encode("t", {"id": 1})
    assert registry.asked == ["/subjects/t-value"]
    encoder = make_encoder("avro", "value", registry=registry, schema_file=file, register=True)
    assert encoder.encode("t", {"id": 1}) == b"\0\0\0\0\x09\2"
    registry.answers["/subjects/t-value"] = {"id": 8, "subject": "t-value", "version": 1, "schema": ORDER}
    encoder = make_encoder("avro", "value", registry=registry, schema_file=file)
    assert encoder.encode("t", {"id": 1})[4] == 8


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "value: avro needs a schema: use --schema-registry URL, or --schema-file FILE"),
        (
            {"schema_id": 1},
            "value: a schema id, a subject or --register requires a schema registry; use --schema-registry URL",
        ),
        ({"register": True, "schema_file": "x"}, "or --register requires a schema registry; use --schema-registry URL"),
        ({"schema_file": "/nothing/x.avsc"}, "cannot read schema file /nothing/x.avsc: No such file or directory"),
    ],
)
def test_options_without_a_registry(options: dict[str, Any], text: str):
    with pytest.raises(ConfigError) as failed:
        make_encoder("avro", "value", **options)
    assert text in str(failed.value)


def test_options_that_contradict(file: str):
    registry = KnownRegistry({})
    with pytest.raises(ConfigError, match="a schema id cannot be combined with a subject or a schema file"):
        make_encoder("avro", "value", registry=registry, schema_id=1, schema_file=file)
    with pytest.raises(ConfigError, match="registering needs the schema: use --schema-file FILE"):
        make_encoder("avro", "value", registry=registry, register=True)


def test_schema_of_another_kind():
    registry = KnownRegistry({"/schemas/ids/1": {"schema": "{}", "schemaType": "JSON"}})
    with pytest.raises(ConfigError, match="value: schema 1 is one of JSON, not of AVRO"):
        make_encoder("avro", "value", registry=registry, schema_id=1).encode("t", 1)


def test_schema_that_is_not_valid(tmp_path: Path):
    registry = KnownRegistry({"/schemas/ids/1": {"schema": '{"type": "record", "name": "R"}'}})
    with pytest.raises(EncodeError, match="avro: schema 1 is not valid: record 'R' has no valid list of fields"):
        make_encoder("avro", "value", registry=registry, schema_id=1).encode("t", 1)
    path = tmp_path / "bad.avsc"
    path.write_text('{"type": "record"}')
    with pytest.raises(ConfigError, match="it is not a valid schema: a type record has no name"):
        make_encoder("avro", "value", schema_file=str(path))


def json_registry() -> KnownRegistry:
    reference = {"name": "address.json", "subject": "address", "version": 1}
    address = {"$schema": JSON_ORDER["$schema"], "type": "object", "required": ["street"]}
    return KnownRegistry(
        {
            "/schemas/ids/1": {"schema": json.dumps(JSON_ORDER), "schemaType": "JSON", "references": [reference]},
            "/subjects/address/versions/1": {"schema": json.dumps(address), "schemaType": "JSON"},
        }
    )


def test_json_is_validated_by_its_schema():
    needs_package("jsonschema")
    encoder = make_encoder("json-schema", "value", registry=json_registry(), schema_id=1)
    assert encoder.encode("t", {"id": 1, "to": {"street": "s"}}) == b'\0\0\0\0\1{"id":1,"to":{"street":"s"}}'
    for value, text in (
        ({}, "json-schema: value: 'id' is a required property"),
        ({"id": "x"}, "json-schema: value.id: 'x' is not of type 'integer'"),
        ({"id": 1, "to": {}}, "json-schema: value.to: 'street' is a required property"),
        ({"id": 1, "far": 1}, "refers to 'http://far.example/x', which is not among its references"),
    ):
        with pytest.raises(EncodeError) as failed:
            encoder.encode("t", value)
        assert text in str(failed.value)


def test_json_schema_that_refers_to_itself_without_end(tmp_path: Path):
    needs_package("jsonschema")
    path = tmp_path / "s.json"
    path.write_text('{"$ref": "#"}')
    with pytest.raises(EncodeError, match="refers to itself without end"):
        make_encoder("json-schema", "value", schema_file=str(path)).encode("t", {})
    for text, place in (
        ('{"type": 5}', r"\$.type"),
        ('{"$schema": 1}', r"\$.\$schema"),
        ('{"$schema": []}', r"\$.\$schema"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=f"it is not valid at {place}"):
            make_encoder("json-schema", "value", schema_file=str(path))

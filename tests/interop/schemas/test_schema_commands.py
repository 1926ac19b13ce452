"""`kcli schema` on Apicurio, which judges compatibility in all three formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.cli.fake import Result, run_kcli
from tests.interop.schemas.protobuf_cases import CASES
from tests.schema_registry import Registry

pytestmark = pytest.mark.slow


def _record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


def _properties(**kinds: str) -> str:
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    return json.dumps({"type": "object", "properties": properties, "additionalProperties": False})


def _proto(fields: str) -> str:
    return f'syntax = "proto3"; message Order {{ {fields} }}'


ID = {"name": "id", "type": "long"}
N = {"name": "n", "type": "int"}
CHECKS = {
    "avsc": ("AVRO", _record(ID), _record(ID, {**N, "default": 0}), _record(N)),
    "json": ("JSON", _properties(id="integer"), _properties(id="integer", n="string"), _properties(id="string")),
    "proto": ("PROTOBUF", _proto("int64 id = 1;"), _proto("int64 id = 1; int32 n = 2;"), _proto("string id = 1;")),
}


def _schema(registry: Registry, command: str, *words: str) -> Result:
    return run_kcli("schema", command, *words, "--schema-registry", registry.url)


@pytest.mark.parametrize("suffix", CHECKS)
def test_check_before_a_deploy(apicurio: Registry, tmp_path: Path, suffix: str) -> None:
    kind, old, compatible, incompatible = CHECKS[suffix]
    subject = f"{apicurio.topic()}-value"
    apicurio.register(subject, old, kind)
    file = tmp_path / f"order.{suffix}"
    words = ("check", subject, "--schema-file", str(file))
    for text, status in ((compatible, 0), (incompatible, 6)):
        file.write_text(text)
        result = _schema(apicurio, *words, "-O", "jsonl")
        assert (result.status, result.err) == (status, "")
        item = json.loads(result.text)
        assert (item["version"], item["rule"], item["compatible"]) == (1, "BACKWARD", status == 0)
        assert bool(item["reasons"]) == (status == 6)
    file.write_text("{ not a schema")
    result = _schema(apicurio, *words)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert result.err.startswith(f"kcli: schema file {file}: the ")
    assert apicurio.request(f"/subjects/{subject}/versions") == [1]


def test_versions_and_diff(apicurio: Registry) -> None:
    kind, old, new, _ = CHECKS["proto"]
    subject = f"{apicurio.topic()}-value"
    numbers = [apicurio.register(subject, text, kind) for text in (old, new)]
    lines = _schema(apicurio, "versions", subject, "-O", "jsonl").text.splitlines()
    assert [(it["version"], it["id"], it["type"]) for it in map(json.loads, lines)] == [
        (n + 1, number, "PROTOBUF") for n, number in enumerate(numbers)
    ]
    assert _schema(apicurio, "diff", subject, "-O", "csv").text.splitlines()[1:] == ["added,Order.n,,int32 = 2,"]
    assert subject in _schema(apicurio, "list").text.splitlines()


def test_fields_of_a_descriptor_that_pythons_serialiser_registers(apicurio: Registry) -> None:
    topic, case = apicurio.topic(), CASES["proto2"]
    serialise = ProtobufSerializer(case.message_class, SchemaRegistryClient({"url": apicurio.url}))
    serialise(case.native(), SerializationContext(topic, MessageField.VALUE))
    result = _schema(apicurio, "show", f"{topic}-value", "--fields", "-O", "csv")
    assert "Old.name,required string = 1," in result.text.splitlines()
    assert "Old.count @default,7," in result.text.splitlines()

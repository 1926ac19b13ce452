"""JSON Schema in both directions: kcli, confluent-kafka and Apicurio's Java serialisers read what the others write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from kcli import Producer
from kcli.schemas.registry_client import SchemaRegistry
from kcli.schemas.serdes import EncodeError, make_decoder, make_encoder
from tests.cli.fake import run_kcli
from tests.interop.schemas.support import our_registry, same
from tests.real_kafka import Kafka
from tests.schema_registry import AS_CONFLUENT, JavaSerdes, Registry

pytestmark = pytest.mark.slow

OBJECT = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Thing", "type": "object"}
TREE = {
    **OBJECT,
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}
VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "empty object": (OBJECT, {}),
    "simple types": (OBJECT, {"i": 2**62, "f": -0.5, "b": True, "n": None, "s": 'Grüße, 世界 "🙂"\n'}),
    "lists and objects": (OBJECT, {"l": [[], [1, "a", None], {"x": {}}], "": {"ä": [False]}}),
    "recursion": (TREE, {"name": "a", "children": [{"name": "b", "children": []}, {"name": "c"}]}),
    "one of two": (
        {**OBJECT, "properties": {"v": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}},
        {"v": 3},
    ),
    "format": (
        {**OBJECT, "properties": {"at": {"type": "string", "format": "date-time"}}},
        {"at": "2024-02-29T12:00:00Z"},
    ),
}


@pytest.fixture(scope="module")
def confluent(apicurio: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": apicurio.url})


@pytest.fixture(scope="module")
def registry(apicurio: Registry) -> SchemaRegistry:
    return our_registry(apicurio.url)


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.parametrize("name", VALUES)
def test_value_in_all_directions(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, java_serdes: JavaSerdes, registry: SchemaRegistry
) -> None:
    (schema, value), topic = VALUES[name], apicurio.topic()
    text = json.dumps(schema)
    decoder = make_decoder("json-schema", "value", registry=registry)
    deserialise = JSONDeserializer(text, schema_registry_client=confluent)
    payload = JSONSerializer(text, confluent)(value, _context(topic))
    assert payload is not None
    assert same(deserialise(payload, _context(topic)), value)
    of_java = java_serdes.write("json-schema", topic, value)
    assert (of_java[:5], of_java[9:10]) == (b"\0\0\0\0\0", b"{")
    assert all(same(it, value) for it in decoder.decode(topic, [payload, of_java]))

    number = int.from_bytes(payload[1:5], "big")
    ours = make_encoder("json-schema", "value", registry=registry, schema_id=number).encode(topic, value)
    assert ours[:5] == payload[:5]
    assert same(deserialise(ours, _context(topic)), value)
    assert same(java_serdes.read("json-schema", topic, ours, **AS_CONFLUENT), value)


def test_references_are_followed_for_the_validation(
    apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    topic = apicurio.topic()
    name = "http://kcli.test/price.json"
    price = {"$id": name, "type": "object", "properties": {"units": {"type": "integer"}}, "required": ["units"]}
    apicurio.register(f"{topic}-price", price, "JSON")
    text = json.dumps({**OBJECT, "properties": {"price": {"$ref": name}}})
    schema = Schema(text, "JSON", [SchemaReference(name, f"{topic}-price", 1)])
    value = {"price": {"units": 5}}
    payload = JSONSerializer(schema, confluent)(value, _context(topic))
    assert payload is not None
    assert make_decoder("json-schema", "value", registry=registry).decode(topic, [payload]) == [value]

    encoder = make_encoder("json-schema", "value", registry=registry)
    ours = encoder.encode(topic, value)
    assert ours[:5] == payload[:5]
    assert JSONDeserializer(schema, schema_registry_client=confluent)(ours, _context(topic)) == value
    with pytest.raises(EncodeError, match="units"):
        encoder.encode(topic, {"price": {"units": "five"}})


def test_a_value_that_confluents_deserialiser_refuses_has_an_error(
    any_kafka: Kafka, apicurio: Registry, confluent: SchemaRegistryClient
) -> None:
    topic = any_kafka.new_topic(1)
    schema = {**OBJECT, "required": ["id"], "properties": {"id": {"type": "integer"}}}
    id = confluent.register_schema(f"{topic}-value", Schema(json.dumps(schema), "JSON"))
    values = [{"id": 1}, {"id": "x"}, {}, {"id": 2}]
    payloads = [b"\0" + id.to_bytes(4, "big") + json.dumps(value).encode() for value in values]
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        for payload in payloads:
            producer.send(topic, payload)
    read = JSONDeserializer(json.dumps(schema), schema_registry_client=confluent)
    refused = []
    for offset, payload in enumerate(payloads):
        try:
            read(payload, _context(topic))
        except SerializationError:
            refused.append(offset)
    assert refused == [1, 2]
    words = ["consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start", "-e", "-q", "-s", "value=json-schema"]
    found = run_kcli(*words, "--where", ".value_error", "-O", "jsonl", environ={"KCLI_SCHEMA_REGISTRY": apicurio.url})
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [line["offset"] for line in lines] == refused
    assert lines[0]["value_error"] == f"json-schema with schema {id}: value.id: 'x' is not of type 'integer'"
    assert found.status == 1

"""Ids in headers: confluent-kafka's serialisers put a GUID into `__value_schema_id`, and no frame into the payload.

The registry is franz-go's srfake, or that of the tests: Apicurio has no GUIDs. The framing is that of the serialisers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kcli.schemas.serdes import DecodeError, make_decoder
from tests.fake_registry import fake_registry
from tests.interop.schemas.protobuf_cases import CASES
from tests.interop.schemas.support import our_registry
from tests.schema_registry import Registry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Pair",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": {"type": "map", "values": "string"}}],
    }
)
JSON = json.dumps({"title": "Pair", "type": "object", "properties": {"a": {"type": "integer"}}})
SETTINGS = {
    "auto.register.schemas": False,
    "use.latest.version": True,
    "schema.id.serializer": header_schema_id_serializer,
}
Payload = tuple[bytes, bytes]


@pytest.fixture(params=["tests", "srfake"])
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    if request.param == "srfake":
        yield request.getfixturevalue("srfake")
        return
    with fake_registry() as server:
        yield Registry(server.url)


def _written(serialise: Callable[..., bytes | None], value: Any, topic: str, side: str = "value") -> Payload:
    """Return the payload and the header."""
    headers: list[tuple[str, bytes]] = []
    field = MessageField.VALUE if side == "value" else MessageField.KEY
    payload = serialise(value, SerializationContext(topic, field, headers))
    assert payload is not None
    ((name, header),) = headers
    assert name == f"__{side}_schema_id"
    return payload, header


def _context(topic: str, header: bytes) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, [("__value_schema_id", header)])


def test_avro(registry: Registry) -> None:
    topic, client = registry.topic(), SchemaRegistryClient({"url": registry.url})
    registry.register(f"{topic}-value", AVRO)
    value = {"a": 5, "b": {"long": "enough"}}
    payload, header = _written(AvroSerializer(client, AVRO, conf=SETTINGS), value, topic)
    assert (payload[:1], header[:1], len(header)) == (b"\x0a", b"\1", 17)
    ours = our_registry(registry.url)
    assert ours.by_guid(str(UUID(bytes=header[1:]))).text == AVRO
    decoder = make_decoder("avro", "value", registry=ours)
    assert decoder.decode(topic, [payload], [header]) == [value]
    assert AvroDeserializer(client)(payload, _context(topic, header)) == value


def test_avro_of_a_key(registry: Registry) -> None:
    topic, client = registry.topic(), SchemaRegistryClient({"url": registry.url})
    registry.register(f"{topic}-key", AVRO)
    value = {"a": -1, "b": {}}
    payload, header = _written(AvroSerializer(client, AVRO, conf=SETTINGS), value, topic, "key")
    assert make_decoder("auto", "key", registry=our_registry(registry.url)).decode(topic, [payload], [header]) == [
        value
    ]


def test_json_schema(registry: Registry) -> None:
    topic, client = registry.topic(), SchemaRegistryClient({"url": registry.url})
    registry.register(f"{topic}-value", JSON, "JSON")
    payload, header = _written(JSONSerializer(JSON, client, conf=SETTINGS), {"a": 1}, topic)
    assert json.loads(payload) == {"a": 1}
    assert make_decoder("json-schema", "value", registry=our_registry(registry.url)).decode(
        topic, [payload], [header]
    ) == [{"a": 1}]
    assert JSONDeserializer(JSON, schema_registry_client=client)(payload, _context(topic, header)) == {"a": 1}


def test_protobuf_has_the_path_of_the_message_after_the_guid(registry: Registry) -> None:
    topic, client = registry.topic(), SchemaRegistryClient({"url": registry.url})
    case = CASES["proto2"]
    first = ProtobufSerializer(case.message_class, client)
    first(case.native(), SerializationContext(topic, MessageField.VALUE))  # registers the descriptor
    payload, header = _written(ProtobufSerializer(case.message_class, client, SETTINGS), case.native(), topic)
    assert payload == case.native().SerializeToString()
    assert header[17:] == b"\0"
    (value,) = make_decoder("protobuf", "value", registry=our_registry(registry.url)).decode(topic, [payload], [header])
    assert {name: value[name] for name in case.plain} == case.plain
    deserialise = ProtobufDeserializer(case.message_class, schema_registry_client=client)
    assert deserialise(payload, _context(topic, header)) == case.native()


def test_records_with_and_without_the_header_in_one_batch(registry: Registry) -> None:
    topic, client = registry.topic(), SchemaRegistryClient({"url": registry.url})
    number = registry.register(f"{topic}-value", AVRO)
    value = {"a": 5, "b": {"long": "enough"}}
    payload, header = _written(AvroSerializer(client, AVRO, conf=SETTINGS), value, topic)
    framed = b"\0" + number.to_bytes(4, "big") + payload
    decoder = make_decoder("avro", "value", registry=our_registry(registry.url))
    of_id = b"\0" + number.to_bytes(4, "big")
    values = decoder.decode(topic, [payload, framed, None, payload, payload], [header, None, header, of_id, None])
    assert values[:4] == [value, value, None, value]
    assert isinstance(values[4], DecodeError)


@pytest.mark.parametrize("header", [b"", b"\1", b"\1" + bytes(15), b"\2" + bytes(16), b"\1" + bytes(16)])
def test_a_header_that_is_not_an_id_is_an_error_of_the_record(registry: Registry, header: bytes) -> None:
    (value,) = make_decoder("avro", "value", registry=our_registry(registry.url)).decode("t", [b"\2"], [header])
    assert isinstance(value, DecodeError)

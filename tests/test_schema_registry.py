"""The registries of the tests and the foreign serialisers behave as the other tests assume."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.schema_registry import AS_CONFLUENT, JavaSerdes, Registry

SCHEMA = '{"type":"record","name":"Pair","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}'
PAIR = {"a": 1, "b": "hi"}


@pytest.fixture(params=["apicurio", "srfake"])
def registry(request: pytest.FixtureRequest) -> Registry:
    found: Registry = request.getfixturevalue(request.param)
    return found


def test_confluents_serialiser_and_deserialiser_use_the_registry(registry: Registry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext(registry.topic(), MessageField.VALUE)
    payload = AvroSerializer(client, SCHEMA)(PAIR, context)
    assert payload is not None
    assert (payload[:1], payload[5:]) == (b"\0", b"\x02\x04hi")
    assert AvroDeserializer(client)(payload, context) == PAIR


@pytest.mark.parametrize(("config", "prefix"), [({}, 9), (AS_CONFLUENT, 5)], ids=["eight bytes", "four bytes"])
def test_apicurios_serialiser_writes_an_id_of_eight_or_four_bytes(
    apicurio: Registry, java_serdes: JavaSerdes, config: dict[str, Any], prefix: int
) -> None:
    topic = apicurio.topic()
    payload = java_serdes.write("avro", topic, PAIR, SCHEMA, **config)
    assert payload[prefix:] == b"\x02\x04hi"
    assert java_serdes.read("avro", topic, payload, **config) == PAIR
    if prefix == 5:
        client = SchemaRegistryClient({"url": apicurio.url})
        assert AvroDeserializer(client)(payload, SerializationContext(topic, MessageField.VALUE)) == PAIR

"""`kcli.schemas` beside confluent-kafka's serialisers: the same bytes and values, and clients that read each other.

Both register their schemas with Apicurio, which gives equal texts equal ids.
"""

from __future__ import annotations

import json
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, StringDeserializer, StringSerializer

from kcli import Consumer, Producer
from kcli.schemas import SchemaDeserializer, SchemaRegistry, SchemaSerializer
from kcli.schemas.json_values import json_ready
from tests.interop.schemas import avro_cases, protobuf_cases
from tests.interop.schemas.support import same
from tests.interop.schemas.test_json_schema import VALUES
from tests.real_kafka import Kafka
from tests.schema_registry import Registry

pytestmark = pytest.mark.slow

#: Their file imports common.proto, whose schema has to be registered by other means.
IMPORTING = {name for name, case in protobuf_cases.CASES.items() if case.file == "shop.proto"}


@pytest.fixture(scope="module")
def confluent(apicurio: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": apicurio.url})


@pytest.fixture(scope="module")
def registry(apicurio: Registry) -> SchemaRegistry:
    return SchemaRegistry.connect(apicurio.url)


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.parametrize("name", avro_cases.CASES)
def test_avro_of_native_values_is_that_of_confluents_serialiser(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    case, topic = avro_cases.CASES[name], apicurio.topic()
    value = avro_cases.record(case.native)
    theirs = AvroSerializer(confluent, case.schema)(value, context(topic))
    assert theirs is not None
    # Confluent's registers the text as it is, so that the subject has it; json_ready values are those of JSON.
    ours = SchemaSerializer("avro", registry, schema=case.schema, register=True)
    assert ours.serialize(topic, "value", (), value) == theirs
    newest = SchemaSerializer("avro", registry)
    assert newest.serialize(topic, "value", (), json_ready(value)) == theirs
    read = SchemaDeserializer("avro", registry).deserialize(topic, "value", (), theirs)
    assert same(read, AvroDeserializer(confluent)(theirs, context(topic)))
    assert newest.serialize(topic, "value", (), read) == theirs


@pytest.mark.parametrize("name", VALUES)
def test_json_schema_is_that_of_confluents_serialiser(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    (schema, value), topic = VALUES[name], apicurio.topic()
    text = json.dumps(schema)
    theirs = JSONSerializer(text, confluent)(value, context(topic))
    assert theirs is not None
    ours = SchemaSerializer("json-schema", registry, schema=schema, register=True).serialize(topic, "value", (), value)
    assert ours is not None
    assert ours[:5] == theirs[:5]
    assert same(JSONDeserializer(text, schema_registry_client=confluent)(ours, context(topic)), value)
    assert same(SchemaDeserializer("json-schema", registry).deserialize(topic, "value", (), theirs), value)


@pytest.mark.parametrize("name", sorted(protobuf_cases.CASES.keys() - IMPORTING))
def test_protobuf_of_a_generated_class_is_that_of_confluents_serialiser(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    case, topic = protobuf_cases.CASES[name], apicurio.topic()
    theirs = ProtobufSerializer(case.message_class, confluent)(case.native(), context(topic))
    assert theirs is not None
    serializer = SchemaSerializer("protobuf", registry, schema=case.message_class, register=True)
    assert serializer.serialize(topic, "value", (), case.native()) == theirs


@pytest.mark.parametrize("name", protobuf_cases.CASES)
def test_protobuf_of_the_newest_schema_is_read_by_confluents_deserialiser(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    """Confluent's serialiser registers the schema with its references; values are dicts, as ours reads them."""
    case, topic = protobuf_cases.CASES[name], apicurio.topic()
    theirs = ProtobufSerializer(case.message_class, confluent)(case.native(), context(topic))
    assert theirs is not None
    value = SchemaDeserializer("protobuf", registry).deserialize(topic, "value", (), theirs)
    serializer = SchemaSerializer("protobuf", registry, message=case.message)
    ours = serializer.serialize(topic, "value", (), value)
    read = ProtobufDeserializer(case.message_class, schema_registry_client=confluent)(ours, context(topic))
    assert read.SerializeToString(deterministic=True) == case.native().SerializeToString(deterministic=True)


ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "tag", "type": ["null", "bytes"]}],
}
ORDERS = [{"item": f"lamp {number}", "tag": None if number % 2 else b"\xff"} for number in range(20)]


def test_confluents_consumer_reads_what_our_producer_writes(
    any_kafka: Kafka, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    topic = any_kafka.new_topic(1, prefix="orders")
    serializer = SchemaSerializer("avro", registry, schema=ORDER, register=True)
    with Producer(
        bootstrap_servers=any_kafka.bootstrap_servers, value_serializer=serializer, key_serializer=str.encode
    ) as producer:
        for order in ORDERS:
            producer.send(topic, order, key=order["item"])
    consumer = confluent_kafka.DeserializingConsumer(
        {
            "bootstrap.servers": any_kafka.bootstrap_servers,
            "group.id": any_kafka.new_name("group"),
            "auto.offset.reset": "earliest",
            "key.deserializer": StringDeserializer(),
            "value.deserializer": AvroDeserializer(confluent),
        }
    )
    consumer.subscribe([topic])
    read = []
    while len(read) < len(ORDERS):
        message = consumer.poll(30)
        assert message is not None
        read.append((message.key(), message.value()))
    consumer.close()
    assert read == [(order["item"], order) for order in ORDERS]
    assert registry.versions(f"{topic}-value") == [1]


def test_our_consumer_reads_what_confluents_producer_writes(
    any_kafka: Kafka, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    topic = any_kafka.new_topic(1, prefix="orders")
    producer = confluent_kafka.SerializingProducer(
        {
            "bootstrap.servers": any_kafka.bootstrap_servers,
            "key.serializer": StringSerializer(),
            "value.serializer": AvroSerializer(confluent, json.dumps(ORDER)),
        }
    )
    for order in ORDERS:
        producer.produce(topic, key=order["item"], value=order)
    assert producer.flush(30) == 0
    with Consumer(
        topic,
        bootstrap_servers=any_kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=SchemaDeserializer("avro", registry),
    ) as consumer:
        read = [(record.key, record.value) for record in consumer.records(to_end=True)]
    assert read == [(order["item"], order) for order in ORDERS]

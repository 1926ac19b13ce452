"""`kcli consume -s` and `kcli produce -s` with Confluent's serialisers and registries that are not ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kcli import Producer
from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import Result, run_kcli
from tests.schema_registry import Registry

pytestmark = pytest.mark.slow

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "customer",
            "type": ["null", {"type": "record", "name": "C", "fields": [{"name": "n", "type": "string"}]}],
        },
    ],
}
KEY = {"title": "Key", "type": "object", "properties": {"k": {"type": "integer"}}}
ORDERS: list[dict[str, Any]] = [
    {"id": 1, "customer": {"n": "Ann"}},
    {"id": 9007199254740993, "customer": None},
    {"id": 3, "customer": {"n": "Bob"}},
]


def context(topic: str, field: str = MessageField.VALUE, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, field, headers)


class Scene:
    """A topic of an embedded broker, and a registry."""

    def __init__(self, broker: EmbeddedBroker, registry: Registry) -> None:
        self.registry = registry
        self.address = broker.address
        self.topic = registry.topic()
        broker.create_topic(self.topic, 1)

    def send(self, *records: tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]) -> None:
        with Producer(bootstrap_servers=self.address) as producer:
            for key, value, headers in records:
                producer.send(self.topic, value, key=key, headers=headers)

    def kcli(self, *words: str, stdin: bytes = b"") -> Result:
        verb, *options = words
        environ = {"KCLI_BOOTSTRAP_SERVER": self.address, "KCLI_SCHEMA_REGISTRY": self.registry.url}
        return run_kcli(verb, self.topic, *options, environ=environ, stdin=stdin)

    def consume(self, *options: str) -> Result:
        return self.kcli("consume", "-o", "start", "-e", "-q", *options)


def test_records_of_confluents_serialisers_are_decoded_filtered_and_selected(
    kafka_broker: EmbeddedBroker, apicurio: Registry
) -> None:
    scene, client = Scene(kafka_broker, apicurio), SchemaRegistryClient({"url": apicurio.url})
    values = AvroSerializer(client, json.dumps(ORDER))
    keys = JSONSerializer(json.dumps(KEY), client)
    records = [
        (keys({"k": n}, context(scene.topic, MessageField.KEY)), values(order, context(scene.topic)), [])
        for n, order in enumerate(ORDERS)
    ]
    scene.send(*records, (None, None, []), (b"\xff", b"\0\0\0\xff\xff1", []))

    done = scene.consume("-s", "key=json-schema", "-s", "value=avro", "-O", "jsonl")
    *good, broken = map(json.loads, done.out.splitlines())
    assert [line["value"] for line in good] == [*ORDERS, None]
    assert [line["key"] for line in good] == [{"k": 0}, {"k": 1}, {"k": 2}, None]
    assert (broken["value"], broken["value_raw"], broken["value_raw_encoding"]) == (None, "AAAA//8x", "base64")
    assert done.status == 1
    assert [line.split(";")[0] for line in done.err.splitlines()] == [
        "kcli: 1 key did not decode",
        "kcli: 1 value did not decode",
    ]

    done = scene.consume("-s", "value=auto", "--where", ".value.customer.n", "--select", "{offset, id: .value.id}")
    assert [json.loads(line) for line in done.out.splitlines()] == [{"offset": 0, "id": 1}, {"offset": 2, "id": 3}]
    done = scene.consume("-s", "value=avro", "-f", "%{value.id} %{value.customer.n}\\n", "-n", "3")
    assert (done.status, done.out) == (0, b"1 Ann\n9007199254740993 \n3 Bob\n")

    member = ("consume", "-g", scene.topic, "-o", "start", "-e", "-q", "-s", "value=avro", "-n", "1")
    runs = [scene.kcli(*member, "--where", ".value.id > 1", "--select", ".value.id") for _ in range(3)]
    # The second one has read to the end, past the value that does not decode: it counts and commits it.
    assert [(run.status, run.out) for run in runs] == [(0, b"9007199254740993\n"), (1, b"3\n"), (0, b"")]


def test_records_encoded_by_kcli_are_read_by_confluents_deserialiser(
    kafka_broker: EmbeddedBroker, apicurio: Registry, tmp_path: Any
) -> None:
    scene, client = Scene(kafka_broker, apicurio), SchemaRegistryClient({"url": apicurio.url})
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    lines = b"".join(json.dumps(order).encode() + b"\n" for order in ORDERS)
    options = ("produce", "-s", "value=avro", "--schema-file", str(tmp_path / "order.avsc"))
    refused = scene.kcli(*options, stdin=lines)
    assert refused.status != 0, "the schema is registered only with --register"
    assert not [name for name in client.get_subjects() if name.startswith(scene.topic)]

    done = scene.kcli(*options, "--register", stdin=lines + b'{"id": "x"}\n')
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("kcli: 1 record not stored: record 4 of the input: value: avro")
    read = AvroDeserializer(client)
    payloads = [bytes.fromhex(line) for line in scene.consume("-s", "value=hex").out.decode().split()]
    assert [read(payload, context(scene.topic)) for payload in payloads] == ORDERS

    copied = scene.consume("-s", "value=avro", "-O", "jsonl").out
    assert scene.kcli("produce", "--input", "jsonl", "-s", "value=avro", stdin=copied).status == 0
    again = scene.consume("-s", "value=hex").out.decode().split()
    assert [bytes.fromhex(line) for line in again] == payloads * 2


def test_ids_of_schemas_in_headers_are_used(kafka_broker: EmbeddedBroker, srfake: Registry) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    scene, client = Scene(kafka_broker, srfake), SchemaRegistryClient({"url": srfake.url})
    srfake.register(f"{scene.topic}-value", ORDER)
    settings = {"auto.register.schemas": False, "use.latest.version": True}
    write = AvroSerializer(client, None, conf={**settings, "schema.id.serializer": header_schema_id_serializer})
    for order in ORDERS:
        headers: list[tuple[str, bytes]] = [("other", b"1")]
        scene.send((None, write(order, context(scene.topic, headers=headers)), headers))
    done = scene.consume("-s", "value=avro", "-O", "jsonl")
    assert [json.loads(line)["value"] for line in done.out.splitlines()] == ORDERS
    assert (done.status, done.err) == (0, "")

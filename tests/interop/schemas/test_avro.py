"""Avro in both directions: kcli, confluent-kafka and Apicurio's Java serialisers read what the others write."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kcli.schemas.json_values import json_ready
from kcli.schemas.registry_client import SchemaRegistry
from kcli.schemas.serdes import make_decoder, make_encoder
from tests.interop.schemas.avro_cases import CASES, EVOLUTIONS, NAMESPACE, POINT, record
from tests.interop.schemas.support import our_registry, same
from tests.schema_registry import AS_CONFLUENT, JavaSerdes, Registry

pytestmark = pytest.mark.slow
each_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def confluent(apicurio: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": apicurio.url})


@pytest.fixture(scope="module")
def registry(apicurio: Registry) -> SchemaRegistry:
    return our_registry(apicurio.url)


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


Written = Callable[[str], tuple[str, bytes]]


@pytest.fixture(scope="module")
def written(apicurio: Registry, confluent: SchemaRegistryClient) -> Written:
    """The topic and the payload of a case, which confluent-kafka's serialiser writes and registers once."""

    @functools.cache
    def write(name: str) -> tuple[str, bytes]:
        case, topic = CASES[name], apicurio.topic()
        payload = AvroSerializer(confluent, case.schema)(record(case.native), _context(topic))
        assert payload is not None
        return topic, payload

    return write


@each_case
def test_value_of_confluents_serialiser_equals_that_of_its_deserialiser(
    name: str, written: Written, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    case = CASES[name]
    topic, payload = written(name)
    (value,) = make_decoder("avro", "value", registry=registry).decode(topic, [payload])
    assert same(value, AvroDeserializer(confluent)(payload, _context(topic)))
    assert json_ready(value) == record(case.plain)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("not a number", "infinity")]
)  # no JSON in Java
def test_value_of_apicurios_serialiser_with_an_id_of_eight_bytes(
    name: str, apicurio: Registry, java_serdes: JavaSerdes, registry: SchemaRegistry
) -> None:
    case, topic = CASES[name], apicurio.topic()
    payload = java_serdes.write("avro", topic, record(case.tagged), case.schema)
    (value,) = make_decoder("avro", "value", registry=registry).decode(topic, [payload])
    assert json_ready(value) == record(case.plain)


@pytest.mark.parametrize("name", EVOLUTIONS)
def test_value_by_the_schema_of_the_reader_equals_that_of_confluents_deserialiser(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry, tmp_path: Path
) -> None:
    case, topic, file = EVOLUTIONS[name], apicurio.topic(), tmp_path / "reader.avsc"
    writer, reader = case.schemas
    file.write_text(reader)
    payload = AvroSerializer(confluent, writer)(case.value, _context(topic))
    assert payload is not None
    (value,) = make_decoder("avro", "value", registry=registry, schema_file=str(file)).decode(topic, [payload])
    assert same(value, AvroDeserializer(confluent, reader)(payload, _context(topic)))


def test_value_of_a_schema_with_references_to_others_with_references(
    apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    topic = apicurio.topic()
    line = {"type": "record", "name": "Line", "namespace": NAMESPACE, "fields": [_of("from"), _of("to")]}
    apicurio.register(f"{topic}-point", {**POINT, "namespace": NAMESPACE})
    to_point = {"name": f"{NAMESPACE}.Point", "subject": f"{topic}-point", "version": 1}
    apicurio.register(f"{topic}-line", line, references=[to_point])
    to_line = SchemaReference(f"{NAMESPACE}.Line", f"{topic}-line", 1)
    fields = [{"name": "line", "type": f"{NAMESPACE}.Line"}, _of("at")]
    text = json.dumps({"type": "record", "name": "Figure", "namespace": NAMESPACE, "fields": fields})
    references = [to_line, SchemaReference(f"{NAMESPACE}.Point", f"{topic}-point", 1)]
    figure = {"line": {"from": {"x": 1, "y": 2}, "to": {"x": 3, "y": 4}}, "at": {"x": 5, "y": 6}}
    payload = AvroSerializer(confluent, Schema(text, "AVRO", references))(figure, _context(topic))
    assert payload is not None
    assert make_decoder("avro", "value", registry=registry).decode(topic, [payload]) == [figure]
    assert AvroDeserializer(confluent)(payload, _context(topic)) == figure


def _of(name: str) -> dict[str, str]:
    return {"name": name, "type": f"{NAMESPACE}.Point"}


def test_id_of_eight_bytes_is_apicurios_global_id_which_differs_from_that_of_the_compatible_interface(
    apicurio: Registry, java_serdes: JavaSerdes, registry: SchemaRegistry
) -> None:
    topic, text = apicurio.topic(), json.dumps({**POINT, "name": "OfTwoSubjects"})
    by_content = {apicurio.register(f"{topic}-{n}-value", text) for n in range(2)}
    payload = java_serdes.write("avro", f"{topic}-2", {"x": 1, "y": 2}, text)
    assert int.from_bytes(payload[1:9], "big") not in by_content
    assert make_decoder("avro", "value", registry=registry).decode(topic, [payload]) == [{"x": 1, "y": 2}]


def test_apicurios_serialiser_in_the_framing_of_confluents(
    apicurio: Registry, java_serdes: JavaSerdes, registry: SchemaRegistry
) -> None:
    topic, case = apicurio.topic(), CASES["record"]
    payload = java_serdes.write("avro", topic, record(case.tagged), case.schema, **AS_CONFLUENT)
    assert make_decoder("avro", "value", registry=registry).decode(topic, [payload]) == [record(case.native)]


@each_case
def test_foreign_deserialisers_read_an_encoded_value(
    name: str, written: Written, confluent: SchemaRegistryClient, java_serdes: JavaSerdes, registry: SchemaRegistry
) -> None:
    case = CASES[name]
    topic, confluents = written(name)
    number = int.from_bytes(confluents[1:5], "big")
    payload = make_encoder("avro", "value", registry=registry, schema_id=number).encode(topic, record(case.plain))
    assert payload[:5] == b"\0" + number.to_bytes(4, "big")
    assert same(AvroDeserializer(confluent)(payload, _context(topic)), record(case.native))
    assert java_serdes.read("avro", topic, payload, **AS_CONFLUENT) == record(case.tagged)

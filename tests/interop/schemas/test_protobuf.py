"""Protobuf in both directions: kcli, confluent-kafka and Apicurio's Java serialisers read what the others write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format

from kcli.schemas.json_values import json_ready
from kcli.schemas.registry_client import SchemaRegistry
from kcli.schemas.serdes import make_decoder, make_encoder
from tests.interop.schemas.protobuf_cases import CASES, COMMON, OLD, SHOP, ProtobufCase, descriptor_text
from tests.interop.schemas.support import our_registry
from tests.schema_registry import AS_CONFLUENT, JavaSerdes, Registry

pytestmark = pytest.mark.slow
# Apicurio's serialiser refuses a nested message, and its text of a schema lacks the groups of proto2.
OF_APICURIO = [name for name, case in CASES.items() if case.message.count(".") == 2 and name != "proto2"]
each_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def confluent(apicurio: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": apicurio.url})


@pytest.fixture(scope="module")
def registry(apicurio: Registry) -> SchemaRegistry:
    return our_registry(apicurio.url)


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def _assert_equal(value: Any, case: ProtobufCase) -> None:
    """Compare with the expected JSON, and let Protobuf's own library read the value."""
    plain = json_ready(value)
    assert _without_defaults(plain, case.plain) == case.plain
    read = json_format.ParseDict(plain, case.message_class(), descriptor_pool=case.pool())
    if "not a number" not in CASES or case is not CASES["not a number"]:  # NaN is not equal to itself
        assert read == case.native()


def _without_defaults(value: Any, expected: Any) -> Any:
    """Return the value without the fields that have their default and that are not expected."""
    if isinstance(value, dict) and isinstance(expected, dict):
        kept = {name: part for name, part in value.items() if name in expected or part not in ("", 0, [], {}, "RED")}
        return {name: _without_defaults(part, expected.get(name)) for name, part in kept.items()}
    if isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        return [_without_defaults(*pair) for pair in zip(value, expected, strict=True)]
    return value


@each_case
def test_value_of_confluents_serialiser_equals_that_of_its_deserialiser(
    name: str, apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    case, topic = CASES[name], apicurio.topic()
    serialise = ProtobufSerializer(case.message_class, confluent)
    payload = serialise(case.native(), _context(topic))
    assert payload is not None
    (value,) = make_decoder("protobuf", "value", registry=registry).decode(topic, [payload])
    _assert_equal(value, case)
    read = ProtobufDeserializer(case.message_class, schema_registry_client=confluent)(payload, _context(topic))
    assert read.SerializeToString(deterministic=True) == case.native().SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("name", "config"), [*((name, {}) for name in OF_APICURIO), ("an imported message", AS_CONFLUENT)]
)
def test_value_of_apicurios_serialiser_which_names_the_message(
    name: str, config: dict[str, str], apicurio: Registry, java_serdes: JavaSerdes, registry: SchemaRegistry
) -> None:
    case, topic = CASES[name], apicurio.topic()
    payload = java_serdes.write("protobuf", topic, case.mapped, descriptor_text(case.file), case.message, **config)
    assert payload[:5] == b"\0\0\0\0\0" or config
    (value,) = make_decoder("protobuf", "value", registry=registry).decode(topic, [payload])
    _assert_equal(value, case)


@pytest.fixture(scope="module")
def text_id(apicurio: Registry) -> int:
    """The id of a schema that is registered as text with a reference, as Confluent's Java serialiser does."""
    common = apicurio.topic("common")
    apicurio.register(common, COMMON, "PROTOBUF")
    references = [{"name": "common.proto", "subject": common, "version": 1}]
    return apicurio.register(f"{apicurio.topic()}-value", SHOP, "PROTOBUF", references)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("scalars", b"\0"),
        ("lists", b"\x02\x02"),
        ("a message nested twice", b"\x06\x0e\x02\0"),
        ("an imported message", b"\x02\x12"),
        ("any, mask and empty", b"\x02\x10"),
    ],
)
def test_value_of_a_schema_that_is_registered_as_text(
    name: str, path: bytes, registry: SchemaRegistry, text_id: int
) -> None:
    """The path is a count and indexes as zigzag varints, and the single byte 0 for the first message (Confluent)."""
    case = CASES[name]
    payload = b"\0" + text_id.to_bytes(4, "big") + path + case.native().SerializeToString()
    (value,) = make_decoder("protobuf", "value", registry=registry).decode("t", [payload])
    _assert_equal(value, case)


def test_fields_that_the_schema_file_lacks_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "newer.proto"
    file.write_text('syntax = "proto3";\nmessage Newer { int64 a_sint = 4; string added = 99; }\n')
    case = CASES["scalars"]
    decoder = make_decoder("protobuf", "value", schema_file=str(file))
    assert decoder.decode("t", [case.native().SerializeToString()]) == [{"a_sint": -(2**63), "added": ""}]


@each_case
def test_confluents_deserialiser_reads_an_encoded_value(
    name: str, confluent: SchemaRegistryClient, registry: SchemaRegistry, text_id: int, apicurio: Registry
) -> None:
    case, topic = CASES[name], apicurio.topic()
    number = text_id if case.file == "shop.proto" else apicurio.register(f"{topic}-value", OLD, "PROTOBUF")
    encoder = make_encoder("protobuf", "value", registry=registry, schema_id=number, message=case.message)
    payload = encoder.encode(topic, case.plain)
    read = ProtobufDeserializer(case.message_class)(payload, _context(topic))
    assert read.SerializeToString(deterministic=True) == case.native().SerializeToString(deterministic=True)


def test_messages_with_types_that_confluents_serialisers_build_in(
    apicurio: Registry, confluent: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    """The schema imports google/type and confluent/type, and the registry has no reference for them."""
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2
    from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory
    from google.type import datetime_pb2, month_pb2

    file = descriptor_pb2.FileDescriptorProto(name="built_in.proto", package="kcli.tests", syntax="proto3")
    file.dependency.extend(
        (
            "google/type/datetime.proto",
            "google/type/month.proto",
            "confluent/type/decimal.proto",
            "confluent/meta.proto",
        )
    )
    message = file.message_type.add(name="Invoice")
    types = (".google.type.DateTime", ".google.type.Month", ".confluent.type.Decimal")
    for number, (name, kind) in enumerate(zip(("at", "month", "amount"), types, strict=True), 1):
        message.field.add(name=name, number=number, label=1, type=14 if name == "month" else 11, type_name=kind)
    pool = descriptor_pool.DescriptorPool()
    for module in (descriptor_pb2, duration_pb2, datetime_pb2, month_pb2, decimal_pb2, meta_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    invoice = message_factory.GetMessageClass(pool.FindMessageTypeByName("kcli.tests.Invoice"))
    plain = {"at": {"year": 2024, "utc_offset": "3600s"}, "month": "MARCH", "amount": {"value": "BQ==", "scale": 2}}
    native = json_format.ParseDict(plain, invoice(), descriptor_pool=pool)
    topic = apicurio.topic()
    payload = ProtobufSerializer(invoice, confluent)(native, _context(topic))
    assert confluent.get_latest_version(f"{topic}-value").schema.references == []
    (value,) = make_decoder("protobuf", "value", registry=registry).decode(topic, [payload])
    assert json_format.ParseDict(json_ready(value), invoice(), descriptor_pool=pool) == native
    assert (value["month"], value["at"]["utc_offset"], value["amount"]["value"]) == ("MARCH", "3600s", b"\5")

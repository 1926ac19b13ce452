"""`SchemaSerializer` and `SchemaDeserializer`: subjects, ids, values of each format, errors, and the two clients."""

from __future__ import annotations

import datetime
import doctest
import pickle
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import kcli.schemas
from kcli import Consumer, Producer
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.errors import ConfigError, NotFound, SerializationError
from kcli.schemas import SchemaDeserializer, SchemaRegistry, SchemaSerializer
from kcli.schemas.registry_client import RegistryError
from tests.fake_registry import FakeRegistry, fake_registry
from tests.needs import needs_package

UTC = datetime.timezone.utc
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "total", "type": "long"}]}
PROTO = """
syntax = "proto3";
package shop;
message Line { int32 n = 1; }
message Order { int64 total = 1; bytes tag = 2; }
"""
JSON_SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with fake_registry() as server:
        yield server


@pytest.fixture
def registry(fake: FakeRegistry) -> SchemaRegistry:
    return SchemaRegistry.connect(fake.url)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        for topic in ("names", "sales"):  # of the examples
            broker.create_topic(topic)
        yield broker


# Subjects and schemas


def test_the_subject_is_named_after_topic_and_field_and_each_is_asked_for_once(
    fake: FakeRegistry, registry: SchemaRegistry
) -> None:
    serializer = SchemaSerializer("avro", registry, schema=ORDER, register=True)
    for _ in range(3):
        for topic, field in (("orders", "value"), ("orders", "key"), ("refunds", "value")):
            assert serializer.serialize(topic, field, (), {"total": 5}) == b"\0\0\0\0\x01\x0a"
    assert sorted(fake.subjects) == ["orders-key", "orders-value", "refunds-value"]
    assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("shop.Order", "shop.Order"), (lambda topic, field: f"{topic}/{field}/Order", "orders/value/Order")],
)
def test_the_subject_may_be_a_text_or_a_function(
    subject: Any, expected: str, fake: FakeRegistry, registry: SchemaRegistry
) -> None:
    serializer = SchemaSerializer("avro", registry, schema=ORDER, subject=subject, register=True)
    serializer.serialize("orders", "value", (), {"total": 5})
    assert [*fake.subjects] == [expected]


def test_without_a_schema_the_newest_of_the_subject_is_used(fake: FakeRegistry, registry: SchemaRegistry) -> None:
    fake.register("orders-value", '"string"')
    fake.register("orders-value", ORDER)
    assert SchemaSerializer("avro", registry).serialize("orders", "value", (), {"total": 5}) == b"\0\0\0\0\x02\x0a"


def test_a_schema_that_the_subject_lacks_is_not_added_without_register(
    fake: FakeRegistry, registry: SchemaRegistry
) -> None:
    fake.register("orders-value", '"string"')
    with pytest.raises(SerializationError, match="does not have this schema; use register=True to add it") as caught:
        SchemaSerializer("avro", registry, schema=ORDER).serialize("orders", "value", (), {"total": 5})
    where = {"topic": "orders", "field": "value", "subject": "orders-value"}
    assert caught.value.evidence == {**where, "schema_id": None}
    assert isinstance(caught.value.__cause__, NotFound)
    fake.register("orders-value", ORDER)
    assert SchemaSerializer("avro", registry, schema=ORDER).serialize("orders", "value", (), {"total": 5})


def test_as_a_function_a_serializer_needs_a_fixed_subject(registry: SchemaRegistry) -> None:
    serializer = SchemaSerializer("avro", registry, schema=ORDER, subject="orders-value", register=True)
    assert serializer({"total": 5}) == b"\0\0\0\0\x01\x0a"
    assert SchemaDeserializer("avro", registry)(b"\0\0\0\0\x01\x0a") == {"total": 5}
    with pytest.raises(ConfigError, match="give subject='orders-value'"):
        SchemaSerializer("avro", registry, schema=ORDER)({"total": 5})


def test_null_stays_null(registry: SchemaRegistry) -> None:
    assert SchemaSerializer("avro", registry).serialize("orders", "value", (), None) is None
    assert SchemaDeserializer("avro", registry).deserialize("orders", "value", (), None) is None


# Formats


def test_native_values_of_avro_return_as_they_were(registry: SchemaRegistry) -> None:
    kinds: dict[str, tuple[Any, Any]] = {
        "data": ("bytes", b"\x00\xff"),
        "either": (["string", "bytes"], b"QQ=="),
        "text": (["bytes", "string"], "QQ=="),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.50")),
        "day": ({"type": "int", "logicalType": "date"}, datetime.date(2024, 2, 29)),
        "clock": ({"type": "long", "logicalType": "time-micros"}, datetime.time(12, 0, 1, 5)),
        "at": (
            ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            datetime.datetime(2024, 2, 29, 12, 0, 1, 5, UTC),
        ),
        "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(2024, 2, 29, 12)),
        "id": ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _) in kinds.items()]
    value = {name: native for name, (_, native) in kinds.items()}
    schema = {"type": "record", "name": "All", "fields": fields}
    data = SchemaSerializer("avro", registry, schema=schema, register=True).serialize("t", "value", (), value)
    assert SchemaDeserializer("avro", registry).deserialize("t", "value", (), data) == value


def test_a_time_that_the_schema_would_round_is_an_error(registry: SchemaRegistry) -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    serializer = SchemaSerializer("avro", registry, schema=schema, register=True)
    with pytest.raises(SerializationError, match="the time has more decimal places than the schema"):
        serializer.serialize("t", "value", (), datetime.datetime(2024, 2, 29, 12, 0, 1, 5, UTC))


def test_values_are_resolved_to_the_schema_of_the_reader(registry: SchemaRegistry) -> None:
    data = SchemaSerializer("avro", registry, schema=ORDER, register=True).serialize("t", "value", (), {"total": 5})
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "-"}]}
    assert SchemaDeserializer("avro", registry, schema=newer).deserialize("t", "value", (), data) == {
        "total": 5,
        "note": "-",
    }


def test_json_schema(registry: SchemaRegistry) -> None:
    needs_package("jsonschema")
    serializer = SchemaSerializer("json-schema", registry, schema=JSON_SCHEMA, register=True)
    data = serializer.serialize("t", "value", (), {"total": 5})
    assert data == b'\0\0\0\0\x01{"total":5}'
    assert SchemaDeserializer("json-schema", registry).deserialize("t", "value", (), data) == {"total": 5}
    with pytest.raises(SerializationError) as caught:
        serializer.serialize("t", "value", (), {"total": "five"})
    assert caught.value.evidence == {"topic": "t", "field": "value", "subject": "t-value", "schema_id": 1}


def test_protobuf_by_the_text_of_its_file(registry: SchemaRegistry) -> None:
    needs_package("grpc_tools")
    serializer = SchemaSerializer("protobuf", registry, schema=PROTO, message="Order", register=True)
    data = serializer.serialize("t", "value", (), {"total": 5, "tag": b"\xff"})
    assert data == b"\0\0\0\0\x01\x02\x02\x08\x05\x12\x01\xff"
    value = SchemaDeserializer("protobuf", registry).deserialize("t", "value", (), data)
    assert value == {"total": 5, "tag": b"\xff"}
    assert serializer.serialize("t", "value", (), value) == data


def test_protobuf_by_a_generated_class(registry: SchemaRegistry) -> None:
    needs_package("google.protobuf")
    from google.protobuf.struct_pb2 import Struct, Value

    serializer = SchemaSerializer("protobuf", registry, schema=Value, register=True)
    data = serializer.serialize("t", "value", (), Value(string_value="x"))
    assert data == b"\0\0\0\0\x01\x02\x02\x1a\x01x"  # the second message of struct.proto
    with pytest.raises(SerializationError, match=r"must be google\.protobuf\.Value, not google\.protobuf\.Struct"):
        serializer.serialize("t", "value", (), Struct())


def test_auto_reads_each_payload_by_its_schema(fake: FakeRegistry, registry: SchemaRegistry) -> None:
    number = fake.register("t-value", '"string"')
    deserializer = SchemaDeserializer("auto", registry)
    frame = b"\0" + number.to_bytes(4, "big")
    assert [deserializer(data) for data in (frame + b"\2x", b'{"a": 1}', b"text")] == ["x", {"a": 1}, "text"]


def test_an_id_in_the_headers_of_the_record_names_the_schema(fake: FakeRegistry, registry: SchemaRegistry) -> None:
    number = fake.register("t-value", '"string"')
    headers = [("__value_schema_id", b"\0" + number.to_bytes(4, "big")), ("other", None)]
    assert SchemaDeserializer("avro", registry).deserialize("t", "value", headers, b"\2x") == "x"


# Errors


def test_a_value_that_does_not_fit_names_subject_and_id(registry: SchemaRegistry) -> None:
    serializer = SchemaSerializer("avro", registry, schema=ORDER, register=True)
    with pytest.raises(SerializationError) as caught:
        serializer.serialize("orders", "value", (), {"total": "five"})
    assert str(caught.value) == (
        "schema 1: avro: value.total: the value must be a whole number, not a text (subject orders-value)"
    )
    assert pickle.loads(pickle.dumps(caught.value)).evidence == caught.value.evidence


def test_data_that_does_not_decode_names_the_id(registry: SchemaRegistry, fake: FakeRegistry) -> None:
    fake.register("orders-value", ORDER)
    deserializer = SchemaDeserializer("avro", registry)
    with pytest.raises(SerializationError, match=r"^avro with schema 1: the data .* before the value$") as caught:
        deserializer.deserialize("orders", "value", (), b"\0\0\0\0\x01\x80")
    assert caught.value.evidence == {"topic": "orders", "field": "value", "schema_id": 1}
    with pytest.raises(SerializationError, match="the data has no schema id"):
        deserializer.deserialize("orders", "value", (), b"{}")
    with pytest.raises(SerializationError, match="the registry has no schema with id 99"):
        deserializer.deserialize("orders", "value", (), b"\0\0\0\0\x63\x02")


def test_a_registry_that_does_not_answer_is_asked_again_for_the_next_value(
    registry: SchemaRegistry, fake: FakeRegistry
) -> None:
    serializer = SchemaSerializer("avro", registry, schema=ORDER, register=True)
    fake.fault = lambda request: (503, {"error_code": 50301, "message": "no leader"})
    with pytest.raises(SerializationError, match="no leader") as caught:
        serializer.serialize("orders", "value", (), {"total": 5})
    assert isinstance(caught.value.__cause__, RegistryError)
    assert caught.value.__cause__.retriable
    fake.fault = lambda request: None
    assert serializer.serialize("orders", "value", (), {"total": 5}) == b"\0\0\0\0\x01\x0a"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"format": "arvo"}, "'arvo' is not a format with a schema; use avro, json-schema, protobuf"),
        ({"format": "avro", "schema": '{"type": "recrd"}'}, "schema: it is not a valid schema"),
        ({"format": "avro", "register": True}, "register=True needs the schema"),
    ],
)
def test_invalid_arguments_are_a_config_error(arguments: dict[str, Any], text: str, registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match=text):
        SchemaSerializer(registry=registry, **arguments)


def test_a_url_is_not_a_registry() -> None:
    with pytest.raises(TypeError, match=r"str is not a SchemaRegistry; use SchemaRegistry.connect\(URL\)"):
        SchemaDeserializer("avro", "http://localhost:8081")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["basic_auth_user", "auto_register_schemas"])
def test_a_misspelt_property_of_the_registry_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name.replace('_', '.')} is not a property of a schema registry"):
        SchemaRegistry.connect("http://127.0.0.1:1", **{name: "x"})


def test_the_credentials_of_connect_are_sent(fake: FakeRegistry) -> None:
    SchemaRegistry.connect(fake.url, basic_auth_user_info="ada:secret").subjects()
    assert fake.requests[-1].headers["Authorization"] == "Basic YWRhOnNlY3JldA=="


# Threads


def in_a_thread(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_the_steps_of_a_check_are_those_of_its_thread(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_package("jsonschema")
    monkeypatch.setattr("kcli.schemas.json_schema._LEAST_STEPS", 10)
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    serializer = SchemaSerializer("json-schema", registry, schema=schema, register=True)

    class Large(dict[str, Any]):
        """A value in the middle of whose check another thread checks a small one."""

        def __contains__(self, name: object) -> bool:
            in_a_thread(lambda: serializer.serialize("t", "value", (), {"a": [1]})).join()
            return super().__contains__(name)

    assert serializer.serialize("t", "value", (), Large(a=list(range(1000))))


def test_a_message_that_another_thread_begins_to_read_is_read_whole(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_package("grpc_tools")
    from kcli.schemas.protobuf import MessageReader

    data = SchemaSerializer("protobuf", registry, schema=PROTO, message="Order", register=True).serialize(
        "t", "value", (), {"total": 5, "tag": b"x"}
    )
    deserializer = SchemaDeserializer("protobuf", registry)
    values: list[Any] = []
    others: list[threading.Thread] = []
    single = MessageReader._single

    def read_meanwhile(self: MessageReader, field: Any) -> Any:
        if not others:
            others.append(in_a_thread(lambda: values.append(self.read_framed(5)(data or b""))))
            others[0].join(0.2)  # it waits for this thread, or returns a value without fields
        return single(self, field)

    monkeypatch.setattr(MessageReader, "_single", read_meanwhile)
    values.append(deserializer.deserialize("t", "value", (), data))
    others[0].join()
    assert values == [{"total": 5, "tag": b"x"}] * 2


def test_many_threads_share_a_serializer_and_a_deserializer(fake: FakeRegistry, registry: SchemaRegistry) -> None:
    serializer = SchemaSerializer("avro", registry, schema=ORDER, register=True)
    deserializer = SchemaDeserializer("avro", registry)
    read: list[tuple[int, Any]] = []

    def work(first: int) -> None:
        for total in range(first, first + 200):
            data = serializer.serialize(f"t{total % 3}", "value", (), {"total": total})
            read.append((total, deserializer.deserialize("t", "value", (), data)))

    threads = [in_a_thread(lambda first=first: work(first)) for first in range(0, 1600, 200)]  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert sorted(read, key=lambda pair: pair[0]) == [(total, {"total": total}) for total in range(1600)]
    assert sorted(fake.subjects) == ["t0-value", "t1-value", "t2-value"]


# The clients


def test_both_clients_pass_topic_field_and_headers(registry: SchemaRegistry, broker: EmbeddedBroker) -> None:
    broker.create_topic("both")
    serializer = SchemaSerializer("avro", registry, schema=ORDER, register=True)
    key_serializer = SchemaSerializer("avro", registry, schema='"string"', register=True)
    address = broker.address
    with Producer(bootstrap_servers=address, key_serializer=key_serializer, value_serializer=serializer) as producer:
        for total in range(3):
            producer.send("both", {"total": total}, key=f"k{total}")
        producer.send("both", None, key="gone")
        with pytest.raises(SerializationError) as failed:
            producer.send("both", {"total": "five"}, key="k")
    assert str(failed.value) == (
        "the value of a record for both cannot be serialized: schema 2: avro: value.total: the value must be a whole "
        "number, not a text (subject both-value)"
    )
    assert failed.value.evidence == {"topic": "both", "field": "value", "subject": "both-value", "schema_id": 2}
    deserializer = SchemaDeserializer("avro", registry)
    with Consumer(
        "both",
        bootstrap_servers=address,
        auto_offset_reset="earliest",
        key_deserializer=deserializer,
        value_deserializer=deserializer,
    ) as consumer:
        read = [(record.key, record.value) for record in consumer.records(to_end=True)]
    assert read == [("k0", {"total": 0}), ("k1", {"total": 1}), ("k2", {"total": 2}), ("gone", None)]


def test_a_consumer_names_the_record_whose_schema_id_is_unknown(
    registry: SchemaRegistry, broker: EmbeddedBroker
) -> None:
    broker.create_topic("unknown")
    with Producer(bootstrap_servers=broker.address) as producer:
        producer.send("unknown", b"\0\0\0\0\x63\x02")
    with (
        Consumer(
            "unknown",
            bootstrap_servers=broker.address,
            auto_offset_reset="earliest",
            value_deserializer=SchemaDeserializer("avro", registry),
        ) as consumer,
        pytest.raises(SerializationError, match=r"offset 0 of unknown-0 cannot be .*: avro: .* id 99") as caught,
    ):
        next(consumer.records())
    place = {"topic": "unknown", "partition": 0, "offset": 0, "field": "value"}
    assert caught.value.evidence == {**place, "schema_id": None}


@pytest.mark.parametrize("cls", [SchemaSerializer, SchemaDeserializer], ids=lambda cls: cls.__name__)
def test_the_example_of_the_docstring_runs(cls: type, fake: FakeRegistry, broker: EmbeddedBroker) -> None:
    examples = [test for test in doctest.DocTestFinder().find(cls, cls.__name__) if test.examples]
    assert examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        test.globs = {"bootstrap": broker.address, "registry_url": fake.url}
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_the_public_names_of_the_package_have_docstrings() -> None:
    assert sorted(kcli.schemas.__all__) == ["SchemaDeserializer", "SchemaRegistry", "SchemaSerializer"]
    assert all(getattr(kcli.schemas, name).__doc__ for name in kcli.schemas.__all__)

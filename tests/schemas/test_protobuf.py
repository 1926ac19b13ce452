"""Values of Protobuf: well-known types, paths of messages, and payloads and schemas that mean harm.

The schemas are descriptors, which need no compiler; `tests/interop/schemas` has .proto text and foreign programs.
"""

from __future__ import annotations

import datetime
import io
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ConfigError
from kcli.schemas.json_values import Timestamp, json_ready
from kcli.schemas.serdes import DecodeError, EncodeError, make_decoder, make_encoder
from tests.needs import needs_package
from tests.schemas.known_registry import KnownRegistry

NUMBERS = {"int32": 5, "int64": 3, "string": 9, "bytes": 12, "double": 1, "message": 11, "enum": 14}
WELL_KNOWN = ("timestamp", "duration", "struct", "any", "wrappers", "field_mask")


@pytest.fixture(autouse=True)
def protobuf() -> None:
    needs_package("google.protobuf")


def shop() -> Any:
    """The descriptor of a file with messages Empty, and Order with Order.Item."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in WELL_KNOWN)
    file.message_type.add(name="Empty")
    order = file.message_type.add(name="Order")
    item = order.nested_type.add(name="Item")
    item.field.add(name="sku", number=1, type=NUMBERS["string"], label=1)
    item.field.add(name="inner", number=2, type=NUMBERS["message"], label=1, type_name=".shop.Order.Item")
    status = order.enum_type.add(name="Status")
    status.value.add(name="NEW", number=0)
    status.value.add(name="PAID", number=1)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=NUMBERS["int32"], label=1)
    entry.field.add(name="value", number=2, type=NUMBERS["message"], label=1, type_name=".shop.Order.Item")
    fields = [
        ("id", "int64", 1, ""),
        ("status", "enum", 1, ".shop.Order.Status"),
        ("items", "message", 3, ".shop.Order.Item"),
        ("counts", "message", 3, ".shop.Order.CountsEntry"),
        ("raw", "bytes", 1, ""),
        ("at", "message", 1, ".google.protobuf.Timestamp"),
        ("took", "message", 1, ".google.protobuf.Duration"),
        ("extra", "message", 1, ".google.protobuf.Struct"),
        ("any", "message", 1, ".google.protobuf.Any"),
        ("wrapped", "message", 1, ".google.protobuf.Int64Value"),
        ("mask", "message", 1, ".google.protobuf.FieldMask"),
        ("value", "message", 1, ".google.protobuf.Value"),
    ]
    for number, (name, kind, label, type_name) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=NUMBERS[kind], label=label, type_name=type_name or None)
    order.field.add(name="card", number=20, type=NUMBERS["string"], label=1, oneof_index=0)
    order.field.add(name="cash", number=21, type=NUMBERS["double"], label=1, oneof_index=0)
    order.oneof_decl.add(name="payment")
    return file


@pytest.fixture
def registry() -> KnownRegistry:
    text = b64encode(shop().SerializeToString()).decode()
    return KnownRegistry({"/schemas/ids/1": {"schema": text, "schemaType": "PROTOBUF"}})


ORDER = b"\0\0\0\0\1\2\2"
ITEM = b"\0\0\0\0\1\4\2\0"
DEFAULTS = {"id": 0, "status": "NEW", "items": [], "counts": {}, "raw": ""}
FULL = {
    "id": 2**60,
    "status": "PAID",
    "items": [{"sku": "a", "inner": {"sku": "b"}}],
    "counts": {"7": {"sku": "c"}},
    "raw": "/w==",
    "at": "2024-01-01T00:00:00.000005Z",
    "took": "1.500s",
    "extra": {"a": [1, None, {"b": True, "c": "x", "d": 0.5}]},
    "any": {"@type": "type.googleapis.com/shop.Order.Item", "sku": "d"},
    "wrapped": 5,
    "mask": "a.bC,d",
    "value": [1],
    "card": "x",
}


def only(values: list[Any]) -> Any:
    (value,) = values
    return value


def problem(registry: KnownRegistry, payload: bytes) -> str:
    value = only(make_decoder("protobuf", "value", registry=registry).decode("t", [payload]))
    assert isinstance(value, DecodeError), value
    return str(value)


def file_of(folder: Path) -> str:
    """The descriptors as protoc writes them to a file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    path = folder / "shop.desc"
    path.write_bytes(FileDescriptorSet(file=[shop()]).SerializeToString())
    return str(path)


def test_json_of_a_message_is_written_and_read(tmp_path: Path, registry: KnownRegistry):
    file = file_of(tmp_path)
    encoder = make_encoder("protobuf", "value", schema_file=file, message="shop.Order")
    decoder = make_decoder("protobuf", "value", schema_file=file, message="Order")
    for value in ({}, FULL):
        payload = encoder.encode("t", value)
        assert json_ready(only(decoder.decode("t", [payload]))) == {**DEFAULTS, **value}
        assert json_ready(only(decoder.decode("t", [ORDER + payload]))) == {**DEFAULTS, **value}
        framed = make_decoder("protobuf", "value", registry=registry).decode("t", [ORDER + payload])
        assert json_ready(only(framed)) == {**DEFAULTS, **value}


def test_native_values(tmp_path: Path):
    file = file_of(tmp_path)
    payload = make_encoder("protobuf", "value", schema_file=file, message="Order").encode("t", FULL)
    value = only(make_decoder("protobuf", "value", schema_file=file, message="Order").decode("t", [payload]))
    assert value["at"] == datetime.datetime(2024, 1, 1, 0, 0, 0, 5, datetime.timezone.utc)
    assert value["raw"] == b"\xff"
    assert value["counts"] == {7: {"sku": "c"}}


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        (b"\x32\x02\x10\x01", "at", Timestamp(1)),
        (b"\x32\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "at", datetime.datetime(1969, 12, 31, 23, 59, 59)),
        (b"\x32\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "at", Timestamp((2**63 - 1) * 10**9)),
        (b"\x10\x09", "status", 9),
        (b"\x4a\x05\x0a\x01x\x12\x00", "any", {"@type": "x", "value": b""}),
        (b"\x62\x00", "value", None),
        (b"\xf8\x3f\x01", "id", 0),
    ],
    ids=["nanoseconds", "before 1970", "far", "unknown enum value", "unknown any", "empty value", "unknown field"],
)
def test_unusual_values(registry: KnownRegistry, body: bytes, field: str, value: Any):
    decoded = only(make_decoder("protobuf", "value", registry=registry).decode("t", [ORDER + body]))[field]
    assert decoded == (value.replace(tzinfo=datetime.timezone.utc) if isinstance(value, datetime.datetime) else value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (b"\0", {}),
        (b"\2\0", {}),
        (b"\2\2", DEFAULTS),
        (b"\4\2\0", {"sku": ""}),
        (b"\x0c\x0a\x0ashop.Order", DEFAULTS),
        (b"\x11\x0a\x0fshop.Order.Item", {"sku": ""}),
    ],
)
def test_path_or_name_of_the_message(registry: KnownRegistry, path: bytes, value: dict[str, Any]):
    registry.answers["apicurio:ids/globalIds/9"] = registry.answers["/schemas/ids/1"]["schema"]
    registry.answers["apicurio:ids/globalIds/9/references"] = []
    decoder = make_decoder("protobuf", "value", registry=registry)
    payloads = [b"\0\0\0\0\1" + path, bytes(8) + b"\x09" + path]
    assert [json_ready(it) for it in decoder.decode("t", payloads)] == [value, value]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\0\0\0\0\1", "the data ends before the value"),
        (b"\0\0\0\0\1\4\2", "the data ends before the value"),
        (b"\0\0\0\0\1\x08", "the data ends before the value"),
        (b"\0\0\0\0\1\3\1", "no valid path"),
        (b"\0\0\0\0\1\2\x14", "the schema has no message with the indexes [10]"),
        (b"\0\0\0\0\1\2\1", "the schema has no message with the indexes [-1]"),
        (b"\0\0\0\0\1\xfe\xff\xff\xff\x0f\2", "no valid path"),
        (b"\0\0\0\0\1" + b"\xff" * 30, "a varint is longer than 64 bits"),
        (ORDER + b"\xff", "the data is not a message shop.Order"),
        (ORDER + b"\x2a\xff\xff\xff\xff\x07", "the data is not a message shop.Order"),
    ],
)
def test_hostile_payloads(registry: KnownRegistry, payload: bytes, text: str):
    assert text in problem(registry, payload)


def nested(levels: int, tag: bytes) -> bytes:
    """A message within itself; `tag` is that of its field."""
    body = b""
    for _ in range(levels):
        body = tag + _varint(len(body)) + body
    return body


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def test_deep_nesting(registry: KnownRegistry):
    assert "is not a message" in problem(registry, ITEM + nested(20_000, b"\x12"))
    any_within_any = b""
    name = b"type.googleapis.com/google.protobuf.Any"
    url = b"\x0a" + _varint(len(name)) + name
    for _ in range(500):
        any_within_any = url + b"\x12" + _varint(len(any_within_any)) + any_within_any
    assert "nested deeper" in problem(registry, ORDER + b"\x4a" + _varint(len(any_within_any)) + any_within_any)


def test_descriptors_that_are_not_valid(registry: KnownRegistry):
    empty, broken = shop(), shop()
    del empty.message_type[:]
    broken.message_type[1].field[1].type_name = ".shop.Nothing"
    for number, (file, text) in enumerate(((empty, "it has no message"), (broken, "it cannot be built")), 2):
        answer = {"schema": b64encode(file.SerializeToString()).decode(), "schemaType": "PROTOBUF"}
        registry.answers[f"/schemas/ids/{number}"] = answer
        assert text in problem(registry, b"\0\0\0\0" + bytes([number]) + b"\2\2")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"nope": 1}, 'has no field named "nope"'),
        ({"id": "x"}, "Failed to parse id field"),
        ([], "the value must be an object, not a list"),
        ({"raw": 5}, "raw"),
        ({"status": float("inf")}, "a number is out of range"),
        ({"status": "\ud800"}, "a text has a character without a form in UTF-8"),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, value: Any, text: str):
    encoder = make_encoder("protobuf", "value", schema_file=file_of(tmp_path), message="Order")
    with pytest.raises(EncodeError) as failed:
        encoder.encode("t", value)
    assert text in str(failed.value)
    assert "\n" not in str(failed.value)


def test_message_without_a_required_field_is_not_encoded(tmp_path: Path):
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    file = FileDescriptorProto(name="old.proto", syntax="proto2")
    message = file.message_type.add(name="Old")
    message.field.add(name="id", number=1, type=NUMBERS["int32"], label=2)
    path = tmp_path / "old.desc"
    path.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    encoder = make_encoder("protobuf", "value", schema_file=str(path))
    assert encoder.encode("t", {"id": 1}) == b"\x08\1"
    with pytest.raises(EncodeError, match=r"protobuf: Message Old is missing required fields: id"):
        encoder.encode("t", {})


def test_messages_to_choose_from(tmp_path: Path):
    file = file_of(tmp_path)
    with pytest.raises(ConfigError, match="there is no message 'Nope'; it has Empty, Order"):
        make_decoder("protobuf", "value", schema_file=file, message="Nope")
    (tmp_path / "bad.desc").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="it is not a set of descriptors"):
        make_decoder("protobuf", "value", schema_file=str(tmp_path / "bad.desc"))
    with pytest.raises(ConfigError, match=r"cannot read schema file .*nothing.proto: No such file"):
        make_decoder("protobuf", "value", schema_file=str(tmp_path / "nothing.proto"))


def test_text_of_a_schema(tmp_path: Path):
    needs_package("grpc_tools")
    (tmp_path / "bad.proto").write_text('syntax = "proto3"; mesage X {}')
    with pytest.raises(ConfigError, match=r"not a valid schema of Protobuf: .*Expected top-level statement"):
        make_decoder("protobuf", "value", schema_file=str(tmp_path / "bad.proto"))
    text = 'syntax = "proto3"; import "../outside.proto"; import "confluent/meta.proto"; message X { int32 a = 1; }'
    registry = KnownRegistry(
        {
            "/schemas/ids/1": {
                "schema": text,
                "schemaType": "PROTOBUF",
                "references": [{"name": "../outside.proto", "subject": "o", "version": 1}],
            },
            "/subjects/o/versions/1": {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
            "/schemas/ids/2": {"schema": text.replace('import "../outside.proto";', ""), "schemaType": "PROTOBUF"},
        }
    )
    assert "an import has a name that is not valid: '../outside.proto'" in problem(registry, ORDER)
    decoder = make_decoder("protobuf", "value", registry=registry)
    assert decoder.decode("t", [b"\0\0\0\0\2\0\x08\5"]) == [{"a": 5}]


@pytest.mark.parametrize("name", ["a:b/x.proto", "a=b/x.proto", "a b/-x.proto", "@x.proto"])
def test_schema_file_whose_path_protoc_would_read_in_another_way(tmp_path: Path, name: str):
    needs_package("grpc_tools")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    (file.parent / "part.proto").write_text('syntax = "proto3"; message Part { int32 a = 1; }')
    file.write_text('syntax = "proto3"; import "part.proto"; message X { Part part = 1; }')
    decoder = make_decoder("protobuf", "value", schema_file=str(file))
    assert decoder.decode("t", [b"\x0a\2\x08\5"]) == [{"part": {"a": 5}}]
    file.write_text("message")
    with pytest.raises(ConfigError, match=rf"Protobuf: {re.escape(file.name)}:1:8: Expected message name"):
        make_decoder("protobuf", "value", schema_file=str(file))


def test_schema_with_imports_is_not_registered_without_their_references(tmp_path: Path):
    needs_package("grpc_tools")
    (tmp_path / "part.proto").write_text('syntax = "proto3"; message Part {}')
    (tmp_path / "x.proto").write_text('syntax = "proto3"; import "part.proto"; message X { Part part = 1; }')
    (tmp_path / "y.proto").write_text(
        'syntax = "proto3"; import "google/protobuf/any.proto"; message Y { google.protobuf.Any any = 1; }'
    )
    registry = KnownRegistry({"/subjects/t-value/versions": {"id": 9}})
    file = str(tmp_path / "x.proto")
    with pytest.raises(ConfigError, match=r"it imports part\.proto, and --register knows no references"):
        make_encoder("protobuf", "value", registry=registry, schema_file=file, register=True)
    assert make_encoder("protobuf", "value", schema_file=file).encode("t", {"part": {}}) == b"\x0a\0"
    encoder = make_encoder("protobuf", "value", registry=registry, schema_file=str(tmp_path / "y.proto"), register=True)
    assert encoder.encode("t", {}) == b"\0\0\0\0\x09\0"


def test_an_any_keeps_the_type_of_a_value_with_its_own_form_in_json(tmp_path: Path):
    """As protobuf's json_format writes it: otherwise a member "@type" of a Struct, or an Any, replaces the type."""
    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.protobuf.struct_pb2 import Struct

    struct, inner, outer = Struct(), AnyMessage(), AnyMessage()
    struct.update({"@type": "other", "a": 1})
    inner.Pack(struct)
    outer.Pack(inner)
    url = "type.googleapis.com/google.protobuf."
    of_struct = {"@type": f"{url}Struct", "value": {"@type": "other", "a": 1}}
    any_of_any = {"@type": f"{url}Any", "value": of_struct}
    decoder = make_decoder("protobuf", "value", schema_file=file_of(tmp_path), message="Order")
    encoder = make_encoder("protobuf", "value", schema_file=file_of(tmp_path), message="Order")
    for message, value in ((inner, of_struct), (outer, any_of_any), (AnyMessage(), {})):
        data = message.SerializeToString()
        payload = b"\x4a" + _varint(len(data)) + data
        assert json_ready(only(decoder.decode("t", [payload])))["any"] == value
        assert encoder.encode("t", {"any": value}) == payload


def test_fields_with_the_names_of_methods():
    from google.protobuf.message_factory import GetMessageClass

    from kcli.schemas.protobuf import MessageReader
    from kcli.schemas.protobuf_schema import Messages

    file = shop()
    for number, name in enumerate(("HasField", "ListFields", "class"), 1):
        file.message_type[0].field.add(name=name, number=number, type=NUMBERS["string"], label=1)
    file.message_type[0].field.add(name="own", number=9, type=NUMBERS["message"], label=1, type_name=".shop.Order.Item")
    messages = Messages([file])
    data = GetMessageClass(messages.by_name("Empty"))(HasField="a", **{"class": "c"}).SerializeToString()
    assert MessageReader(messages).read_message("Empty")(data) == {"HasField": "a", "ListFields": "", "class": "c"}


def test_a_message_of_a_package_that_contains_googles_has_fields():
    from google.protobuf.message_factory import GetMessageClass

    from kcli.schemas.protobuf import MessageReader
    from kcli.schemas.protobuf_schema import Messages

    file = shop()
    file.package = "of.google.protobuf"
    del file.message_type[1:]
    duration = file.message_type.add(name="Duration")
    duration.field.add(name="hours", number=1, type=NUMBERS["int32"], label=1)
    messages = Messages([file])
    data = GetMessageClass(messages.by_name("Duration"))(hours=2).SerializeToString()
    assert MessageReader(messages).read_message("Duration")(data) == {"hours": 2}


BUILT_IN = [
    *(f"google/type/{name}" for name in ("calendar_period", "color", "date", "datetime", "dayofweek", "decimal")),
    *(f"google/type/{name}" for name in ("expr", "fraction", "interval", "latlng", "localized_text", "money", "month")),
    *(f"google/type/{name}" for name in ("phone_number", "postal_address", "quaternion", "timeofday")),
    *(f"confluent/{name}" for name in ("meta", "type/decimal", "type/variant", "types/decimal")),
]


def as_base64(file: Any) -> str:
    return b64encode(file.SerializeToString()).decode()


def described(file: Any) -> Any:
    """The descriptor of a file without what readers of records do not need."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    plain = FileDescriptorProto()
    file.CopyToProto(plain)
    for name in ("options", "source_code_info"):
        plain.ClearField(name)
    for message in (it for outer in plain.message_type for it in (outer, *outer.nested_type)):
        for field in message.field:
            field.ClearField("json_name")
    for field in plain.extension:
        field.ClearField("json_name")
    return plain


@pytest.mark.parametrize("name", BUILT_IN)
def test_files_that_confluents_serialisers_build_in_need_no_reference(name: str):
    """The referees are the modules of googleapis-common-protos and of confluent-kafka."""
    needs_package("grpc_tools")
    needs_package("confluent_kafka")
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from kcli.schemas.protobuf_schema import messages_of

    module = name.replace("/", ".").replace("confluent.", "confluent_kafka.schema_registry.confluent.")
    wanted = described(import_module(f"{module}_pb2").DESCRIPTOR)
    main = FileDescriptorProto(name="x.proto", syntax="proto3", dependency=[f"{name}.proto"])
    main.message_type.add(name="X")
    text = f'syntax = "proto3"; import "{name}.proto"; message X {{}}'
    for schema in (as_base64(main), text):
        assert described(messages_of(schema, {}).pool.FindFileByName(f"{name}.proto")) == wanted


def test_built_in_types_are_decoded(tmp_path: Path):
    needs_package("grpc_tools")
    imports = ("google/type/datetime.proto", "google/type/month.proto", "confluent/types/decimal.proto")
    fields = "google.type.DateTime at = 1; google.type.Month month = 2; confluent.type.Decimal amount = 3;"
    text = 'syntax = "proto3"; ' + "".join(f'import "{it}"; ' for it in imports) + f"message X {{ {fields} }}"
    (tmp_path / "x.proto").write_text(text)
    registry = KnownRegistry({"/schemas/ids/1": {"schema": text, "schemaType": "PROTOBUF"}})
    at = b"\x08\xe8\x0f\x4a\x05\x0a\x03UTC"
    payload = b"\x0a" + _varint(len(at)) + at + b"\x10\3\x1a\5\x0a\1\5\x18\2"
    value = only(make_decoder("protobuf", "value", registry=registry).decode("t", [b"\0\0\0\0\1\0" + payload]))
    assert (value["at"]["year"], value["at"]["time_zone"]) == (2024, {"id": "UTC", "version": ""})
    assert (value["month"], value["amount"]) == ("MARCH", {"value": b"\5", "precision": 0, "scale": 2})
    assert (
        only(make_decoder("protobuf", "value", schema_file=str(tmp_path / "x.proto")).decode("t", [payload])) == value
    )


@pytest.mark.parametrize("path", [(0,), (1,), (1, 0), (0, 0), (0, 1), (1, 0, 1), (2,), (9,), (0, 9)])
def test_path_in_the_unsigned_form_of_confluent_kafka_python(path: tuple[int, ...]):
    needs_package("confluent_kafka")
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="many.proto", syntax="proto3")

    def add(messages: Any, indexes: tuple[int, ...], prefix: str) -> None:
        for number in range(10):
            name = f"{prefix}_{number}"
            message = messages.add(name=f"M{name}")
            message.field.add(name=f"m{name}", number=1, type=NUMBERS["string"], label=1)
            if indexes[:1] == (number,):
                add(message.nested_type, indexes[1:], name)

    add(file.message_type, path, "")
    registry = KnownRegistry({"/schemas/ids/1": {"schema": as_base64(file), "schemaType": "PROTOBUF"}})
    for zigzag in (True, False):
        prefix = io.BytesIO()
        ProtobufSerializer._encode_varints(prefix, list(path), zigzag=zigzag)
        decoder = make_decoder("protobuf", "value", registry=registry)
        values = decoder.decode("t", [b"\0\0\0\0\1" + prefix.getvalue() + body for body in (b"", b"\x0a\1x")])
        name = "m" + "".join(f"_{number}" for number in path)
        assert values == [{name: ""}, {name: "x"}]


def test_names_of_strangers_never_meet_our_own():
    needs_package("grpc_tools")
    part = 'syntax = "proto3"; package part; message Part { int32 a = 1; }'
    text = 'syntax = "proto3"; import "kcli_schema.proto"; message X { part.Part part = 1; }'
    entry = 'message E { reserved "kcli_map_entry"; string key = 1; string value = 2; }'
    reserved = f'syntax = "proto3"; message X {{ repeated E e = 1; {entry} }}'
    reference = {"name": "kcli_schema.proto", "subject": "p", "version": 1}
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    compiled = FileDescriptorProto(name="kcli_schema.proto", syntax="proto3", dependency=["kcli_schema.proto"])
    message = compiled.message_type.add(name="X")
    message.field.add(name="part", number=1, type=NUMBERS["message"], label=1, type_name=".part.Part")
    registry = KnownRegistry(
        {
            "/schemas/ids/1": {"schema": text, "schemaType": "PROTOBUF", "references": [reference]},
            "/subjects/p/versions/1": {"schema": part, "schemaType": "PROTOBUF"},
            "/schemas/ids/2": {"schema": as_base64(compiled), "schemaType": "PROTOBUF", "references": [reference]},
            "/schemas/ids/3": {"schema": reserved, "schemaType": "PROTOBUF"},
        }
    )
    decoder = make_decoder("protobuf", "value", registry=registry)
    body = b"\x0a\2\x08\5"
    assert decoder.decode("t", [b"\0\0\0\0" + bytes([id, 0]) + body for id in (1, 2)]) == [{"part": {"a": 5}}] * 2
    pair = b"\x0a\6\x0a\1k\x12\1v"
    assert decoder.decode("t", [b"\0\0\0\0\3\0" + pair]) == [{"e": [{"key": "k", "value": "v"}]}]

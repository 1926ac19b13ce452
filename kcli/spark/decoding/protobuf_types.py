"""Types of columns for Protobuf messages, and the decoder that reads records by the reader's schema.

| Protobuf | column |
|---|---|
| int32, sint32, sfixed32, bool, float, double, string, bytes | int, boolean, float, double, string, binary |
| uint32, fixed32, int64, sint64, sfixed64 | bigint |
| uint64, fixed64 | decimal(20,0) |
| enum | string with the name; the number of an unknown value |
| message, repeated, map | struct, array, map |
| Timestamp; wrappers | timestamp, nanoseconds cut to microseconds; the type inside, nullable |
| Duration, FieldMask | string as in Protobuf's JSON |
| Struct, Value, ListValue, Any, a message within itself | string with JSON text |

A field that is not set is null if it has presence, otherwise its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.schemas.protobuf import MessageReader, is_repeated
from kcli.schemas.protobuf_schema import Messages, messages_of
from kcli.schemas.wire_format import FileDecoder, FramedDecoder
from kcli.spark.decoding.column_types import JSON, NANOS, TEXT, Array, Map, Struct

if TYPE_CHECKING:
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.schema import Schema
    from kcli.schemas.serdes import Decoder
    from kcli.schemas.wire_format import Read
    from kcli.spark.decoding.column_types import ColumnType
    from kcli.spark.decoding.sides import Decoding

_GOOGLE = "google.protobuf."
_WELL_KNOWN: dict[str, ColumnType] = {
    "Timestamp": NANOS,
    "Duration": "string",
    "FieldMask": "string",
    "DoubleValue": "double",
    "FloatValue": "float",
    "Int64Value": "bigint",
    "UInt64Value": "decimal(20,0)",
    "Int32Value": "int",
    "UInt32Value": "bigint",
    "BoolValue": "boolean",
    "StringValue": "string",
    "BytesValue": "binary",
    **dict.fromkeys(("Struct", "Value", "ListValue", "Any"), JSON),
}
#: By the names of FieldDescriptorProto.Type.
_SCALARS: dict[str, ColumnType] = {
    **dict.fromkeys(("TYPE_INT32", "TYPE_SINT32", "TYPE_SFIXED32"), "int"),
    **dict.fromkeys(("TYPE_UINT32", "TYPE_FIXED32", "TYPE_INT64", "TYPE_SINT64", "TYPE_SFIXED64"), "bigint"),
    **dict.fromkeys(("TYPE_UINT64", "TYPE_FIXED64"), "decimal(20,0)"),
    "TYPE_DOUBLE": "double",
    "TYPE_FLOAT": "float",
    "TYPE_BOOL": "boolean",
    "TYPE_STRING": "string",
    "TYPE_BYTES": "binary",
}


def message_of(messages: Messages, name: str | None) -> Any:
    """Return the descriptor of a message by name, by default of the first. Raise ValueError."""
    return messages.by_path((0,)) if name is None else messages.by_name(name)


def protobuf_column_type(descriptor: Any) -> ColumnType:
    """Return the type of the column for values of a message."""
    return _message(descriptor, frozenset())


def _message(descriptor: Any, above: frozenset[str]) -> ColumnType:
    name = descriptor.full_name
    if name.startswith(_GOOGLE) and name.removeprefix(_GOOGLE) in _WELL_KNOWN:
        return _WELL_KNOWN[name.removeprefix(_GOOGLE)]
    if name in above or not descriptor.fields:
        return JSON  # files have no struct without fields
    return Struct(tuple((field.name, _field(field, above | {name})) for field in descriptor.fields))


def _field(field: Any, above: frozenset[str]) -> ColumnType:
    inner = field.message_type
    if not is_repeated(field):
        return _single(field, above)
    if inner is not None and inner.GetOptions().map_entry:
        key, value = (inner.fields_by_name[name] for name in ("key", "value"))
        return Map(_single(value, above), _single(key, above))
    return Array(_single(field, above))


def _single(field: Any, above: frozenset[str]) -> ColumnType:
    if field.message_type is not None:
        return _message(field.message_type, above)
    if field.enum_type is not None:
        return JSON if field.enum_type.full_name == f"{_GOOGLE}NullValue" else TEXT
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return _SCALARS[FieldDescriptorProto.Type.Name(field.type)]


def protobuf_decoder(decoding: Decoding, registry: SchemaRegistry | None) -> Decoder:
    """Return the decoder of messages by field numbers, with the names and types of the reader's schema."""
    assert decoding.schema is not None
    messages = messages_of(decoding.schema, dict(decoding.referred))
    wanted = message_of(messages, decoding.message).full_name
    reader = MessageReader(messages)
    bare = reader.read_message(decoding.message)
    if registry is None:
        return FileDecoder("protobuf", lambda start: reader.read_framed(start, name=wanted) if start else bare)

    def make(schema: Schema, start: int, is_apicurio: bool, after_guid: bytes) -> Read:
        imports = {name: used.text for name, used in registry.closure(schema)}
        writer = _WrittenMessages(messages_of(schema.text, imports), wanted, bare)
        return writer.read_framed(start, is_apicurio=is_apicurio) if start else writer.read_after_header(after_guid)

    return FramedDecoder("protobuf", decoding.side, registry, {"PROTOBUF": make})


class _WrittenMessages(MessageReader):
    """Payloads of a writer's schema, which names the message; its fields are read by the reader's schema."""

    def __init__(self, messages: Messages, wanted: str, read: Read) -> None:
        super().__init__(messages)
        self._wanted = wanted
        self._read = read

    def _read_body(self, descriptor: Any) -> Read:
        if descriptor.full_name == self._wanted:
            return self._read
        name = descriptor.full_name

        def refuse(_: bytes) -> Any:
            raise ValueError(f"the data is a message {name}, not {self._wanted}")

        return refuse

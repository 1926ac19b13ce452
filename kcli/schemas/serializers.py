"""Serializers and deserializers of keys and values for `Producer` and `Consumer`, with the schemas of a registry.

They are the encoders and decoders of the command line and of Spark, in the shape that the clients call: one value at a
time, with the topic and the field (key or value), because a subject of the registry is named after both. So one object
serves several topics, and keys as well as values.

Threads: any thread may call them, and several clients may share one, and one registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kcli.errors import ConfigError, KcliError, SerializationError
from kcli.schemas.contracts import Side
from kcli.schemas.decoders import schema_decoder
from kcli.schemas.encoders import check_schema, schema_encoder, subject_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from kcli.schemas.contracts import Decoder, Encoder
    from kcli.schemas.registry_client import SchemaRegistry

Format: TypeAlias = Literal["avro", "json-schema", "protobuf"]
#: The subject of a topic and a field; None: `TOPIC-key` or `TOPIC-value`.
SubjectName: TypeAlias = "str | Callable[[str, Side], str] | None"
SchemaText: TypeAlias = "str | Mapping[str, Any] | Sequence[Any] | type[Message]"

FORMATS = ("avro", "json-schema", "protobuf")
_SIDES: tuple[Side, ...] = ("key", "value")


class SchemaSerializer:
    """Serializer of values by a schema, in Confluent's framing: byte 0, the schema's id in 4 bytes, the value.

    Pass it to a `Producer` as `key_serializer` or `value_serializer`.

    >>> from kcli import Producer
    >>> from kcli.schemas import SchemaRegistry, SchemaSerializer
    >>> order = {"type": "record", "name": "Order", "fields": [{"name": "total", "type": "long"}]}
    >>> registry = SchemaRegistry.connect(registry_url)
    >>> serializer = SchemaSerializer("avro", registry, schema=order, register=True)
    >>> with Producer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
    ...     future = producer.send("sales", {"total": 5})
    >>> registry.latest("sales-value").version
    1

    Values are what `SchemaDeserializer` returns, or JSON-like: for Avro native values (bytes, Decimal, datetime, ...)
    or the texts that JSON has for them; for Protobuf a dict by the names of the fields, or a message of a generated
    class; for JSON Schema what JSON can represent. A value that the schema does not allow is a SerializationError.
    """

    def __init__(
        self,
        format: Format,
        registry: SchemaRegistry,
        *,
        schema: SchemaText | None = None,
        subject: SubjectName = None,
        message: str | None = None,
        register: bool = False,
    ) -> None:
        """Check the arguments; the registry is asked when the first value of a topic comes, and then no more.

        Without `schema`, values have the newest schema of the subject at that time. `schema` is its text or its JSON,
        for Protobuf the text of the .proto file or a generated class. The subject must have this schema, or `register`
        adds it to the subject; one that refers to other subjects is registered by other means, and then not given here.
        `subject` is by default the topic with `-key` or `-value`: a text is one for all topics,
        a function gets the topic and the field. `message` names the message of a Protobuf schema; by default its first,
        or that of the class. Raise ConfigError.
        """
        _check_format(format, FORMATS)
        _check_registry(registry)
        text, own_message = _text_of(schema)
        if text is not None:
            check_schema(format, text, "schema")
        elif register:
            raise ConfigError("register=True needs the schema")
        self._format = format
        self._subject = subject
        self._encoders: dict[str, Encoder] = {
            side: schema_encoder(
                format,
                side,
                registry,
                schema_id=None,
                subject=subject,
                schema_file=None,
                schema=text,
                message=message or own_message,
                register=register,
            )
            for side in _SIDES
        }

    def __repr__(self) -> str:
        return f"<SchemaSerializer {self._format} {self._subject or 'TOPIC-key, TOPIC-value'}>"

    def serialize(self, topic: str, field: Side, headers: object, value: Any) -> bytes | None:
        """Return the bytes of a value of a topic; `field` is key or value. A `Producer` calls this. None stays None.

        Raise SerializationError with the evidence topic, field, subject, and schema_id if it is known.
        """
        if value is None:
            return None
        if self._format == "protobuf" and isinstance(value, dict):
            from kcli.schemas.json_values import json_ready

            value = json_ready(value)  # native values as the library's JSON has them
        try:
            return self._encoders[field].encode(topic, value)
        except KcliError as error:
            subject = subject_of(self._subject, topic, field)
            schema_id = error.evidence.get("schema_id")
            text = error.message if schema_id is None else f"schema {schema_id}: {error.message}"
            where = {"topic": topic, "field": field, "subject": subject, "schema_id": schema_id}
            raise SerializationError(text, **where) from error

    def __call__(self, value: Any) -> bytes | None:
        """Return the bytes of a value, for clients that do not pass a topic. Raise ConfigError without a subject.

        Errors are those of `serialize`. The subject must be a text.
        """
        if not isinstance(self._subject, str):
            raise ConfigError("the subject depends on the topic, which is not known here; give subject='orders-value'")
        return self.serialize("", "value", (), value)


class SchemaDeserializer:
    """Deserializer of payloads in Confluent's framing, each by the schema that its id names.

    Pass it to a `Consumer` as `key_deserializer` or `value_deserializer`.

    >>> from kcli import Consumer, Producer
    >>> from kcli.schemas import SchemaDeserializer, SchemaRegistry, SchemaSerializer
    >>> registry = SchemaRegistry.connect(registry_url)
    >>> text = SchemaSerializer("avro", registry, schema='"string"', register=True)
    >>> with Producer(bootstrap_servers=bootstrap, value_serializer=text) as producer:
    ...     future = producer.send("names", "Ada")
    >>> with Consumer("names", bootstrap_servers=bootstrap, auto_offset_reset="earliest",
    ...               value_deserializer=SchemaDeserializer("avro", registry)) as consumer:
    ...     [record.value for record in consumer.records(to_end=True)]
    ['Ada']

    Avro returns native values: dict, list, str, int, float, bytes, Decimal, datetime, date, time, UUID. Protobuf
    returns a dict by the names of the fields, JSON Schema what JSON has. `auto` takes all three by the schema's type,
    and data without a frame as JSON, text or bytes. Ids in the record's headers (`__value_schema_id`) are read as well,
    and those of Apicurio in eight bytes.
    """

    def __init__(
        self,
        format: Format | Literal["auto"],
        registry: SchemaRegistry,
        *,
        schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> None:
        """Check the arguments; the registry is asked once for each schema.

        `schema` is the reader's schema, of Avro only: values are resolved to it. Raise ConfigError.
        """
        _check_format(format, (*FORMATS, "auto"))
        _check_registry(registry)
        if schema is not None and format != "avro":
            raise ConfigError(f"schema: only avro has a schema of the reader, not {format}")
        text, _ = _text_of(schema)
        self._format = format
        self._decoders: dict[str, Decoder] = {
            side: schema_decoder(format, side, registry, None, None, schema=text) for side in _SIDES
        }

    def __repr__(self) -> str:
        return f"<SchemaDeserializer {self._format}>"

    def deserialize(
        self, topic: str, field: Side, headers: Sequence[tuple[str, bytes | None]], data: bytes | None
    ) -> Any:
        """Return the value of a payload; `field` is key or value. A `Consumer` calls this. None stays None.

        Raise SerializationError with the evidence topic, field, and schema_id if it is known.
        """
        if data is None:
            return None
        ids = dict(headers).get(f"__{field}_schema_id") if headers else None
        try:
            (value,) = self._decoders[field].decode(topic, [data], None if ids is None else [ids])
        except KcliError as error:
            value = error
        if isinstance(value, KcliError):
            schema_id = value.evidence.get("schema_id")
            raise SerializationError(value.message, topic=topic, field=field, schema_id=schema_id) from value
        return value

    def __call__(self, data: bytes | None) -> Any:
        """Return the value of a payload, for clients that do not pass a topic. Errors are those of `deserialize`."""
        return self.deserialize("", "value", (), data)


def _check_format(format: str, known: Sequence[str]) -> None:
    if format not in known:
        raise ConfigError(f"{format!r} is not a format with a schema; use {', '.join(known)}")


def _check_registry(registry: object) -> None:
    from kcli.schemas.registry_client import SchemaRegistry

    if not isinstance(registry, SchemaRegistry):
        raise TypeError(f"{type(registry).__name__} is not a SchemaRegistry; use SchemaRegistry.connect(URL)")


def _text_of(schema: SchemaText | None) -> tuple[str | None, str | None]:
    """Return the text of a schema as registries have it, and the name of the message of a generated class."""
    if schema is None or isinstance(schema, str):
        return schema, None
    descriptor = getattr(schema, "DESCRIPTOR", None)
    if descriptor is None:
        return json.dumps(schema), None
    from base64 import b64encode

    return b64encode(descriptor.file.serialized_pb).decode(), descriptor.full_name

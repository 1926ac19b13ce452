"""Encoders of formats with schemas: Avro, Protobuf and JSON Schema, with Confluent's frame or without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.errors import ConfigError, KcliError, NotFound
from kcli.schemas.contracts import EncodeError
from kcli.schemas.decoders import no_schema, protobuf_file, read_schema_file
from kcli.schemas.schema import Schema
from kcli.schemas.simple_formats import kind_of
from kcli.schemas.wire_format import problem_of

if TYPE_CHECKING:
    from kcli.schemas.contracts import Encoder, Side
    from kcli.schemas.protobuf_schema import Messages
    from kcli.schemas.registry_client import SchemaRegistry

_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}


class SchemaEncoder:
    """Payloads by a schema that is found for each topic when its first value comes."""

    def __init__(self, name: str, side: Side, find: Callable[[str], Schema], compile: Callable[[Schema], Any]) -> None:
        """`find` returns the schema of a topic, `compile` the function from a value to the bytes after the frame."""
        self.name = name
        self._side = side
        self._find = find
        self._compile = compile
        self._writers: dict[str, Callable[[Any], bytes]] = {}
        self._ids: dict[str, int | None] = {}

    def __repr__(self) -> str:
        return f"<SchemaEncoder {self.name} {self._side} topics={len(self._writers)}>"

    def encode(self, topic: str, value: Any) -> bytes:
        """Return the payload of a value, as `Encoder.encode` says."""
        write = self._writers.get(topic)
        if write is None:
            schema = self._find(topic)
            self._ids[topic] = schema.id
            write = self._writers[topic] = self._writer(schema)
        try:
            return write(value)
        except EncodeError as error:
            raise EncodeError(f"{self.name}: {error}", schema_id=self._ids[topic]) from None

    def _writer(self, schema: Schema) -> Callable[[Any], bytes]:
        if schema.kind != _KINDS[self.name]:
            raise ConfigError(f"{self._side}: schema {schema.id} is one of {schema.kind}, not of {_KINDS[self.name]}")
        try:
            write: Callable[[Any], bytes] = self._compile(schema)
        except KcliError:
            raise
        except Exception as error:  # a schema of strangers, read by libraries with errors of their own
            text = f"{self.name}: schema {schema.id} is not valid: {problem_of(error)}"
            raise EncodeError(text, schema_id=schema.id) from None
        frame = b"" if schema.id is None else b"\0" + schema.id.to_bytes(4, "big")
        return (lambda value: frame + write(value)) if frame else write


def schema_encoder(
    name: str,
    side: Side,
    registry: SchemaRegistry | None,
    *,
    schema_id: int | None,
    subject: str | Callable[[str, Side], str] | None,
    schema_file: str | None,
    message: str | None,
    register: bool,
    schema: str | None = None,
) -> Encoder:
    """Return the encoder of avro, protobuf or json-schema: arguments as of `kcli.schemas.serdes.make_encoder`."""
    if registry is None and (schema_id is not None or subject is not None or register):
        raise ConfigError(
            f"{side}: a schema id, a subject or --register requires a schema registry; use --schema-registry URL"
        )
    if schema_id is not None and (subject is not None or schema_file is not None):
        raise ConfigError(f"{side}: a schema id cannot be combined with a subject or a schema file")
    if register and schema_file is None and schema is None:
        raise ConfigError(f"{side}: registering needs the schema: use --schema-file FILE")
    if schema_file is None and schema is None and registry is None:
        raise no_schema(name, side)
    text = schema if schema_file is None else _text_of_file(name, schema_file, register=register)
    given = f"the schema of {schema_file}" if schema_file else "this schema"

    def find(topic: str) -> Schema:
        of_topic = subject_of(subject, topic, side)
        if text is None:
            assert registry is not None
            return registry.latest(of_topic) if schema_id is None else registry.schema(schema_id)
        own = Schema(_KINDS[name], text)
        if registry is None:
            return own
        if register:
            return registry.register(of_topic, own)
        try:
            return registry.lookup(of_topic, own)
        except NotFound:
            option = "--register" if schema_file else "register=True"
            raise NotFound(f"subject {of_topic!r} does not have {given}; use {option} to add it") from None

    def compile(schema: Schema) -> Callable[[Any], bytes]:
        referred = {} if registry is None else {key: used.text for key, used in registry.closure(schema)}
        if name == "avro":
            from kcli.schemas.avro_schema import SchemaTree
            from kcli.schemas.avro_write import AvroWriter

            return AvroWriter(SchemaTree(schema.text, referred.values())).encode
        if name == "json-schema":
            from kcli.schemas.json_schema import validated

            return validated(schema.text, referred)
        return _protobuf_writer(schema, referred, schema_file, message)

    return SchemaEncoder(name, side, find, compile)


def subject_of(subject: str | Callable[[str, Side], str] | None, topic: str, side: Side) -> str:
    """Return the subject of a side of a topic's records: by default `TOPIC-key` or `TOPIC-value`."""
    if subject is None:
        return f"{topic}-{side}"
    return subject if isinstance(subject, str) else subject(topic, side)


def _text_of_file(name: str, path: str, *, register: bool) -> str:
    """Return the text of a schema file that is a valid schema, in base64 if it is a file of descriptors."""
    where = f"schema file {path}"
    if name != "protobuf":
        text = read_schema_file(path)
        check_schema(name, text, where)
        return text
    from kcli.schemas.protobuf_schema import DESCRIPTOR_FILES, require_protobuf

    require_protobuf()
    messages = protobuf_file(path)
    if register and messages.imports:
        raise ConfigError(
            f"{where}: it imports {messages.imports[0]}, and --register knows no references, so nobody "
            "could read the records; register it with another tool, and use --subject"
        )
    return messages.base64 if path.endswith(DESCRIPTOR_FILES) else read_schema_file(path)


def check_schema(name: str, text: str, where: str) -> None:
    """Raise ConfigError if a text is not a valid schema of avro, json-schema or protobuf, or refers to other schemas.

    `where` begins the error.
    """
    try:
        if name == "protobuf":
            from kcli.schemas.protobuf_schema import messages_of, require_protobuf

            require_protobuf()
            messages_of(text, {})
        elif name == "avro":
            from kcli.schemas.avro_schema import SchemaTree
            from kcli.schemas.avro_write import AvroWriter

            AvroWriter(SchemaTree(text))
        else:
            from kcli.schemas.json_schema import validated

            validated(text, {})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{where}: it is not a valid schema: {problem_of(error)}") from None


def _protobuf_writer(
    schema: Schema, referred: dict[str, str], schema_file: str | None, message: str | None
) -> Callable[[Any], bytes]:
    from kcli.schemas.protobuf import path_bytes
    from kcli.schemas.protobuf_schema import messages_of, require_protobuf

    require_protobuf()
    messages: Messages = protobuf_file(schema_file) if schema_file else messages_of(schema.text, referred)
    from google.protobuf.json_format import ParseDict
    from google.protobuf.message import Message
    from google.protobuf.message_factory import GetMessageClass

    try:
        descriptor = messages.by_path((0,)) if message is None else messages.by_name(message)
    except ValueError as error:
        raise ConfigError(f"protobuf: {error}") from None
    make = GetMessageClass(descriptor)
    path = b"" if schema.id is None else path_bytes(messages.path_of(descriptor))

    def write(value: Any) -> bytes:
        if isinstance(value, Message):
            if value.DESCRIPTOR.full_name != descriptor.full_name:
                raise EncodeError(f"the value must be {descriptor.full_name}, not {value.DESCRIPTOR.full_name}")
            return path + bytes(value.SerializeToString())
        if not isinstance(value, dict) and not descriptor.full_name.startswith("google.protobuf."):
            raise EncodeError(f"the value must be an object, not {kind_of(value)}")
        try:
            data: bytes = ParseDict(value, make(), descriptor_pool=messages.pool).SerializeToString()
        except SystemError:  # of the library, for a name that has no form in UTF-8
            raise EncodeError("a text has a character without a form in UTF-8") from None
        except Exception as error:  # a library with errors of its own
            raise EncodeError(problem_of(error)) from None
        return path + data

    return write

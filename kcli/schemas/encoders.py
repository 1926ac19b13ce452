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

    def __repr__(self) -> str:
        return f"<SchemaEncoder {self.name} {self._side} topics={len(self._writers)}>"

    def encode(self, topic: str, value: Any) -> bytes:
        """Return the payload of a value, as `Encoder.encode` says."""
        write = self._writers.get(topic)
        if write is None:
            write = self._writers[topic] = self._writer(self._find(topic))
        try:
            return write(value)
        except EncodeError as error:
            raise EncodeError(f"{self.name}: {error}") from None

    def _writer(self, schema: Schema) -> Callable[[Any], bytes]:
        if schema.kind != _KINDS[self.name]:
            raise ConfigError(f"{self._side}: schema {schema.id} is one of {schema.kind}, not of {_KINDS[self.name]}")
        try:
            write: Callable[[Any], bytes] = self._compile(schema)
        except KcliError:
            raise
        except Exception as error:  # a schema of strangers, read by libraries with errors of their own
            raise EncodeError(f"{self.name}: schema {schema.id} is not valid: {problem_of(error)}") from None
        frame = b"" if schema.id is None else b"\0" + schema.id.to_bytes(4, "big")
        return (lambda value: frame + write(value)) if frame else write


def schema_encoder(
    name: str,
    side: Side,
    registry: SchemaRegistry | None,
    *,
    schema_id: int | None,
    subject: str | None,
    schema_file: str | None,
    message: str | None,
    register: bool,
) -> Encoder:
    """Return the encoder of avro, protobuf or json-schema: arguments as of `kcli.schemas.serdes.make_encoder`."""
    if registry is None and (schema_id is not None or subject is not None or register):
        raise ConfigError(
            f"{side}: a schema id, a subject or --register requires a schema registry; use --schema-registry URL"
        )
    if schema_id is not None and (subject is not None or schema_file is not None):
        raise ConfigError(f"{side}: a schema id cannot be combined with a subject or a schema file")
    if register and schema_file is None:
        raise ConfigError(f"{side}: registering needs the schema: use --schema-file FILE")
    if schema_file is None and registry is None:
        raise no_schema(name, side)
    text = None if schema_file is None else _checked_file(name, schema_file, register=register)

    def find(topic: str) -> Schema:
        of_topic = subject or f"{topic}-{side}"
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
            raise NotFound(
                f"subject {of_topic!r} does not have the schema of {schema_file}; use --register to add it"
            ) from None

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


def _checked_file(name: str, path: str, *, register: bool) -> str:
    """Return the text of a schema file that is a valid schema, in base64 if it is a file of descriptors.

    A schema with imports is registered with references to their subjects, which a file does not have.
    """
    if name == "protobuf":
        from kcli.schemas.protobuf_schema import DESCRIPTOR_FILES, require_protobuf

        require_protobuf()
        messages = protobuf_file(path)
        if register and messages.imports:
            raise ConfigError(
                f"schema file {path}: it imports {messages.imports[0]}, and --register knows no references, so nobody "
                "could read the records; register it with another tool, and use --subject"
            )
        return messages.base64 if path.endswith(DESCRIPTOR_FILES) else read_schema_file(path)
    text = read_schema_file(path)
    try:
        if name == "avro":
            from kcli.schemas.avro_schema import SchemaTree
            from kcli.schemas.avro_write import AvroWriter

            AvroWriter(SchemaTree(text))
        else:
            from kcli.schemas.json_schema import validated

            validated(text, {})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"schema file {path}: it is not a valid schema: {problem_of(error)}") from None
    return text


def _protobuf_writer(
    schema: Schema, referred: dict[str, str], schema_file: str | None, message: str | None
) -> Callable[[Any], bytes]:
    from kcli.schemas.protobuf import path_bytes
    from kcli.schemas.protobuf_schema import messages_of, require_protobuf

    require_protobuf()
    messages: Messages = protobuf_file(schema_file) if schema_file else messages_of(schema.text, referred)
    from google.protobuf.json_format import ParseDict
    from google.protobuf.message_factory import GetMessageClass

    try:
        descriptor = messages.by_path((0,)) if message is None else messages.by_name(message)
    except ValueError as error:
        raise ConfigError(f"protobuf: {error}") from None
    make = GetMessageClass(descriptor)
    path = b"" if schema.id is None else path_bytes(messages.path_of(descriptor))

    def write(value: Any) -> bytes:
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

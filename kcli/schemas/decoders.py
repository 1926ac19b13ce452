"""The decoders of formats with schemas: by the frame of each payload, or by a schema file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kcli.errors import ConfigError
from kcli.schemas.schema import Schema
from kcli.schemas.simple_formats import read_json
from kcli.schemas.wire_format import FileDecoder, FramedDecoder, MakeRead, Read, frame_length, problem_of

if TYPE_CHECKING:
    from kcli.schemas.avro_schema import SchemaTree
    from kcli.schemas.contracts import Decoder, Side
    from kcli.schemas.protobuf_schema import Messages
    from kcli.schemas.registry_client import SchemaRegistry


def schema_decoder(
    name: str,
    side: Side,
    registry: SchemaRegistry | None,
    schema_file: str | None,
    message: str | None,
    *,
    schema: str | None = None,
) -> Decoder:
    """Return the decoder of avro, protobuf, json-schema or auto. Arguments as of `kcli.schemas.serdes.make_decoder`.

    `schema` is the text of Avro's schema, in the place of a file.
    """
    if name == "avro":
        return _avro(side, registry, schema_file, schema)
    if name == "protobuf":
        return _protobuf(side, registry, schema_file, message)
    if name == "auto":
        return AutoDecoder(side, registry)
    return _json_schema(side, registry, schema_file)


def _avro(side: Side, registry: SchemaRegistry | None, schema_file: str | None, schema: str | None) -> Decoder:
    from kcli.schemas.avro import make_read, tree_of

    reader: SchemaTree | None = None
    text = schema if schema_file is None else read_schema_file(schema_file)
    if text is not None:
        try:
            reader = tree_of(text)
            make_read(reader, 0)
        except (ValueError, RecursionError) as error:
            where = f"schema file {schema_file}" if schema_file else "the schema"
            raise ConfigError(f"{where}: it is not a valid Avro schema: {problem_of(error)}") from None
    if registry is None:
        if reader is None:
            raise no_schema("avro", side)
        of_file = reader
        return FileDecoder("avro", lambda start: make_read(of_file, start))
    return FramedDecoder("avro", side, registry, {"AVRO": avro_reader(registry, reader)})


def avro_reader(registry: SchemaRegistry, reader: SchemaTree | None = None) -> MakeRead:
    """Return the maker of readers of Avro's payloads; `reader` is the reader's schema."""
    from kcli.schemas.avro import make_read, tree_of

    def make(schema: Schema, start: int, is_apicurio: bool, after_guid: bytes) -> Read:
        return make_read(tree_of(schema.text, [used.text for _, used in registry.closure(schema)]), start, reader)

    return make


def _protobuf(side: Side, registry: SchemaRegistry | None, schema_file: str | None, message: str | None) -> Decoder:
    from kcli.schemas.protobuf import MessageReader
    from kcli.schemas.protobuf_schema import require_protobuf

    require_protobuf()
    if schema_file is None:
        if registry is None:
            raise no_schema("protobuf", side)
        if message is not None:
            raise ConfigError(
                f"{side}: message {message} needs --schema-file; a registry's payloads name their message"
            )
        return FramedDecoder("protobuf", side, registry, {"PROTOBUF": protobuf_reader(registry)})
    messages = protobuf_file(schema_file)
    reader = MessageReader(messages)
    try:
        bare = reader.read_message(message)
    except ValueError as error:
        raise ConfigError(f"schema file {schema_file}: {error}") from None
    return FileDecoder("protobuf", lambda start: reader.read_framed(start, name=message) if start else bare)


def protobuf_file(path: str) -> Messages:
    """Return the messages of a schema file. Raise ConfigError."""
    from kcli.schemas.protobuf_schema import messages_of_file

    try:
        return messages_of_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise ConfigError(f"schema file {path}: it is not a valid schema of Protobuf: {problem_of(error)}") from None


def protobuf_reader(registry: SchemaRegistry) -> MakeRead:
    """Return the maker of readers of Protobuf's payloads. Raise ConfigError without the library."""
    from kcli.schemas.protobuf import MessageReader
    from kcli.schemas.protobuf_schema import messages_of, require_protobuf

    require_protobuf()

    def make(schema: Schema, start: int, is_apicurio: bool, after_guid: bytes) -> Read:
        imports = {name: used.text for name, used in registry.closure(schema)}
        reader = MessageReader(messages_of(schema.text, imports))
        return reader.read_framed(start, is_apicurio=is_apicurio) if start else reader.read_after_header(after_guid)

    return make


def _json_schema(side: Side, registry: SchemaRegistry | None, schema_file: str | None) -> Decoder:
    from kcli.schemas.json_schema import validating_reader

    if schema_file is None:
        if registry is None:
            raise no_schema("json-schema", side)
        return FramedDecoder("json-schema", side, registry, {"JSON": json_schema_reader(registry)})
    text = read_schema_file(schema_file)
    try:
        validating_reader(text, {}, 0)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"schema file {schema_file}: it is not a valid schema: {problem_of(error)}") from None
    if registry is None:
        return FileDecoder("json-schema", lambda start: validating_reader(text, {}, start))
    make: MakeRead = lambda _schema, start, _is_apicurio, _after_guid: validating_reader(text, {}, start)  # noqa: E731
    return FramedDecoder("json-schema", side, registry, {"JSON": make})


def json_schema_reader(registry: SchemaRegistry) -> MakeRead:
    """Return the maker of readers of JSON that the payload's schema must allow."""
    from kcli.schemas.json_schema import validating_reader

    def make(schema: Schema, start: int, is_apicurio: bool, after_guid: bytes) -> Read:
        return validating_reader(schema.text, {name: used.text for name, used in registry.closure(schema)}, start)

    return make


def unchecked_json_decoder(side: Side, registry: SchemaRegistry) -> Decoder:
    """Return the decoder of JSON with a frame that leaves the check of its values to the caller."""

    def make(schema: Schema, start: int, is_apicurio: bool, after_guid: bytes) -> Read:
        return lambda payload: read_json(payload[start:])

    return FramedDecoder("json-schema", side, registry, {"JSON": make})


class AutoDecoder:
    """Payloads by what they begin with: a frame of the registry, JSON, text in UTF-8, or else bytes.

    JSON is an object or a list; other texts that are JSON, such as 12, are text. Without a registry, no frame is known.
    """

    name = "auto"

    def __init__(self, side: Side, registry: SchemaRegistry | None) -> None:
        self._framed: FramedDecoder | None = None
        if registry is not None:
            factories = {"AVRO": avro_reader, "PROTOBUF": protobuf_reader, "JSON": json_schema_reader}
            makers = {kind: _late(factory, registry) for kind, factory in factories.items()}
            self._framed = FramedDecoder("auto", side, registry, makers)

    def __repr__(self) -> str:
        return f"<AutoDecoder {self._framed!r}>"

    def decode(
        self, topic: str, payloads: Sequence[bytes | None], schema_headers: Sequence[bytes | None] | None = None
    ) -> list[Any]:
        """Return the value of each payload, as `Decoder.decode` says."""
        values = [None if payload is None else _of_unframed(payload) for payload in payloads]
        if self._framed is None:
            return values
        headers = schema_headers or [None] * len(payloads)
        rows = [
            row
            for row, payload in enumerate(payloads)
            if payload is not None and (headers[row] is not None or frame_length(payload))
        ]
        if rows:
            framed = self._framed.decode(topic, [payloads[row] for row in rows], [headers[row] for row in rows])
            for row, value in zip(rows, framed, strict=True):
                values[row] = value
        return values


def _of_unframed(payload: bytes) -> Any:
    if payload[:1] in (b"{", b"["):
        with suppress(ValueError, RecursionError):
            return read_json(payload)
    if b"\0" in payload:  # a number or another encoding: text has no NUL
        return payload
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload


def _late(factory: Callable[[SchemaRegistry], MakeRead], registry: SchemaRegistry) -> MakeRead:
    """Return a maker that checks for its library when a payload needs it: a topic may have one format only."""

    def make(schema: Schema, start: int, is_apicurio: bool, after_guid: bytes) -> Read:
        return factory(registry)(schema, start, is_apicurio, after_guid)

    return make


def no_schema(name: str, side: Side) -> ConfigError:
    """Return the error for a format without a source of schemas."""
    return ConfigError(f"{side}: {name} needs a schema: use --schema-registry URL, or --schema-file FILE")


def read_schema_file(path: str) -> str:
    """Return the text of a schema file. Raise ConfigError."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: Exception) -> ConfigError:
    """Return the error for a schema file that cannot be read."""
    reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
    return ConfigError(f"cannot read schema file {path}: {reason}")

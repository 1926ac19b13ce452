"""Plan of the decoding of a query: options, the reader's schema from the registry, and the decoders of the tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.errors import ConfigError, NotFound
from kcli.schemas.serdes import WITH_SCHEMA, make_decoder
from kcli.spark.client_options import properties_of
from kcli.spark.decoding.column_types import JSON
from kcli.spark.decoding.sides import DecodeOptions, Decoding
from kcli.spark.option_table import KAFKA
from kcli.spark.selection import Assign, Subscribe

if TYPE_CHECKING:
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.serdes import Decoder
    from kcli.spark.decoding.column import DecodedColumn
    from kcli.spark.decoding.column_types import ColumnType
    from kcli.spark.options import SourceOptions

#: Columns of decoders without a schema, and of kcat's letters; others are JSON text.
_PLAIN: Mapping[str, ColumnType] = {
    "string": "string",
    "hex": "string",
    "base64": "string",
    "c": "string",
    "s": "string",
    **dict.fromkeys("bBhHi", "int"),
    **dict.fromkeys("Iq", "bigint"),
    "Q": "decimal(20,0)",
    "f": "float",
    "d": "double",
}


def plan_decodings(options: SourceOptions) -> SourceOptions:
    """Return the options with the reader's schema of each decoded side. Ask the registry, on the driver.

    Raise ConfigError, NotFound for a missing subject, RegistryError.
    """
    if not options.decode:
        return options
    registry = registry_of(options.kafka)
    return options._replace(decodings=tuple(_plan(options, side, registry) for side in options.decode))


def _plan(options: SourceOptions, side: DecodeOptions, registry: SchemaRegistry | None) -> Decoding:
    keeps_raw = side.raw == "all"
    if side.name not in WITH_SCHEMA:
        make_decoder(side.name, side.side, registry=registry)
        return Decoding(side.side, side.name, _PLAIN.get(side.name.strip("<> $"), JSON), keeps_raw)
    if registry is None and side.schema_file is None:
        raise ConfigError(f"{side.side}.decode={side.name} requires schema.registry.url, or {side.side}.schema.file")
    referred: tuple[tuple[str, str], ...] = ()
    if side.schema_file is not None:
        text, origin = _read(side), f"{side.side}.schema.file {side.schema_file}"
    else:
        assert registry is not None
        subject = side.subject or _subject(options, side)
        try:
            schema = registry.version(subject, side.version)
        except NotFound as error:
            raise NotFound(f"{side.side}.decode={side.name}: {error}; use {side.side}.subject") from None
        wanted = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}[side.name]
        if schema.kind != wanted:
            raise ConfigError(
                f"{side.side}.decode={side.name}: the schema of subject {subject} is one of {schema.kind}"
            )
        referred = tuple((name, used.text) for name, used in registry.closure(schema))
        text, origin = schema.text, f"the schema of subject {subject}"
    try:
        kind = _column_type(side, text, referred)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not valid: {' '.join(str(error).split())}") from None
    return Decoding(side.side, side.name, kind, keeps_raw, text, referred, side.message)


def _read(side: DecodeOptions) -> str:
    from kcli.schemas.decoders import read_schema_file

    return read_schema_file(side.schema_file or "")


def _subject(options: SourceOptions, side: DecodeOptions) -> str:
    """Return the subject of a single topic."""
    selection = options.selection
    topics = set()
    if isinstance(selection, Subscribe):
        topics = set(selection.topics)
    elif isinstance(selection, Assign):
        topics = {tp.topic for tp in selection.partitions}
    if len(topics) != 1:
        raise ConfigError(f"{side.side}.decode={side.name} of several topics requires {side.side}.subject")
    return f"{topics.pop()}-{side.side}"


def _column_type(side: DecodeOptions, text: str, referred: tuple[tuple[str, str], ...]) -> ColumnType:
    if side.name == "avro":
        from kcli.schemas.avro import tree_of
        from kcli.spark.decoding.avro_types import avro_column_type

        return avro_column_type(tree_of(text, [used for _, used in referred]))
    if side.name == "protobuf":
        from kcli.schemas.protobuf_schema import messages_of, require_protobuf
        from kcli.spark.decoding.protobuf_types import message_of, protobuf_column_type

        require_protobuf()
        return protobuf_column_type(message_of(messages_of(text, dict(referred)), side.message))
    from kcli.spark.decoding.json_schema_types import json_schema_column_type

    return json_schema_column_type(text, dict(referred))


def decoded_columns(options: SourceOptions, topic: str) -> list[DecodedColumn]:
    """Return the decoders of a task that reads this topic."""
    from kcli.spark.decoding.column import DecodedColumn

    registry = registry_of(options.kafka)
    return [
        DecodedColumn(decoding, topic, _kept_decoder(decoding, registry, options.kafka))
        for decoding in options.decodings
    ]


_MOST_KEPT = 8
_kept: dict[tuple[object, ...], Decoder] = {}


def _kept_decoder(decoding: Decoding, registry: SchemaRegistry | None, kafka: Mapping[str, str]) -> Decoder:
    """Return a decoder of this process: Spark reuses its workers, and a decoder keeps the schemas it has parsed."""
    key = (decoding, *sorted(kafka.items()))
    if key not in _kept:
        while len(_kept) >= _MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = _decoder(decoding, registry)
    return _kept[key]


def _decoder(decoding: Decoding, registry: SchemaRegistry | None) -> Decoder:
    """Return the decoder that resolves each record to the reader's schema."""
    if decoding.schema is None:
        return make_decoder(decoding.name, decoding.side, registry=registry)
    if decoding.name == "avro":
        from kcli.schemas.avro import make_read, tree_of
        from kcli.schemas.decoders import avro_reader
        from kcli.schemas.wire_format import FileDecoder, FramedDecoder

        tree = tree_of(decoding.schema, [text for _, text in decoding.referred])
        if registry is None:
            return FileDecoder("avro", lambda start: make_read(tree, start))
        return FramedDecoder("avro", decoding.side, registry, {"AVRO": avro_reader(registry, tree)})
    if decoding.name == "protobuf":
        from kcli.spark.decoding.protobuf_types import protobuf_decoder

        return protobuf_decoder(decoding, registry)
    if registry is None:
        return make_decoder("json", decoding.side)
    from kcli.schemas.decoders import unchecked_json_decoder

    return unchecked_json_decoder(decoding.side, registry)


def registry_of(kafka: Mapping[str, str]) -> SchemaRegistry | None:
    """Return the registry that the client's properties name; None without one. References are resolved here."""
    from kcli.schemas.disk_cache import cache_folder
    from kcli.schemas.registry_client import SchemaRegistry

    try:
        return SchemaRegistry.of_properties(properties_of(kafka), folder=cache_folder(os.environ))
    except ConfigError as error:
        raise ConfigError(f"{KAFKA}{error}") from None

"""Decoders and encoders by the names of the option -s: bytes of a key or value <-> Python values.

A decoder gets the payloads of many records at once and returns one value for each: the native Python value, None for a
null, and a `DecodeError` where a payload does not decode. An error is a value here, because one bad record must not
hide the others.

    string, json, hex, base64, msgpack      without a schema
    b B h H i I q Q f d c s                 kcat's pack string: integers of 1 to 8 bytes (upper case: unsigned), float,
                                            double, a character, the rest as text; '<' and '>' switch to little and big
                                            endian (the default); several letters make a list
    avro, protobuf, json-schema             with a schema of the registry or of a file
    auto                                    by the magic byte of each payload
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.schemas.contracts import MAX_DEPTH, DecodeError, Decoder, EncodeError, Encoder, Side, missing_extra

if TYPE_CHECKING:
    from kcli.schemas.registry_client import SchemaRegistry

__all__ = [
    "MAX_DEPTH",
    "NAMES",
    "PACK_LETTERS",
    "WITH_SCHEMA",
    "DecodeError",
    "Decoder",
    "EncodeError",
    "Encoder",
    "Side",
    "make_decoder",
    "make_encoder",
    "missing_extra",
]

#: Letters of kcat's pack string.
PACK_LETTERS = ("b", "B", "h", "H", "i", "I", "q", "Q", "f", "d", "c", "s")

#: Formats whose schema comes from the registry or from a file.
WITH_SCHEMA = ("avro", "protobuf", "json-schema")

#: The names of -s. A pack string may combine its letters, so it is not limited to these.
NAMES = ("string", "json", "hex", "base64", "msgpack", *WITH_SCHEMA, "auto", *PACK_LETTERS)


def make_decoder(
    name: str,
    side: Side,
    *,
    registry: SchemaRegistry | None = None,
    schema_file: str | None = None,
    message: str | None = None,
) -> Decoder:
    """Return the decoder of this name for keys or values. Raise ConfigError.

    `registry` has the schemas of Avro, Protobuf and JSON Schema. `schema_file` is a schema to read without it (.avsc,
    .proto, .json): payloads may then lack the framing of a registry; with both, it is the reader's schema.
    `message` is the Protobuf message in that file, by default its first.
    """
    _check(name, side, schema_file, message)
    if name not in (*WITH_SCHEMA, "auto"):
        from kcli.schemas.simple_formats import plain_serde

        return plain_serde(name)
    from kcli.schemas.decoders import schema_decoder

    return schema_decoder(name, side, registry, schema_file, message)


def make_encoder(
    name: str,
    side: Side,
    *,
    registry: SchemaRegistry | None = None,
    schema_id: int | None = None,
    subject: str | None = None,
    schema_file: str | None = None,
    message: str | None = None,
    register: bool = False,
) -> Encoder:
    """Return the encoder of this name for keys or values. Raise ConfigError.

    The schema is that of `schema_id`; else the newest of `subject`, by default `TOPIC-key` or `TOPIC-value`; else that
    of `schema_file`, which the subject must have, or which `register` adds to it. Without a registry the payload is
    that of `schema_file`, without framing.
    """
    _check(name, side, schema_file, message)
    if name == "auto":
        raise ConfigError(f"{side} encoder: auto only decodes; use avro, protobuf or json-schema")
    if name not in WITH_SCHEMA:
        from kcli.schemas.simple_formats import plain_serde

        return plain_serde(name)
    from kcli.schemas.encoders import schema_encoder

    return schema_encoder(
        name,
        side,
        registry,
        schema_id=schema_id,
        subject=subject,
        schema_file=schema_file,
        message=message,
        register=register,
    )


def _check(name: str, side: Side, schema_file: str | None, message: str | None) -> None:
    if name not in NAMES and not (name and set(name) <= {*PACK_LETTERS, "<", ">", "$", " "}):
        raise ConfigError(
            f"{side}: {name!r} is not a known format; use {', '.join(NAMES[:9])}, or letters of "
            f"kcat's pack string ({' '.join(PACK_LETTERS)})"
        )
    if schema_file is not None and name not in WITH_SCHEMA:
        raise ConfigError(f"{side}: {name} has no schema file; use {', '.join(WITH_SCHEMA)}")
    if message is not None and name != "protobuf":
        raise ConfigError(f"{side}: only protobuf has messages to choose from, not {name}")

"""Encode keys and values with -s: JSON or text of the input becomes the payload of a record.

In delimited input, a format of structured values (json, msgpack, avro, protobuf, json-schema, several letters of a pack
string) takes JSON, and each other format takes text: `5` for `-s q`, `00ff` for `-s hex`. JSON for `-s json` is checked
and sent as it is.

In JSON lines the members key and value are the values, as `kcli consume -s` prints them, and null is a null (a
tombstone). Instead of a null with `value_raw`, those bytes are sent. Numbers have the precision of a double.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kcli.cli.options import SIDES, by_side
from kcli.errors import ConfigError
from kcli.schemas.serdes import MAX_DEPTH, NAMES, WITH_SCHEMA, EncodeError, make_encoder
from kcli.schemas.simple_formats import read_json

if TYPE_CHECKING:
    from kcli.cli.produce.options import EncodeOptions
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.serdes import Encoder, Side


def make_encoding(options: EncodeOptions, topic: str, registry: Callable[[], SchemaRegistry | None]) -> Encoding:
    """Return the encoders of the options. `registry` is called only if an encoder needs one. Raise ConfigError."""
    names = by_side("-s", options.serde or (), SIDES)
    details = {
        "--schema-id": by_side("--schema-id", options.schema_id or (), ("value",)),
        "--subject": by_side("--subject", options.subject or (), ("value",)),
        "--schema-file": by_side("--schema-file", options.schema_file or (), ("value",)),
        "--message": by_side("--message", options.message or (), ("value",)),
    }
    for option, given in details.items():
        for side in given:
            if names.get(side) not in WITH_SCHEMA:
                raise ConfigError(f"{option} for the {side} requires a format with a schema, such as -s {side}=avro")
    files = details["--schema-file"]
    if options.register and not files:
        raise ConfigError("--register requires --schema-file, the schema to register")
    encoders = {
        side: make_encoder(
            name,
            side,
            registry=registry() if name in WITH_SCHEMA else None,
            schema_id=_schema_id(details["--schema-id"].get(side)),
            subject=details["--subject"].get(side),
            schema_file=files.get(side),
            message=details["--message"].get(side),
            register=options.register and side in files,
        )
        for side, name in names.items()
    }
    return Encoding(topic, encoders)


def _schema_id(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 63):
        raise ConfigError(f"--schema-id: '{text}' is not valid; use the number of a schema")
    return int(text)


class Encoding:
    """Encoders of the records of one topic, by side (key, value)."""

    def __init__(self, topic: str, encoders: Mapping[Side, Encoder]) -> None:
        self._topic = topic
        self._encoders = encoders

    def encodes(self, side: Side) -> bool:
        """Return whether keys or values are encoded."""
        return side in self._encoders

    def of_text(self, side: Side, text: bytes | None) -> bytes | None:
        """Return the payload of a key or value of delimited input. Raise EncodeError and RegistryError."""
        encoder = self._encoders.get(side)
        if encoder is None or text is None:
            return text
        try:
            value = read_json(text) if _takes_json(encoder.name) else text.decode()
        except RecursionError:
            raise EncodeError(f"{side}: nested deeper than {MAX_DEPTH} levels") from None
        except UnicodeDecodeError:
            raise EncodeError(f"{side}: not UTF-8") from None
        except ValueError as error:
            raise EncodeError(f"{side}: not JSON: {error}") from None
        if encoder.name == "json":
            return text  # it is valid, and has all digits of its numbers
        return self._encode(side, encoder, value)

    def of_json(self, side: Side, value: Any) -> bytes | None:
        """Return the payload of a key or value of a JSON line. Raise EncodeError and RegistryError."""
        return None if value is None else self._encode(side, self._encoders[side], value)

    def _encode(self, side: Side, encoder: Encoder, value: Any) -> bytes:
        try:
            return encoder.encode(self._topic, value)
        except EncodeError as error:
            raise EncodeError(f"{side}: {error.message}") from None


def _takes_json(name: str) -> bool:
    """Return whether a format has structured values."""
    if name in ("json", "msgpack", *WITH_SCHEMA):
        return True
    return name not in NAMES and sum(letter.isalpha() for letter in name) > 1

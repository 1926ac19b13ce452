"""The interface of decoders and encoders, and the errors that they report. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

from kcli.errors import ConfigError, KcliError

#: Deepest nesting of a value. Deeper payloads do not decode, so that no later step meets Python's recursion limit.
MAX_DEPTH = 128

Side: TypeAlias = Literal["key", "value"]


class DecodeError(KcliError):
    """A payload that does not decode: one sentence. Decoders return it in the place of the value.

    Evidence: schema_id, if the registry has the schema of the payload.
    """

    _said = ("schema_id",)


class EncodeError(KcliError):
    """A value that the format or the schema cannot represent: one sentence. Evidence: schema_id."""

    _said = ("schema_id",)


class Decoder(Protocol):
    """Payloads to values, for one side (key or value) of the records. `name` is that of -s."""

    name: str

    def decode(
        self, topic: str, payloads: Sequence[bytes | None], schema_headers: Sequence[bytes | None] | None = None
    ) -> list[Any]:
        """Return the native value of each payload: None for a null, a `DecodeError` where it does not decode.

        `schema_headers` has the last header `__key_schema_id` or `__value_schema_id` of each record, None without one.
        Raise RegistryError only if the registry cannot be reached or refuses the credentials.
        """


class Encoder(Protocol):
    """JSON-like values to payloads, for one side of the records. `name` is that of -s."""

    name: str

    def encode(self, topic: str, value: Any) -> bytes:
        """Return the payload of a value. Raise EncodeError, and RegistryError as decoders do."""


def missing_extra(name: str, package: str) -> ConfigError:
    """Return the error for a library of the extra `schema` that is not installed."""
    return ConfigError(f"{name} needs the Python package {package}: pip install 'kcli-kafka[schema]'")

"""The frame of payloads that were written with a registry: it names the schema of the rest.

    00, id as 4 bytes big-endian, value         Confluent's serialisers
    00, id as 8 bytes big-endian, value         Apicurio's serialisers; ids of both begin at 1, so 4 zero bytes tell
    value                                       with the record header __key_schema_id or __value_schema_id, which has
                                                01 and the 16 bytes of a GUID, or 00 and an id of 4 bytes

In Protobuf, the path of the message follows the id or GUID: see `kcli.schemas.protobuf`.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from kcli.errors import ConfigError, KcliError
from kcli.schemas.contracts import MAX_DEPTH, DecodeError, Side
from kcli.schemas.registry_client import SchemaRegistry
from kcli.schemas.schema import RegistryError, Schema

#: Read the value of a payload; raise ValueError, EOFError, IndexError and the like with the problem.
Read: TypeAlias = Callable[[bytes], Any]

#: Make the reader of payloads of a schema. Arguments: the schema, the length of the frame, whether it is Apicurio's,
#: and the bytes that follow the GUID in a header. Raise ValueError or KcliError if the schema is not valid.
MakeRead: TypeAlias = Callable[[Schema, int, bool, bytes], Read]

_MAX_READERS = 10_000
_OF_HEADER = b"\xff"  # in front of the frame that is a header; those of payloads start with 0


class FramedDecoder:
    """A decoder of payloads with frames. It has one reader per frame, made when its first payload comes."""

    def __init__(self, name: str, side: Side, registry: SchemaRegistry, makers: dict[str, MakeRead]) -> None:
        """`makers` has the formats that this decoder accepts, by their names in the registry."""
        self.name = name
        self._side = side
        self._registry = registry
        self._makers = makers
        self._readers: dict[bytes, Read] = {}
        self._schemas: dict[bytes, Schema] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self._side} readers={len(self._readers)}>"

    def decode(
        self, topic: str, payloads: Sequence[bytes | None], schema_headers: Sequence[bytes | None] | None = None
    ) -> list[Any]:
        """Return the value of each payload, as `Decoder.decode` says."""
        # Decoded values are trees, without the cycles that the collector looks for among all new objects.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return self._values(topic, payloads, schema_headers)
        finally:
            if was_enabled:
                gc.enable()

    def _values(
        self, topic: str, payloads: Sequence[bytes | None], schema_headers: Sequence[bytes | None] | None
    ) -> list[Any]:
        readers = self._readers
        values: list[Any] = []
        for row, payload in enumerate(payloads):
            if payload is None:
                values.append(None)
                continue
            header = schema_headers[row] if schema_headers is not None else None
            frame = payload[:5] if header is None else _OF_HEADER + header
            try:
                values.append(readers[frame](payload))
            except Exception:  # no reader yet, or the payload does not decode
                values.append(self._decode(topic, payload, header))
        return values

    def _decode(self, topic: str, payload: bytes, header: bytes | None) -> Any:
        frame = payload[: frame_length(payload)] if header is None else _OF_HEADER + header
        try:
            return self._read(topic, payload, frame)
        except (ConfigError, RegistryError):
            raise
        except Exception as error:  # bytes of strangers, read by libraries with errors of their own
            schema = self._schemas.get(frame)
            named = "" if schema is None else f" with schema {schema.guid if _names_guid(frame) else schema.id}"
            return DecodeError(
                f"{self.name}{named}: {problem_of(error)}", schema_id=None if schema is None else schema.id
            )

    def _read(self, topic: str, payload: bytes, frame: bytes) -> Any:
        try:
            return self._reader(topic, frame)(payload)
        except Exception:
            schema = self._schemas.get(frame)
            if schema is None or not self._registry.forget(schema):
                raise
        # The schema was read from disk. The registry may have been made anew since, with other schemas by its ids.
        del self._schemas[frame]
        self._readers.pop(frame, None)
        return self._reader(topic, frame)(payload)

    def _reader(self, topic: str, frame: bytes) -> Read:
        read = self._readers.get(frame)
        if read is not None:
            return read
        is_header = frame.startswith(_OF_HEADER)
        schema = self._schemas[frame] = self._schema(topic, frame)
        maker = self._makers.get(schema.kind)
        if maker is None:
            raise ValueError(f"its schema is one of {schema.kind}, not of {' or '.join(self._makers)}")
        after_guid = frame[18:] if _names_guid(frame) else b""
        try:
            read = maker(schema, 0 if is_header else len(frame), len(frame) == 9, after_guid)
        except (ConfigError, RegistryError):  # a library is missing, or there is no answer
            raise
        except Exception as error:
            read = _failing(f"the schema is not valid: {problem_of(error)}")
        if len(self._readers) < _MAX_READERS:
            self._readers[frame] = read
        return read

    def _schema(self, topic: str, frame: bytes) -> Schema:
        subject = f"{topic}-{self._side}"
        if frame.startswith(_OF_HEADER):
            id = frame[1:]
            if _names_guid(frame):
                return self._registry.by_guid(str(UUID(bytes=id[1:17])))
            if len(id) != 5 or id[0] != 0:
                raise ValueError(f"the header __{self._side}_schema_id is not a schema id")
            return self._registry.schema(int.from_bytes(id[1:], "big"), subject)
        if not frame:
            raise ValueError("the data has no schema id: it does not start with byte 0 and an id")
        id_number = int.from_bytes(frame[1:], "big")
        return (
            self._registry.by_apicurio_id(id_number) if len(frame) == 9 else self._registry.schema(id_number, subject)
        )


def _failing(problem: str) -> Read:
    def read(_: bytes) -> Any:
        raise ValueError(problem)

    return read


def _names_guid(frame: bytes) -> bool:
    """True for the frame of a header with a GUID."""
    return len(frame) >= 18 and frame.startswith(_OF_HEADER + b"\x01")


def frame_length(payload: bytes) -> int:
    """Return the length of the frame: 0 without one, 5, or 9 for an id of eight bytes."""
    if len(payload) < 5 or payload[0] != 0:
        return 0
    if payload[1:5] != b"\0\0\0\0":
        return 5
    return 9 if len(payload) >= 9 and payload[5:9] != b"\0\0\0\0" else 0


class FileDecoder:
    """A decoder with one schema, of a file: payloads are the value alone, or the value after a frame."""

    def __init__(self, name: str, make: Callable[[int], Read]) -> None:
        """`make` returns the reader of payloads whose frame has a length."""
        self.name = name
        self._bare = make(0)
        self._make = make
        self._framed: dict[int, Read] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def decode(
        self, topic: str, payloads: Sequence[bytes | None], schema_headers: Sequence[bytes | None] | None = None
    ) -> list[Any]:
        """Return the value of each payload, as `Decoder.decode` says."""
        read = self._bare
        values: list[Any] = []
        for payload in payloads:
            try:
                values.append(None if payload is None else read(payload))
            except Exception as error:
                values.append(self._read_framed(payload or b"", error))
        return values

    def _read_framed(self, payload: bytes, first: Exception) -> Any:
        length = frame_length(payload)
        problem = problem_of(first)
        if length:
            read = self._framed.get(length) or self._framed.setdefault(length, self._make(length))
            try:
                return read(payload)
            except Exception as error:
                problem = f"with an id: {problem_of(error)}; without: {problem}"
        return DecodeError(f"{self.name}: {problem}")


def problem_of(error: Exception) -> str:
    """Return the problem of a payload or schema: one sentence without a capital and a period."""
    if isinstance(error, KcliError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"a text is not valid UTF-8: byte 0x{error.object[error.start]:02x} at {error.start}"
    if isinstance(error, (EOFError, struct.error)):
        return "the data ends before the value"
    if isinstance(error, (IndexError, KeyError)):
        return "the data is not of this schema, or ends before the value"
    if isinstance(error, RecursionError):
        return f"the value is nested deeper than {MAX_DEPTH} levels"
    if isinstance(error, OverflowError):
        return "the data is not of this schema: a number is out of range"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}..."

"""One field of every record, as a list of bytes: what a format is filled with."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.consume.format import Field
from kcli.text import format_time

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

Encode = Callable[[bytes], bytes]


class Look(NamedTuple):
    """How fields are to look: the text for a null, and what makes untrusted bytes safe for a terminal (None: as is)."""

    null: bytes = b""
    safe: Encode | None = None


def constant(field: Field, tp: TopicPartition) -> bytes | None:
    """The field if it is the same for all records of a partition."""
    if field.name == "topic":
        return tp.topic.encode()
    return b"%d" % tp.partition if field.name == "partition" else None


def field_texts(field: Field, columns: RecordColumns, look: Look) -> list[bytes]:
    """The field of each record, written as its style says."""
    if field.style.startswith("length"):
        lengths = columns.value_lengths if field.name == "value" else columns.key_lengths
        if field.style == "length32":
            return [length.to_bytes(4, "big", signed=True) for length in lengths.tolist()]
        return [b"%d" % length for length in lengths.tolist()]
    if field.name == "offset":
        return [b"%d" % offset for offset in columns.offsets.tolist()]
    if field.name == "timestamp":
        return [b"%d" % ms for ms in columns.timestamps_ms.tolist()]
    if field.name == "time":
        return [time_text(ms).encode() for ms in columns.timestamps_ms.tolist()]
    if field.name == "headers":
        return [_headers_text(columns, index, look) for index in range(len(columns))]
    encode = {"hex": _hex, "base64": b64encode, "": look.safe}[field.style]
    return _encoded(columns.values() if field.name == "value" else columns.keys(), encode, look.null)


def _encoded(items: list[bytes | None], encode: Encode | None, null: bytes) -> list[bytes]:
    if encode is None:
        return [null if item is None else item for item in items]
    return [null if item is None else encode(item) for item in items]


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _headers_text(columns: RecordColumns, index: int, look: Look) -> bytes:
    """`a=1,b=2`; a null value is the chosen text for nulls, else NULL, as kcat has it."""
    pairs = [
        name.encode() + b"=" + ((look.null or b"NULL") if value is None else value)
        for name, value in columns.headers(index)
    ]
    text = b",".join(pairs)
    return look.safe(text) if look.safe else text


def time_text(ms: int) -> str:
    """Return a record's timestamp as text: "" for none (-1), the bare number for other negative values."""
    if ms < 0:
        return "" if ms == -1 else str(ms)
    return format_time(ms)

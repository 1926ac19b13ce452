r"""The format language of `-f/--format`: kcat's verbs, and some additions. Pure: parsing, and the text of each field.

    %s value        %S its length (-1: null)     %R its length as 4 bytes, big-endian
    %k key          %K its length (-1: null)     %h headers, a=1,b=2
    %t topic        %p partition                 %o offset           %T timestamp in ms        %% a percent sign
    %{time}         the timestamp as 2024-01-31T10:00:00.000Z
    %{value:hex} %{value:base64} %{key:hex} %{key:base64}
    \n \r \t \0 \\ \xNN

Nothing is added: a format for lines ends with `\n`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.options import naming
from kcli.cli.output.escapes import unescape
from kcli.errors import ConfigError
from kcli.text import format_timestamp

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


class Field(NamedTuple):
    """A field of a record and its style: "" unchanged, "hex", "base64", "length", "length32"."""

    name: str
    style: str = ""


FormatPart = bytes | Field
"""A literal, or a field of the record."""

VERBS = {
    "s": Field("value"),
    "S": Field("value", "length"),
    "R": Field("value", "length32"),
    "k": Field("key"),
    "K": Field("key", "length"),
    "h": Field("headers"),
    "t": Field("topic"),
    "p": Field("partition"),
    "o": Field("offset"),
    "T": Field("timestamp"),
}
NAMED = {
    "time": Field("time"),
    "value": Field("value"),
    "value:hex": Field("value", "hex"),
    "value:base64": Field("value", "base64"),
    "key": Field("key"),
    "key:hex": Field("key", "hex"),
    "key:base64": Field("key", "base64"),
    "headers": Field("headers"),
    "topic": Field("topic"),
    "partition": Field("partition"),
    "offset": Field("offset"),
    "timestamp": Field("timestamp"),
}

_VERB = re.compile(r"\\.|%(?:\{([^}]*)\}|(.)|$)", re.DOTALL)


def compile_format(text: str) -> list[FormatPart]:
    """Return the parts of a format, literals unescaped and merged. Raise ConfigError for an invalid verb or escape."""
    if not text:
        raise ConfigError("-f: the format must not be empty")
    parts: list[FormatPart] = []
    done = 0
    for match in _VERB.finditer(text):
        if match[0].startswith("\\"):
            continue  # an escape is part of a literal, even an escaped percent sign
        _add(parts, unescape(text[done : match.start()]))
        _add(parts, _part(match))
        done = match.end()
    _add(parts, unescape(text[done:]))
    return parts


def _part(match: re.Match[str]) -> FormatPart:
    name, letter = match.groups()
    if letter == "%":
        return b"%"
    field = NAMED.get(name) if name is not None else VERBS.get(letter or "")
    if field is None:
        known = " ".join([*(f"%{verb}" for verb in VERBS), "%%", *(f"%{{{name}}}" for name in NAMED)])
        raise ConfigError(f"-f: '{match[0]}' is not a valid verb; use {known}")
    return field


def _add(parts: list[FormatPart], part: FormatPart) -> None:
    if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
        parts[-1] += part
    elif part:
        parts.append(part)


def raw_format(delimiter: str, key_delimiter: str | None) -> list[FormatPart]:
    """Return the parts of raw output: the value and `-D`; with `-K` the key and that delimiter before it."""
    key: list[FormatPart] = []
    if key_delimiter is not None:
        with naming("-K"):
            key = [Field("key"), unescape(key_delimiter)]
    with naming("-D"):
        return [part for part in (*key, Field("value"), unescape(delimiter)) if part]


Encode = Callable[[bytes], bytes]


class TextStyle(NamedTuple):
    """The text for null, and the function that escapes bytes for a terminal (None: unchanged).

    `safe_fields` has the functions for fields whose matches are highlighted.
    """

    null: bytes = b""
    safe: Encode | None = None
    safe_fields: Mapping[str, Encode] = {}


def constant_text(field: Field, tp: TopicPartition) -> bytes | None:
    """Return the text of a field that is the same for all records of a partition; None for other fields."""
    if field.name == "topic":
        return tp.topic.encode()
    return b"%d" % tp.partition if field.name == "partition" else None


def field_texts(field: Field, columns: RecordColumns, text_style: TextStyle) -> list[bytes]:
    """Return the text of the field for each record."""
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
        return [format_timestamp(ms).encode() for ms in columns.timestamps_ms.tolist()]
    if field.name == "headers":
        return [_headers_text(columns, index, text_style) for index in range(len(columns))]
    safe = text_style.safe_fields.get(field.name, text_style.safe)
    encode = {"hex": _hex, "base64": b64encode, "": safe}[field.style]
    return _encoded(columns.values() if field.name == "value" else columns.keys(), encode, text_style.null)


def _encoded(items: list[bytes | None], encode: Encode | None, null: bytes) -> list[bytes]:
    if encode is None:
        return [null if item is None else item for item in items]
    return [null if item is None else encode(item) for item in items]


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _headers_text(columns: RecordColumns, index: int, text_style: TextStyle) -> bytes:
    """Return `a=1,b=2`; a null value is the text for null, by default NULL as in kcat."""
    pairs = [
        name.encode() + b"=" + ((text_style.null or b"NULL") if value is None else value)
        for name, value in columns.headers(index)
    ]
    text = b",".join(pairs)
    return text_style.safe(text) if text_style.safe else text

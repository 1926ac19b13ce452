r"""What `-f/--format` means: kcat's verbs, and a few that it lacks. Pure: text in, pieces out.

    %s value        %S its length (-1: null)     %R its length as 4 bytes, big-endian
    %k key          %K its length (-1: null)     %h headers, a=1,b=2
    %t topic        %p partition                 %o offset           %T timestamp in ms        %% a percent sign
    %{time}         the timestamp as 2024-01-31T10:00:00.000Z
    %{value:hex} %{value:base64} %{key:hex} %{key:base64}
    \n \r \t \0 \\ \xNN

Nothing is added: a format that wants lines ends in `\n`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.output.escapes import unescape
from kcli.errors import ConfigError
from kcli.text import format_timestamp

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


class Field(NamedTuple):
    """A part of a record, and how it is written: "" as it is, "hex", "base64", "length", "length32"."""

    name: str
    style: str = ""


Piece = bytes | Field
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


def compile_format(text: str) -> list[Piece]:
    """The pieces of a format, literals unescaped and merged. `ConfigError` names a verb or escape that is none."""
    if not text:
        raise ConfigError("the format is empty: it would print nothing")
    pieces: list[Piece] = []
    done = 0
    for match in _VERB.finditer(text):
        if match[0].startswith("\\"):
            continue  # part of a literal, even if what it escapes is a percent sign
        _add(pieces, unescape(text[done : match.start()]))
        _add(pieces, _piece(match))
        done = match.end()
    _add(pieces, unescape(text[done:]))
    return pieces


def _piece(match: re.Match[str]) -> Piece:
    name, letter = match.groups()
    if letter == "%":
        return b"%"
    field = NAMED.get(name) if name is not None else VERBS.get(letter or "")
    if field is None:
        known = " ".join([*(f"%{verb}" for verb in VERBS), "%%", *(f"%{{{name}}}" for name in NAMED)])
        raise ConfigError(f"'{match[0]}' is not a format verb: there are {known}")
    return field


def _add(pieces: list[Piece], piece: Piece) -> None:
    if isinstance(piece, bytes) and pieces and isinstance(pieces[-1], bytes):
        pieces[-1] += piece
    elif piece:
        pieces.append(piece)


def raw_format(delimiter: str, key_delimiter: str | None) -> list[Piece]:
    """The pieces of raw output: the value and `-D`; with `-K` the key and that delimiter before it."""
    key: list[Piece] = [] if key_delimiter is None else [Field("key"), unescape(key_delimiter)]
    return [piece for piece in (*key, Field("value"), unescape(delimiter)) if piece]


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
        return [format_timestamp(ms).encode() for ms in columns.timestamps_ms.tolist()]
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

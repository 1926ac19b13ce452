r"""Renderer of raw values and of `-f/--format`. The hot path of a bulk read.

A format becomes columns of texts, which are joined row by row: see `text_columns`. The language has kcat's verbs, and
some additions:

    %s value        %S its length (-1: null)     %R its length as 4 bytes, big-endian
    %k key          %K its length (-1: null)     %h headers, a=1,b=2
    %t topic        %p partition                 %o offset           %T timestamp in ms        %% a percent sign
    %{time}         the timestamp as 2024-01-31T10:00:00.000Z
    %{value:hex} %{value:base64} %{key:hex} %{key:base64}
    %{value.id} %{key.a.b[0]} %{value["a b"]}     a part of the decoded value or key, with -s
    %{value:error} %{key:error}                   why it does not decode, with -s
    %{headers.NAME}                               the last header of this name
    \n \r \t \0 \\ \xNN

Nothing is added: a format for lines ends with `\n`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Output, Renderer
from kcli.cli.consume.text_columns import (
    Choice,
    Literal,
    Spans,
    TextColumn,
    base64_column,
    big_endian_column,
    decimal_column,
    header_table,
    hex_column,
    join_columns,
    time_column,
)
from kcli.cli.options import naming
from kcli.cli.output.escapes import highlighted_bytes, unescape, visible_bytes
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.cli.consume.decoded_columns import DecodedColumns
    from kcli.cli.consume.text_columns import Ints
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


class Field(NamedTuple):
    """A field of a record and its style: "" unchanged, "hex", "base64", "length", "length32", "error".

    `path` leads to a part of a decoded key or value, or names a header.
    """

    name: str
    style: str = ""
    path: tuple[str | int, ...] = ()

    @property
    def needs_decoder(self) -> bool:
        """True if only a decoded key or value has this field."""
        return self.style == "error" or (bool(self.path) and self.name != "headers")


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
    "value:error": Field("value", "error"),
    "key:error": Field("key", "error"),
    "headers": Field("headers"),
    "topic": Field("topic"),
    "partition": Field("partition"),
    "offset": Field("offset"),
    "timestamp": Field("timestamp"),
}

_PATH = re.compile(r'\.([^.\[\]"]+)|\.?\["([^"]*)"\]|\.?\[(-?[0-9]{1,9})\]|\."([^"]*)"')
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


def named_field(name: str) -> Field | None:
    """Return the field of a name, such as offset, value:hex or value.customer.id; None for an unknown name."""
    if name in NAMED:
        return NAMED[name]
    if name.startswith("headers.") and name != "headers.":
        return Field("headers", "", (name.removeprefix("headers."),))
    side = "value" if name.startswith("value") else "key" if name.startswith("key") else ""
    path: list[str | int] = []
    position = len(side)
    while side and position < len(name):
        step = _PATH.match(name, position)
        if step is None:
            return None
        path.append(int(step[3]) if step[3] else next(text for text in step.groups() if text is not None))
        position = step.end()
    return Field(side, "", tuple(path)) if path else None


def _part(match: re.Match[str]) -> FormatPart:
    name, letter = match.groups()
    if letter == "%":
        return b"%"
    field = named_field(name) if name is not None else VERBS.get(letter or "")
    if field is None:
        names = [*NAMED, "value.PATH", "key.PATH", "headers.NAME"]
        known = " ".join([*(f"%{verb}" for verb in VERBS), "%%", *(f"%{{{name}}}" for name in names)])
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


_ROWS = 65_536
"""Records that are rendered at a time, to bound memory."""

Encode = Callable[[bytes], bytes]


class TextStyle(NamedTuple):
    """The text for null, and the function that escapes bytes for a terminal (None: unchanged).

    `safe_fields` has the functions for fields whose matches are highlighted. `decoders` are the sides (key, value) that
    are decoded: these records are `DecodedColumns`.
    """

    null: bytes = b""
    safe: Encode | None = None
    safe_fields: Mapping[str, Encode] = {}
    decoders: Collection[str] = ()

    def safe_for(self, name: str) -> Encode | None:
        """Return the function that escapes the texts of a field."""
        return self.safe_fields.get(name, self.safe)


def text_renderer(
    parts: Sequence[FormatPart],
    *,
    null: str | None = None,
    terminal: bool = False,
    highlights: Highlights = NO_HIGHLIGHTS,
    decoders: Collection[str] = (),
) -> Renderer:
    """Return a renderer of `parts`. `null`: the text for a null, and for a missing part of a decoded key or value.

    `terminal`: escape control bytes. For `decoders` see `TextStyle`.
    """
    safe_fields = {name: partial(highlighted_bytes, pattern=pattern) for name, pattern in highlights.items()}
    null_text = (null or "").encode("utf-8", "surrogateescape")
    style = TextStyle(null_text, visible_bytes if terminal else None, safe_fields, decoders)

    def render_rows(tp: TopicPartition, columns: RecordColumns) -> Output:
        texts: list[TextColumn] = []
        for part in parts:
            texts += [Literal(part)] if isinstance(part, bytes) else field_columns(part, tp, columns, style)
        return join_columns(texts, len(columns)).data

    return Renderer(in_parts(render_rows))


def selected_text_renderer(end: bytes, *, terminal: bool = False) -> Renderer:
    """Return the renderer of raw output for the results of --select, each followed by `end`."""

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        texts = cast("DecodedColumns", columns).selected_texts()
        return b"".join((visible_bytes(text) if terminal else text) + end for text in texts)

    return Renderer(render)


def in_parts(render_rows: Callable[[TopicPartition, RecordColumns], Output]) -> Callable[..., Output]:
    """Return the function that renders many records in parts."""

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        if len(columns) <= _ROWS:
            return render_rows(tp, columns)
        rows = range(0, len(columns), _ROWS)
        return b"".join(render_rows(tp, columns.take(slice(row, row + _ROWS))) for row in rows)

    return render


def field_columns(field: Field, tp: TopicPartition, columns: RecordColumns, style: TextStyle) -> Sequence[TextColumn]:
    """Return the columns that together are the text of a field for each record."""
    if field.name == "topic":
        return [Literal(tp.topic.encode())]
    if field.name == "partition":
        return [partition_column(tp, columns)]
    if field.name == "offset":
        return [decimal_column(columns.offsets)]
    if field.name == "timestamp":
        return [decimal_column(columns.timestamps_ms)]
    if field.name == "time":
        return [time_column(columns.timestamps_ms)]
    if field.name == "headers":
        return _last_header_columns(field, columns, style) if field.path else [_headers_column(columns, style)]
    if field.name in style.decoders and field.style in ("", "error"):
        return [_decoded_column(field, cast("DecodedColumns", columns), style)]
    return _payload_columns(field, columns, style)


def _decoded_column(field: Field, columns: DecodedColumns, style: TextStyle) -> Spans:
    """Return the text of a decoded key or value, of a part of it, or of its error."""
    if field.style == "error":
        errors = [None if error is None else error.encode() for error in columns.errors(field.name)]
        return _encoded(errors, style.safe, style.null)
    return _encoded(columns.texts(field.name, field.path), style.safe_for(field.name), style.null)


def _encoded(texts: Sequence[bytes | None], encode: Encode | None, null: bytes) -> Spans:
    """Return the bytes of each text, encoded, or the text for null."""
    if encode is None:
        return Spans.of_texts([null if text is None else text for text in texts])
    return Spans.of_texts([null if text is None else encode(text) for text in texts])


def partition_column(tp: TopicPartition, columns: RecordColumns) -> TextColumn:
    """Return the partition number of each record."""
    return Literal(b"%d" % tp.partition) if columns.partitions is None else decimal_column(columns.partitions)


def _payload_columns(field: Field, columns: RecordColumns, style: TextStyle) -> Sequence[TextColumn]:
    """Return the columns of a key, a value, or its length."""
    if field.style.startswith("length"):
        lengths = columns.key_lengths if field.name == "key" else columns.value_lengths
        return [big_endian_column(lengths) if field.style == "length32" else decimal_column(lengths)]
    data, is_null = payload_spans(field.name, columns)
    safe = style.safe_for(field.name)
    if field.style == "hex":
        data = hex_column(data)
    elif field.style == "base64":
        data = base64_column(data)
    elif safe is not None:
        data = Spans.of_texts([safe(text) for text in data.texts()])
    return _with_nulls(data, is_null, style)


def payload_spans(side: str, columns: RecordColumns) -> tuple[Spans, NDArray[np.bool_]]:
    """Return all keys or values (`side`), and the mask of those that are null."""
    if side == "key":
        return Spans(columns.buffer, columns.key_starts, columns.key_lengths), columns.key_lengths < 0
    return Spans(columns.buffer, columns.value_starts, columns.value_lengths), columns.value_lengths < 0


def _with_nulls(data: Spans, is_null: NDArray[np.bool_], style: TextStyle) -> Sequence[TextColumn]:
    """Return the columns of the texts; the text for null where they are null."""
    if not style.null or not is_null.any():
        return [data]
    return [Choice([b"", style.null], is_null.astype(np.int8)), data]


def _last_header_columns(field: Field, columns: RecordColumns, style: TextStyle) -> Sequence[TextColumn]:
    """Return the value of the last header that has the name. A record without such a header gets null."""
    table = header_table(columns)
    rows = np.flatnonzero(table.names.equal(str(field.path[0]).encode("utf-8", "surrogateescape")))
    last: Ints = np.full(len(columns), -1)
    last[table.records[rows]] = rows  # of several rows for one record, the last one is assigned last
    is_null = last < 0
    lengths = np.where(table.is_null, -1, table.values.lengths)
    if len(lengths):
        is_null |= lengths[last] < 0
        values = Spans(table.values.source, table.values.starts[last], np.where(is_null, -1, lengths[last]))
    else:
        values = Spans(b"", last, last)
    if style.safe is not None:
        values = Spans.of_texts([style.safe(text) for text in values.texts()])
    return _with_nulls(values, is_null, style)


def _headers_column(columns: RecordColumns, style: TextStyle) -> TextColumn:
    """Return `a=1,b=2` for each record; a null value is the text for null, by default NULL as in kcat."""
    if not columns.header_counts.any():
        return Literal(b"")
    table = header_table(columns)
    null = Choice([b"", style.null or b"NULL"], table.is_null.astype(np.int8))
    texts = table.join([table.names, Literal(b"="), null, table.values, Literal(b",")], separator=1)
    return texts if style.safe is None else Spans.of_texts([style.safe(text) for text in texts.texts()])

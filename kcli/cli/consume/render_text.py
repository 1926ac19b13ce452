"""Renderer of raw values and formats. The hot path of a bulk read.

A format becomes columns of texts, which are joined row by row: see `text_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kcli.cli.consume.format import Field, FormatPart
from kcli.cli.consume.header_table import header_table
from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Output, Renderer
from kcli.cli.consume.text_columns import (
    Choice,
    Literal,
    Spans,
    TextColumn,
    base64_column,
    big_endian_column,
    decimal_column,
    hex_column,
    join_columns,
    time_column,
)
from kcli.cli.output.escapes import highlighted_bytes, visible_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.cli.consume.text_columns import Ints
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

_ROWS = 65_536
"""Records that are rendered at a time, to bound memory."""

Encode = Callable[[bytes], bytes]
ColumnsOf: TypeAlias = "Callable[[Field, TopicPartition, RecordColumns], Sequence[TextColumn]]"


class TextStyle(NamedTuple):
    """The text for null, and the function that escapes bytes for a terminal (None: unchanged).

    `safe_fields` has the functions for fields whose matches are highlighted.
    """

    null: bytes = b""
    safe: Encode | None = None
    safe_fields: Mapping[str, Encode] = {}


def text_style(null: str | None, *, terminal: bool, highlights: Highlights) -> TextStyle:
    """Return the style of the options."""
    safe_fields = {name: partial(highlighted_bytes, pattern=pattern) for name, pattern in highlights.items()}
    null_text = (null or "").encode("utf-8", "surrogateescape")
    return TextStyle(null_text, visible_bytes if terminal else None, safe_fields)


def text_renderer(
    parts: Sequence[FormatPart],
    *,
    null: str | None = None,
    terminal: bool = False,
    highlights: Highlights = NO_HIGHLIGHTS,
) -> Renderer:
    """Return a renderer of `parts`. `null`: the text for null keys and values. `terminal`: escape control bytes."""
    style = text_style(null, terminal=terminal, highlights=highlights)
    return format_renderer(parts, partial(field_columns, style=style))


def format_renderer(parts: Sequence[FormatPart], columns_of: ColumnsOf) -> Renderer:
    """Return a renderer of `parts`; `columns_of` returns the columns that together are the text of a field."""

    def render_rows(tp: TopicPartition, columns: RecordColumns) -> Output:
        texts: list[TextColumn] = []
        for part in parts:
            texts += [Literal(part)] if isinstance(part, bytes) else columns_of(part, tp, columns)
        return join_columns(texts, len(columns)).data

    return Renderer(in_parts(render_rows))


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
    return _payload_columns(field, columns, style)


def partition_column(tp: TopicPartition, columns: RecordColumns) -> TextColumn:
    """Return the partition number of each record."""
    return Literal(b"%d" % tp.partition) if columns.partitions is None else decimal_column(columns.partitions)


def _payload_columns(field: Field, columns: RecordColumns, style: TextStyle) -> Sequence[TextColumn]:
    """Return the columns of a key, a value, or its length."""
    if field.style.startswith("length"):
        lengths = columns.key_lengths if field.name == "key" else columns.value_lengths
        return [big_endian_column(lengths) if field.style == "length32" else decimal_column(lengths)]
    data, is_null = payload_spans(field.name, columns)
    safe = style.safe_fields.get(field.name, style.safe)
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


def encoded(texts: Sequence[bytes | None], encode: Encode | None, null: bytes) -> Spans:
    """Return the bytes of each text, encoded, or the text for null."""
    if encode is None:
        return Spans.of_texts([null if text is None else text for text in texts])
    return Spans.of_texts([null if text is None else encode(text) for text in texts])


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

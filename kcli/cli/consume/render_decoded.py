"""Renderers of decoded records, in all formats of output, and of chosen columns and the results of --select.

In JSON a decoded key or value is nested as it is. If it does not decode, it is null, with its bytes and the error. The
bytes of a value that decodes to null are there, too, because a null of Kafka is something else: a tombstone.

    "value": null, "value_raw": "AAE=", "value_raw_encoding": "base64", "value_error": "avro: the data ends at byte 2"
    "value": null, "value_raw": "null"

In all other formats a decoded text is printed as text and all else as JSON on one line; a value that does not decode is
printed as its bytes. csv and tsv have columns for errors, and a table has one: ERROR. In csv and tsv the encoding of a
value that is printed as JSON is "json".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kcli.cli.consume.decoded_columns import DecodedColumns, plain_text
from kcli.cli.consume.render_structured import (
    FIELDS,
    HEADINGS,
    JSON,
    NULL,
    UTF_8,
    Separated,
    Side,
    flat_cells,
    json_member,
    json_renderer,
    objects_with,
    separated_renderer,
    shown_rows,
    table_renderer,
)
from kcli.cli.consume.render_text import (
    Field,
    FormatPart,
    TextStyle,
    encoded,
    field_columns,
    format_renderer,
    payload_spans,
    text_style,
)
from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Renderer
from kcli.cli.consume.text_columns import Literal, Spans, TextColumn, joined_spans
from kcli.cli.output.escapes import visible_bytes
from kcli.schemas.serdes import DecodeError

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

_SIDES = ("key", "value")
_STRUCTURED = (dict, list, tuple, int, float, type(None))
_WITH_BYTES = {DecodeError, type(None)}


# JSON


def decoded_json_renderer(*, lines: bool, terminal: bool) -> Renderer:
    """Return the renderer of `--output jsonl` or `json` for decoded records, or for the results of --select."""

    def objects_of(tp: TopicPartition, columns: RecordColumns) -> tuple[Sequence[TextColumn], int]:
        assert isinstance(columns, DecodedColumns)
        if columns.selected is None and columns.lines is None:
            return decoded_json_objects(tp, columns), len(columns)
        texts = columns.lines if columns.selected is None else list(chain.from_iterable(columns.selected))
        assert texts is not None
        return [Spans.of_texts([text.encode() for text in texts])], len(texts)

    return json_renderer(lines=lines, terminal=terminal, objects_of=objects_of)


def decoded_json_objects(tp: TopicPartition, columns: DecodedColumns) -> Sequence[TextColumn]:
    """Return one JSON object per record, with nested keys and values."""
    return objects_with(tp, columns, *(_members(side, columns) for side in _SIDES))


def _members(side: str, columns: DecodedColumns) -> Sequence[TextColumn]:
    values = columns.decoded.get(side)
    payloads, is_null = payload_spans(side, columns)
    if values is None:
        return json_member(side, payloads, is_null)
    with_bytes = [row for row, value in enumerate(values) if type(value) in _WITH_BYTES]
    texts: list[TextColumn] = [
        Literal(f'"{side}": '.encode()),
        Spans.of_texts([text.encode() for text in columns.json_texts(side)]),
    ]
    return [*texts, _raw_members(side, columns, with_bytes)] if with_bytes else texts


def _raw_members(side: str, columns: DecodedColumns, rows: list[int]) -> Spans:
    """Return, for some rows, the members that follow a null: the bytes of the key or value, and the error."""
    some = columns.take(rows)
    payloads, is_null = payload_spans(side, some)
    raw = joined_spans([Literal(b", "), *json_member(f"{side}_raw", payloads, is_null)], len(rows)).texts()
    members = [b""] * len(columns)
    for row, text, absent, error in zip(rows, raw, is_null.tolist(), some.errors(side), strict=True):
        named = "" if error is None else f', "{side}_error": {json.dumps(error, ensure_ascii=False)}'
        members[row] = (b"" if absent else text) + named.encode()
    return Spans.of_texts(members)


# Raw values and formats


def decoded_text_renderer(
    parts: Sequence[FormatPart],
    *,
    null: str | None = None,
    terminal: bool = False,
    highlights: Highlights = NO_HIGHLIGHTS,
) -> Renderer:
    """Return the renderer of a format for decoded records. `null`: the text for null, and for a missing part."""
    style = text_style(null, terminal=terminal, highlights=highlights)

    def columns_of(field: Field, tp: TopicPartition, columns: RecordColumns) -> Sequence[TextColumn]:
        assert isinstance(columns, DecodedColumns)
        return _field_columns(field, tp, columns, style)

    return format_renderer(parts, columns_of)


def selected_text_renderer(end: bytes, *, terminal: bool = False) -> Renderer:
    """Return the renderer of raw output for the results of --select, each followed by `end`."""

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        assert isinstance(columns, DecodedColumns)
        assert columns.selected is not None
        texts = map(plain_text, chain.from_iterable(columns.selected))
        return b"".join((visible_bytes(text) if terminal else text) + end for text in texts)

    return Renderer(render)


def _field_columns(field: Field, tp: TopicPartition, columns: DecodedColumns, style: TextStyle) -> Sequence[TextColumn]:
    """Return the columns that together are the text of a field for each record."""
    if field.style == "error":
        errors = [None if error is None else error.encode() for error in columns.errors(field.name)]
        return [encoded(errors, style.safe, style.null)]
    if field.style == "" and field.name in columns.decoded:
        safe = style.safe_fields.get(field.name, style.safe)
        return [encoded(columns.texts(field.name, field.path), safe, style.null)]
    return field_columns(field, tp, columns, style)


# Tables


def decoded_separated_renderer(*, tabs: bool, terminal: bool = False) -> Renderer:
    """Return the renderer of `--output csv` or `tsv` for decoded records."""
    fields = (*FIELDS, "key_error", "value_error")

    def cells_of(form: Separated, tp: TopicPartition, columns: RecordColumns) -> list[Sequence[TextColumn]]:
        assert isinstance(columns, DecodedColumns)
        sides = {side: _decoded_side(side, columns) for side in columns.decoded}
        errors = [Spans.of_texts([(error or "").encode() for error in columns.errors(side)]) for side in _SIDES]
        return [*flat_cells(form, tp, columns, sides), *(form.cell(texts).columns for texts in errors)]

    return separated_renderer(tabs=tabs, terminal=terminal, fields=fields, cells_of=cells_of)


def _decoded_side(side: str, columns: DecodedColumns) -> Side:
    """Return the decoded keys or values as texts, with the encoding of each."""
    texts = columns.texts(side)
    encodings = [
        NULL if text is None else JSON if isinstance(value, _STRUCTURED) else UTF_8
        for text, value in zip(texts, columns.decoded[side], strict=True)
    ]
    return Side(Spans.of_texts([text or b"" for text in texts]), np.array(encodings, np.int8))


def decoded_table_renderer(highlights: Highlights = NO_HIGHLIGHTS) -> Renderer:
    """Return the renderer of `--output table` for decoded records."""

    def rows_of(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
        assert isinstance(columns, DecodedColumns)
        rows = shown_rows(tp, columns)
        for side in columns.decoded:
            column = HEADINGS.index(side.upper())
            for row, text in zip(rows, columns.texts(side), strict=True):
                row[column] = "-" if text is None else visible_bytes(text).decode()
        for row, *errors in zip(rows, *map(columns.errors, _SIDES), strict=True):
            named = [f"{side}: {error}" for side, error in zip(_SIDES, errors, strict=True) if error is not None]
            row.append(visible_bytes("; ".join(named).encode()).decode() or "-")
        return rows

    return table_renderer(highlights, headings=(*HEADINGS, "ERROR"), rows_of=rows_of)


def chosen_columns_renderer(
    output: str, fields: dict[str, Field], *, terminal: bool = False, highlights: Highlights = NO_HIGHLIGHTS
) -> Renderer:
    """Return the renderer of `--columns` for csv, tsv or table; `fields` by the name that the user has given."""
    is_table = output == "table"
    style = TextStyle(b"-", visible_bytes) if is_table else TextStyle()

    def texts_of(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
        """Return the texts of each field."""
        assert isinstance(columns, DecodedColumns)
        cells = [_field_columns(field, tp, columns, style) for field in fields.values()]
        texts = [joined_spans(cell, len(columns)).texts() for cell in cells]
        return [[text.decode("utf-8", "backslashreplace") for text in field] for field in texts]

    def rows_of(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
        return [list(row) for row in zip(*texts_of(tp, columns), strict=True)]

    def cells_of(form: Separated, tp: TopicPartition, columns: RecordColumns) -> list[Sequence[TextColumn]]:
        texts = texts_of(tp, columns)
        return [form.cell(Spans.of_texts([text.encode() for text in field])).columns for field in texts]

    if is_table:
        headings = [name.upper() if name.isalpha() else name for name in fields]
        return table_renderer(highlights, headings=headings, rows_of=rows_of)
    return separated_renderer(tabs=output == "tsv", terminal=terminal, fields=list(fields), cells_of=cells_of)

"""Renderers of JSON, csv, tsv and table.

JSON is one object per line, or one versioned document, safe for any bytes:

    {"topic": "orders", "partition": 0, "offset": 12, "timestamp": 1700000000000, "timestamp_type": "create",
     "key": "k", "value": "/w==", "value_encoding": "base64", "headers": [{"name": "h", "value": null}]}

UTF-8 bytes are text; other bytes are base64, with a field that says so (`key_encoding`, `value_encoding`; in a header
`value_encoding`). A null is null, an empty key or value "". `timestamp` is in ms since the epoch, and `timestamp_type`
is "create" (set by the producer) or "append" (by the broker); both are null for records without a timestamp.

The document is `{"kcli": 1, "kind": "consume.topic", "items": [records], "coverage": [one object per partition]}`. If
the read failed as a whole, it has `error` too, with code and message.

The others have one row per record, and are written batch by batch, for reads that follow. In a table, a null key, value
or header is `-`, the sign for what is missing in all tables of kcli, and so are absent headers. csv and tsv have
`key_encoding` and `value_encoding` columns: utf-8, base64, or null. Headers are one field of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kcli.cli.consume.render_text import in_parts, partition_column, payload_spans
from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Output, Renderer
from kcli.cli.consume.text_columns import (
    Literal,
    Spans,
    TextColumn,
    choice,
    decimal_column,
    escaped_texts,
    header_table,
    join_columns,
    joined_spans,
    time_column,
)
from kcli.cli.output.escapes import highlighted_bytes, visible_bytes
from kcli.cli.output.report import display_width
from kcli.text import format_timestamp
from kcli.visible import visible, visible_json

if TYPE_CHECKING:
    import re

    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

    CellsOf = Callable[["Separated", TopicPartition, RecordColumns], list[Sequence[TextColumn]]]
    RowsOf = Callable[[TopicPartition, RecordColumns], list[list[str]]]


VERSION = 1

ObjectsOf = Callable[["TopicPartition", "RecordColumns"], tuple[Sequence[TextColumn], int]]


def json_renderer(*, lines: bool, terminal: bool = False, objects_of: ObjectsOf | None = None) -> Renderer:
    """Return the renderer of `--output jsonl` (`lines`) or `json`. `terminal`: escape all control characters.

    `objects_of` returns the JSON texts to print for some records, and their number; by default one object for each.
    """
    make_objects = objects_of or json_objects
    between = b"\n" if lines else b",\n"
    first = True

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        nonlocal first
        objects, count = make_objects(tp, columns)
        if lines:
            text = join_columns([*objects, Literal(between)], count)
        else:
            text = join_columns([Literal(between), *objects], count)[len(between) if first else 0 :]
        first = first and not count
        return visible_json(text.tobytes().decode()).encode() if terminal else text.data

    def end(coverage: Sequence[dict[str, Any]], error: dict[str, Any] | None = None) -> bytes:
        fields = {"coverage": coverage} if error is None else {"coverage": coverage, "error": error}
        text = json.dumps(fields, ensure_ascii=False).removeprefix("{")
        return f"\n],\n{visible_json(text) if terminal else text}\n".encode()

    if lines:
        return Renderer(in_parts(render))
    begin = f'{{"kcli": {VERSION}, "kind": "consume.topic", "items": [\n'.encode()
    return Renderer(in_parts(render), begin, end, end)


def json_objects(tp: TopicPartition, columns: RecordColumns) -> tuple[Sequence[TextColumn], int]:
    """Return one JSON object per record, and their number."""
    members = (json_member(side, *payload_spans(side, columns)) for side in ("key", "value"))
    return objects_with(tp, columns, *members), len(columns)


def objects_with(
    tp: TopicPartition, columns: RecordColumns, key: Sequence[TextColumn], value: Sequence[TextColumn]
) -> Sequence[TextColumn]:
    """Return one JSON object per record, with the given members for its key and value."""
    return [
        Literal(f'{{"topic": {json.dumps(tp.topic, ensure_ascii=False)}, "partition": '.encode()),
        partition_column(tp, columns),
        Literal(b', "offset": '),
        decimal_column(columns.offsets),
        Literal(b', "timestamp": '),
        *_timestamp_columns(columns),
        Literal(b", "),
        *key,
        Literal(b", "),
        *value,
        Literal(b', "headers": ['),
        json_headers(columns),
        Literal(b"]}"),
    ]


def _timestamp_columns(columns: RecordColumns) -> Sequence[TextColumn]:
    has_none = columns.timestamp_types < 0
    timestamps = decimal_column(columns.timestamps_ms)
    types = [
        b', "timestamp_type": "create"',
        b', "timestamp_type": "append"',
        b'null, "timestamp_type": null',
    ]
    if has_none.any():
        timestamps = Spans(timestamps.source, timestamps.starts, np.where(has_none, 0, timestamps.lengths))
    return [timestamps, choice(types, np.where(has_none, 2, columns.timestamp_types))]


def json_member(name: str, data: Spans, is_null: NDArray[np.bool_]) -> Sequence[TextColumn]:
    """Return the columns of `"key": "text"` for each text, with its encoding where it is base64."""
    texts = escaped_texts(data, _ESCAPES)
    kinds = np.where(is_null, 1, 0) + 2 * texts.is_base64
    quoted, null = f'"{name}": "'.encode(), f'"{name}": null'.encode()
    encoding = f'", "{name}_encoding": "base64"'.encode()
    return [choice([quoted, null, quoted], kinds), *texts.columns, choice([b'"', b"", encoding], kinds)]


_ESCAPES = {code: json.dumps(chr(code))[1:-1].encode() for code in (*b'\\"', *range(0x20))}
"""The escapes of JSON; that of the backslash comes first, because the others contain it."""


def json_headers(columns: RecordColumns) -> TextColumn:
    """Return the objects of each record's headers, in order, without the brackets around them."""
    if not columns.header_counts.any():
        return Literal(b"")
    table = header_table(columns)
    texts: list[TextColumn] = [
        Literal(b'{"name": "'),
        *escaped_texts(table.names, _ESCAPES).columns,
        Literal(b'", '),
        *json_member("value", table.values, table.is_null),
        Literal(b"}, "),
    ]
    return table.join(texts, separator=2)


FIELDS = (
    "topic", "partition", "offset", "timestamp", "time", "timestamp_type",
    "key", "key_encoding", "value", "value_encoding", "headers",
)  # fmt: skip
HEADINGS = ("TOPIC", "PARTITION", "OFFSET", "TIME", "KEY", "VALUE", "HEADERS")
ENCODINGS = (b"utf-8", b"null", b"base64", b"json")
UTF_8, NULL, BASE64, JSON = range(len(ENCODINGS))
_ROWS = 2048


class Side(NamedTuple):
    """The texts of all keys or values, and their encoding as an index of `ENCODINGS` (base64 is found later)."""

    texts: Spans
    encodings: NDArray[Any]


class Separated(NamedTuple):
    """A format of rows with separated cells. `quotes`: cells with special characters are in quotes (RFC 4180)."""

    separator: bytes
    escapes: Mapping[int, bytes]
    quotes: bool
    terminal: bool

    def cell(self, data: Spans) -> EscapedCell:
        """Return the columns of one cell per row; texts that are not UTF-8 become base64."""
        texts = escaped_texts(data, self.escapes)
        shown = texts.texts
        has_quotes = shown.lengths > data.lengths
        if self.terminal:
            shown = Spans.of_texts([visible_bytes(text) for text in shown.texts()])
        columns = [shown, *texts.columns[1:]]
        if not self.quotes:
            return EscapedCell(columns, texts.is_base64)
        quote = choice([b"", b'"'], (has_quotes | _has_separators(shown, ~has_quotes)).astype(np.int8))
        return EscapedCell([quote, *columns, quote], texts.is_base64)

    def literal(self, text: str) -> Sequence[TextColumn]:
        """Return the columns of a cell that has the same text in all rows."""
        joined = join_columns(self.cell(Spans.of_texts([text.encode()])).columns, 1)
        return [Literal(joined.tobytes())]

    def rows(self, cells: Sequence[Sequence[TextColumn]], count: int) -> memoryview:
        """Return the rows of cells as lines."""
        columns: list[TextColumn] = []
        for cell in cells:
            columns += [*cell, Literal(self.separator)]
        return join_columns([*columns[:-1], Literal(b"\n")], count).data


class EscapedCell(NamedTuple):
    """The columns of a cell, and the mask of rows whose text is base64."""

    columns: Sequence[TextColumn]
    is_base64: NDArray[np.bool_]


_CSV_ESCAPES = {ord('"'): b'""'}
_TSV_ESCAPES = {ord("\\"): b"\\\\", ord("\t"): b"\\t", ord("\n"): b"\\n", ord("\r"): b"\\r"}


def _has_separators(texts: Spans, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of the rows `asked` for contain a comma or a line break, and so need quotes in csv."""
    mask: NDArray[np.bool_] = np.zeros(len(asked), np.bool_)
    if asked.any():
        joined = joined_spans([texts.where(asked)], len(asked))
        data = joined.source
        places = np.flatnonzero((data == ord(",")) | (data == ord("\n")) | (data == ord("\r")))
        mask[np.searchsorted(joined.starts + joined.lengths, places, side="right")] = True
    return mask


def separated_renderer(
    *, tabs: bool, terminal: bool = False, fields: Sequence[str] = FIELDS, cells_of: CellsOf | None = None
) -> Renderer:
    """Return the renderer of `--output csv` (RFC 4180, plain newlines) or tsv (`\\t`, `\\n`, `\\r`, `\\\\` escaped).

    `fields` are the names in the first line, and `cells_of` returns the cells of some records under them.
    """
    make_cells = cells_of or flat_cells
    form = Separated(b"\t", _TSV_ESCAPES, False, terminal) if tabs else Separated(b",", _CSV_ESCAPES, True, terminal)

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        return form.rows(make_cells(form, tp, columns), len(columns))

    return Renderer(in_parts(render), bytes(form.rows([form.literal(name) for name in fields], 1)))


def flat_cells(
    form: Separated, tp: TopicPartition, columns: RecordColumns, sides: Mapping[str, Side] | None = None
) -> list[Sequence[TextColumn]]:
    """Return the cells of each record for csv and tsv, in the order of `FIELDS`.

    `sides` has the keys or values to print instead of the records' own bytes.
    """
    given = sides or {}
    return [
        form.literal(tp.topic),
        [partition_column(tp, columns)],
        [decimal_column(columns.offsets)],
        *_time_cells(columns),
        *_side_cells(form, given.get("key") or _side("key", columns)),
        *_side_cells(form, given.get("value") or _side("value", columns)),
        _headers_cell(form, columns),
    ]


def _time_cells(columns: RecordColumns) -> Sequence[Sequence[TextColumn]]:
    """Return the cells of the timestamp, its time, and its type; empty for records without one."""
    has_time = columns.timestamp_types >= 0
    timestamps = decimal_column(columns.timestamps_ms).where(has_time)
    times = time_column(columns.timestamps_ms).where(has_time)
    return [timestamps], [times], [choice([b"", b"create", b"append"], columns.timestamp_types + 1)]


def _side(side: str, columns: RecordColumns) -> Side:
    texts, is_null = payload_spans(side, columns)
    return Side(texts, np.where(is_null, NULL, UTF_8))


def _side_cells(form: Separated, side: Side) -> Sequence[Sequence[TextColumn]]:
    cell = form.cell(side.texts)
    return cell.columns, [choice(ENCODINGS, np.where(cell.is_base64, BASE64, side.encodings))]


def _headers_cell(form: Separated, columns: RecordColumns) -> Sequence[TextColumn]:
    """Return the JSON of each record's headers; empty for a record without headers."""
    has_headers = columns.header_counts > 0
    if not has_headers.any():
        return [Literal(b"")]
    opened, closed = (choice([b"", bracket], has_headers.astype(np.int8)) for bracket in (b"[", b"]"))
    return form.cell(joined_spans([opened, json_headers(columns), closed], len(columns))).columns


def table_renderer(
    highlights: Highlights = NO_HIGHLIGHTS, *, headings: Sequence[str] = HEADINGS, rows_of: RowsOf | None = None
) -> Renderer:
    """Return the renderer of `--output table`: columns have the width of the first batch, and widen for wider rows.

    Control characters are always escaped: a line break would break the table. `rows_of` returns the texts of some
    records under `headings`.
    """
    make_rows = rows_of or shown_rows
    highlighted = [
        (headings.index(name.upper()), highlight) for name, highlight in highlights.items() if name.upper() in headings
    ]
    widths = [display_width(heading) for heading in headings]
    started = False

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        nonlocal started
        lines = []
        for start in range(0, len(columns), _ROWS):
            rows = make_rows(tp, columns.take(slice(start, start + _ROWS)))
            for row in rows:
                widths[:] = map(max, widths, map(display_width, row))
            lines += [] if started else [_line(list(headings), widths, ())]
            lines += [_line(row, widths, highlighted) for row in rows]
            started = True
        return "".join(lines).encode()

    def end(coverage: object) -> bytes:
        return b"" if started else "  ".join(headings).encode() + b"\n"

    return Renderer(render, end=end)


def _line(row: list[str], widths: list[int], highlighted: Sequence[tuple[int, re.Pattern[bytes]]]) -> str:
    spaces = [" " * (width - display_width(text)) for text, width in zip(row, widths, strict=True)]
    for column, pattern in highlighted:
        row[column] = highlighted_bytes(row[column].encode(), pattern).decode()
    return "  ".join(map(str.__add__, row, spaces)).rstrip() + "\n"


def shown_rows(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
    """Return the texts of each record for a table, in the order of `HEADINGS`."""
    rows = []
    for partition, record in zip(columns.partition_numbers(tp.partition), columns, strict=True):
        headers = ",".join(f"{visible(name)}={_shown(value)}" for name, value in record.headers) or "-"
        time = format_timestamp(record.timestamp_ms) or "-"
        offset = str(record.offset)
        rows.append([tp.topic, str(partition), offset, time, _shown(record.key), _shown(record.value), headers])
    return rows


def _shown(data: bytes | None) -> str:
    return "-" if data is None else visible_bytes(data).decode()

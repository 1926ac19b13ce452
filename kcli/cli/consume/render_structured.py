"""Renderers of JSON, csv, tsv and table, for records and decoded records, whole or by chosen columns.

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

In JSON a decoded key or value is nested as it is. If it does not decode, it is null, with its bytes and the error. The
bytes of a value that decodes to null are there, too, because a null of Kafka is something else: a tombstone.

    "value": null, "value_raw": "AAE=", "value_raw_encoding": "base64", "value_error": "avro: the data ends at byte 2"
    "value": null, "value_raw": "null"

In the others a decoded text is printed as text and all else as JSON on one line; a value that does not decode is
printed as its bytes. csv and tsv have columns for errors, and a table has one: ERROR. In csv and tsv the encoding of a
value that is printed as JSON is "json". `decoders` are the sides (key, value) that are decoded in records that are
`DecodedColumns`; None: they are not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kcli.cli.consume.render_text import Field, TextStyle, field_columns, in_parts, partition_column, payload_spans
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
from kcli.cli.options import SIDES
from kcli.cli.output.escapes import highlighted_bytes, visible_bytes
from kcli.cli.output.report import display_width
from kcli.text import format_timestamp
from kcli.visible import visible, visible_json

if TYPE_CHECKING:
    import re

    from numpy.typing import NDArray

    from kcli.cli.consume.decoded_columns import DecodedColumns
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

VERSION = 1


def json_renderer(*, lines: bool, terminal: bool = False, decoders: Collection[str] | None = None) -> Renderer:
    """Return the renderer of `--output jsonl` (`lines`) or `json`. `terminal`: escape all control characters."""
    between = b"\n" if lines else b",\n"
    first = True

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        nonlocal first
        objects, count = _json_texts(tp, columns, decoders)
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


def _json_texts(
    tp: TopicPartition, columns: RecordColumns, decoders: Collection[str] | None
) -> tuple[Sequence[TextColumn], int]:
    """Return the JSON texts to print for some records, and their number: those of --select, or one object for each."""
    texts = None if decoders is None else cast("DecodedColumns", columns).json_lines()
    if texts is None:
        return json_objects(tp, columns, decoders or ()), len(columns)
    return [Spans.of_texts([text.encode() for text in texts])], len(texts)


def json_objects(tp: TopicPartition, columns: RecordColumns, decoders: Collection[str] = ()) -> Sequence[TextColumn]:
    """Return one JSON object per record; a key or value with a decoder is nested."""
    key, value = (
        _decoded_member(side, cast("DecodedColumns", columns))
        if side in decoders
        else json_member(side, *payload_spans(side, columns))
        for side in SIDES
    )
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


def _decoded_member(side: str, columns: DecodedColumns) -> Sequence[TextColumn]:
    """Return the columns of `"value": {...}` for each record, after a null with the bytes and the error."""
    texts = Spans.of_texts([text.encode() for text in columns.json_texts(side)])
    member: list[TextColumn] = [Literal(f'"{side}": '.encode()), texts]
    rows = columns.rows_without_value(side)
    return [*member, _raw_members(side, columns, rows)] if rows else member


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
    *,
    tabs: bool,
    terminal: bool = False,
    decoders: Collection[str] | None = None,
    chosen: Mapping[str, Field] | None = None,
) -> Renderer:
    """Return the renderer of `--output csv` (RFC 4180, plain newlines) or tsv (`\\t`, `\\n`, `\\r`, `\\\\` escaped).

    `chosen` are the fields of --columns by the names that the user has given.
    """
    form = Separated(b"\t", _TSV_ESCAPES, False, terminal) if tabs else Separated(b",", _CSV_ESCAPES, True, terminal)
    style = TextStyle(decoders=decoders or ())
    names = FIELDS if decoders is None else (*FIELDS, *(f"{side}_error" for side in SIDES))

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        if chosen:
            texts = _chosen_texts(chosen, tp, columns, style)
            cells = [form.cell(Spans.of_texts([text.encode() for text in field])).columns for field in texts]
        else:
            cells = _flat_cells(form, tp, columns, decoders)
        return form.rows(cells, len(columns))

    return Renderer(in_parts(render), bytes(form.rows([form.literal(name) for name in chosen or names], 1)))


def _chosen_texts(
    chosen: Mapping[str, Field], tp: TopicPartition, columns: RecordColumns, style: TextStyle
) -> list[list[str]]:
    """Return the texts of each chosen field."""
    cells = [field_columns(field, tp, columns, style) for field in chosen.values()]
    texts = [joined_spans(cell, len(columns)).texts() for cell in cells]
    return [[text.decode("utf-8", "backslashreplace") for text in field] for field in texts]


def _flat_cells(
    form: Separated, tp: TopicPartition, columns: RecordColumns, decoders: Collection[str] | None
) -> list[Sequence[TextColumn]]:
    """Return the cells of each record for csv and tsv, in the order of `FIELDS`, and those of errors of decoding."""
    cells: list[Sequence[TextColumn]] = [
        form.literal(tp.topic),
        [partition_column(tp, columns)],
        [decimal_column(columns.offsets)],
        *_time_cells(columns),
    ]
    for side in SIDES:
        cells += _side_cells(form, side, columns, is_decoded=side in (decoders or ()))
    cells.append(_headers_cell(form, columns))
    if decoders is not None:
        for side in SIDES:
            errors = cast("DecodedColumns", columns).errors(side)
            cells.append(form.cell(Spans.of_texts([(error or "").encode() for error in errors])).columns)
    return cells


def _time_cells(columns: RecordColumns) -> Sequence[Sequence[TextColumn]]:
    """Return the cells of the timestamp, its time, and its type; empty for records without one."""
    has_time = columns.timestamp_types >= 0
    timestamps = decimal_column(columns.timestamps_ms).where(has_time)
    times = time_column(columns.timestamps_ms).where(has_time)
    return [timestamps], [times], [choice([b"", b"create", b"append"], columns.timestamp_types + 1)]


def _side_cells(
    form: Separated, side: str, columns: RecordColumns, *, is_decoded: bool
) -> Sequence[Sequence[TextColumn]]:
    """Return the cells of all keys or values, and of their encodings."""
    encodings: NDArray[Any]
    if is_decoded:
        records = cast("DecodedColumns", columns)
        texts = records.texts(side)
        encodings = np.where(records.is_structured(side), JSON, UTF_8)
        encodings[[text is None for text in texts]] = NULL
        cell = form.cell(Spans.of_texts([text or b"" for text in texts]))
    else:
        payloads, is_null = payload_spans(side, columns)
        encodings = np.where(is_null, NULL, UTF_8)
        cell = form.cell(payloads)
    return cell.columns, [choice(ENCODINGS, np.where(cell.is_base64, BASE64, encodings))]


def _headers_cell(form: Separated, columns: RecordColumns) -> Sequence[TextColumn]:
    """Return the JSON of each record's headers; empty for a record without headers."""
    has_headers = columns.header_counts > 0
    if not has_headers.any():
        return [Literal(b"")]
    opened, closed = (choice([b"", bracket], has_headers.astype(np.int8)) for bracket in (b"[", b"]"))
    return form.cell(joined_spans([opened, json_headers(columns), closed], len(columns))).columns


def table_renderer(
    highlights: Highlights = NO_HIGHLIGHTS,
    *,
    decoders: Collection[str] | None = None,
    chosen: Mapping[str, Field] | None = None,
) -> Renderer:
    """Return the renderer of `--output table`: columns have the width of the first batch, and widen for wider rows.

    Control characters are always escaped: a line break would break the table. `chosen` are the fields of --columns by
    the names that the user has given.
    """
    headings: Sequence[str] = HEADINGS if decoders is None else (*HEADINGS, "ERROR")
    style = TextStyle(b"-", visible_bytes, decoders=decoders or ())
    if chosen:
        headings = tuple(name.upper() if name.isalpha() else name for name in chosen)

    def rows_of(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
        if chosen:
            return [list(row) for row in zip(*_chosen_texts(chosen, tp, columns, style), strict=True)]
        return _shown_rows(tp, columns, decoders)

    highlighted = [
        (headings.index(name.upper()), highlight) for name, highlight in highlights.items() if name.upper() in headings
    ]
    widths = [display_width(heading) for heading in headings]
    started = False

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        nonlocal started
        lines = []
        for start in range(0, len(columns), _ROWS):
            rows = rows_of(tp, columns.take(slice(start, start + _ROWS)))
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


def _shown_rows(tp: TopicPartition, columns: RecordColumns, decoders: Collection[str] | None) -> list[list[str]]:
    """Return the texts of each record for a table, in the order of `HEADINGS`, and the errors of decoding."""
    rows = []
    for partition, record in zip(columns.partition_numbers(tp.partition), columns, strict=True):
        headers = ",".join(f"{visible(name)}={_shown(value)}" for name, value in record.headers) or "-"
        time = format_timestamp(record.timestamp_ms) or "-"
        offset = str(record.offset)
        rows.append([tp.topic, str(partition), offset, time, _shown(record.key), _shown(record.value), headers])
    if decoders is None:
        return rows
    records = cast("DecodedColumns", columns)
    for side in decoders:
        column = HEADINGS.index(side.upper())
        for row, text in zip(rows, records.texts(side), strict=True):
            row[column] = _shown(text)
    for row, *errors in zip(rows, *map(records.errors, SIDES), strict=True):
        named = [f"{side}: {error}" for side, error in zip(SIDES, errors, strict=True) if error is not None]
        row.append(visible("; ".join(named)) or "-")
    return rows


def _shown(data: bytes | None) -> str:
    return "-" if data is None else visible_bytes(data).decode()

"""Renderers of csv, tsv and table: one row per record, written batch by batch, for reads that follow.

In a table, a null key, value or header is `-`, the sign for what is missing in all tables of kcli, and so are absent
headers. csv and tsv have `key_encoding` and `value_encoding` columns: utf-8, base64, or null. Headers are one field of
JSON.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from kcli.cli.consume.render_json import header_objects, text_and_encoding
from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Renderer
from kcli.cli.output.escapes import highlighted_bytes, visible, visible_bytes
from kcli.cli.output.report import display_width
from kcli.text import format_timestamp

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

FIELDS = (
    "topic", "partition", "offset", "timestamp", "time", "timestamp_type",
    "key", "key_encoding", "value", "value_encoding", "headers",
)  # fmt: skip
HEADINGS = ("TOPIC", "PARTITION", "OFFSET", "TIME", "KEY", "VALUE", "HEADERS")
_ROWS = 2048
_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def separated_renderer(*, tabs: bool, terminal: bool = False) -> Renderer:
    """Return the renderer of `--output csv` (RFC 4180, plain newlines) or tsv (`\\t`, `\\n`, `\\r`, `\\\\` escaped)."""
    written = _tsv if tabs else _csv

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        parts = []
        for row in range(0, len(columns), _ROWS):
            rows = _flat_rows(tp, columns.take(slice(row, row + _ROWS)))
            if tabs:
                rows = [[text.translate(_TSV_ESCAPES) for text in texts] for texts in rows]
            if terminal:
                rows = [[visible(text) for text in texts] for texts in rows]
            parts.append(written(rows))
        return "".join(parts).encode()

    return Renderer(render, written([list(FIELDS)]).encode())


def _flat_rows(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
    rows = []
    for index, record in enumerate(columns):
        key, key_encoding = text_and_encoding(record.key)
        value, value_encoding = text_and_encoding(record.value)
        kind = columns.timestamp_type(index)
        headers = json.dumps(header_objects(columns, index), ensure_ascii=False) if record.headers else ""
        times = (
            [str(record.timestamp_ms), format_timestamp(record.timestamp_ms), kind] if kind != "none" else ["", "", ""]
        )
        row = [tp.topic, str(tp.partition), str(record.offset), *times]
        rows.append([*row, key or "", key_encoding, value or "", value_encoding, headers])
    return rows


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _tsv(rows: list[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def table_renderer(highlights: Highlights = NO_HIGHLIGHTS) -> Renderer:
    """Return the renderer of `--output table`: columns have the width of the first batch, and widen for wider rows.

    Control characters are always escaped: a line break would break the table.
    """
    widths = [len(heading) for heading in HEADINGS]
    started = False

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        nonlocal started
        lines = []
        for start in range(0, len(columns), _ROWS):
            rows = _shown_rows(tp, columns.take(slice(start, start + _ROWS)))
            for row in rows:
                widths[:] = map(max, widths, map(display_width, row))
            lines += [] if started else [_line(list(HEADINGS), widths, NO_HIGHLIGHTS)]
            lines += [_line(row, widths, highlights) for row in rows]
            started = True
        return "".join(lines).encode()

    def end(coverage: object) -> bytes:
        return b"" if started else "  ".join(HEADINGS).encode() + b"\n"

    return Renderer(render, end=end)


def _line(row: list[str], widths: list[int], highlights: Highlights) -> str:
    spaces = [" " * (width - display_width(text)) for text, width in zip(row, widths, strict=True)]
    for name, pattern in highlights.items():
        column = HEADINGS.index(name.upper())
        row[column] = highlighted_bytes(row[column].encode(), pattern).decode()
    return "  ".join(map(str.__add__, row, spaces)).rstrip() + "\n"


def _shown_rows(tp: TopicPartition, columns: RecordColumns) -> list[list[str]]:
    rows = []
    for record in columns:
        headers = ",".join(f"{visible(name)}={_shown(value)}" for name, value in record.headers) or "-"
        time = format_timestamp(record.timestamp_ms) or "-"
        offset = str(record.offset)
        rows.append([tp.topic, str(tp.partition), offset, time, _shown(record.key), _shown(record.value), headers])
    return rows


def _shown(data: bytes | None) -> str:
    return "-" if data is None else visible_bytes(data).decode()

"""Renderer of JSON: one object per line, or one versioned document. Safe for any bytes.

    {"topic": "orders", "partition": 0, "offset": 12, "timestamp": 1700000000000, "timestamp_type": "create",
     "key": "k", "value": "/w==", "value_encoding": "base64", "headers": [{"name": "h", "value": null}]}

UTF-8 bytes are text; other bytes are base64, with a field that says so (`key_encoding`, `value_encoding`; in a header
`value_encoding`). A null is null, an empty key or value "". `timestamp` is in ms since the epoch, and `timestamp_type`
is "create" (set by the producer) or "append" (by the broker); both are null for records without a timestamp.

The document is `{"kcli": 1, "kind": "consume.topic", "items": [records], "coverage": [one object per partition]}`. If
the read failed as a whole, it has `error` too, with code and message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kcli.cli.consume.header_table import header_table
from kcli.cli.consume.render_text import in_parts, partition_column, payload_spans
from kcli.cli.consume.renderer import Output, Renderer
from kcli.cli.consume.text_columns import (
    Literal,
    Spans,
    TextColumn,
    choice,
    decimal_column,
    escaped_texts,
    join_columns,
)
from kcli.visible import visible_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

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

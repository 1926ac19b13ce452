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
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli.consume.renderer import Renderer
from kcli.cli.output.escapes import visible_json

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

VERSION = 1
_ROWS = 2048
_SEPARATOR, _ESCAPED_SEPARATOR = b"\x1e", "\\u001e"


def json_renderer(*, lines: bool, terminal: bool = False) -> Renderer:
    """Return the renderer of `--output jsonl` (`lines`) or `json`. `terminal`: escape all control characters."""
    between = "\n" if lines else ",\n"
    first = True

    def render(tp: TopicPartition, columns: RecordColumns) -> bytes:
        nonlocal first
        objects: list[str] = []
        for row in range(0, len(columns), _ROWS):
            objects += json_objects(tp, columns.take(slice(row, row + _ROWS)))
        text = between.join(objects)
        if lines:
            text += "\n" if objects else ""
        elif objects and not first:
            text = between + text
        first = first and not objects
        return (visible_json(text) if terminal else text).encode()

    def end(coverage: Sequence[dict[str, Any]], error: dict[str, Any] | None = None) -> bytes:
        fields = {"coverage": coverage} if error is None else {"coverage": coverage, "error": error}
        text = json.dumps(fields, ensure_ascii=False).removeprefix("{")
        return f"\n],\n{visible_json(text) if terminal else text}\n".encode()

    if lines:
        return Renderer(render)
    return Renderer(render, f'{{"kcli": {VERSION}, "kind": "consume.topic", "items": [\n'.encode(), end, end)


def json_objects(tp: TopicPartition, columns: RecordColumns) -> list[str]:
    """Return one JSON object per record."""
    prefix = f'{{"topic": {json.dumps(tp.topic)}, "partition": {tp.partition}, "offset": '
    keys, values = _json_members("key", columns.keys()), _json_members("value", columns.values())
    counts = columns.header_counts.tolist()
    return [
        f'{prefix}{offset}, {time}, {key}, {value}, "headers": {_headers(columns, row) if counts[row] else "[]"}}}'
        for row, (offset, time, key, value) in enumerate(
            zip(columns.offsets.tolist(), _times(columns), keys, values, strict=True)
        )
    ]


def _times(columns: RecordColumns) -> list[str]:
    types = {kind: f'"timestamp_type": "{name}"' for kind, name in ((0, "create"), (1, "append"))}
    nothing = '"timestamp": null, "timestamp_type": null'
    return [
        f'"timestamp": {ms}, {types[kind]}' if kind in types else nothing
        for ms, kind in zip(columns.timestamps_ms.tolist(), columns.timestamp_types.tolist(), strict=True)
    ]


def _json_members(name: str, values: list[bytes | None]) -> list[str]:
    """Return `"key": "text"` for each value, with its encoding where it is not text.

    All values are decoded and escaped together, joined with a separator that none contains; if one contains it, or is
    not UTF-8, each value is converted by itself.
    """
    try:
        text = _SEPARATOR.join([b"" if item is None else item for item in values]).decode()
    except UnicodeDecodeError:
        return [_json_member(name, item) for item in values]
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].split(_ESCAPED_SEPARATOR)
    if len(escaped) != len(values):
        return [_json_member(name, item) for item in values]
    return [
        f'"{name}": null' if item is None else f'"{name}": "{text}"' for item, text in zip(values, escaped, strict=True)
    ]


def _json_member(name: str, data: bytes | None) -> str:
    text, encoding = text_and_encoding(data)
    member = f'"{name}": {json.dumps(text, ensure_ascii=False)}'
    return f'{member}, "{name}_encoding": "{encoding}"' if encoding == "base64" else member


def _headers(columns: RecordColumns, row: int) -> str:
    return json.dumps(header_objects(columns, row), ensure_ascii=False)


def header_objects(columns: RecordColumns, row: int) -> list[dict[str, str | None]]:
    """Return the headers of one record as JSON-ready dicts, in order."""
    objects = []
    for name, value in columns.headers(row):
        text, encoding = text_and_encoding(value)
        header = {"name": name, "value": text}
        objects.append({**header, "value_encoding": encoding} if encoding == "base64" else header)
    return objects


def text_and_encoding(data: bytes | None) -> tuple[str | None, str]:
    """Return bytes as text, and the encoding: "utf-8" or "base64"; None and "null" for null."""
    if data is None:
        return None, "null"
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"

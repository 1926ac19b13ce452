r"""Records from segments of input: delimited bytes, or one JSON object per line. Pure.

The JSON is that of `kcli consume --output jsonl`:

    {"key": "k", "value": "/w==", "value_encoding": "base64", "timestamp": 1700000000000,
     "headers": [{"name": "h", "value": null}]}

All members are optional: no key, a null value, the time of sending, no headers. Text is sent as UTF-8, or decoded if
its `..._encoding` is "base64". The name of a header may be empty, because Kafka allows that and a copy must not lose
records. `topic`, `partition`, `offset` and `timestamp_type` are ignored; any other name is an error, because it is most
likely misspelled.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.cli.produce.feed import Parse, WriteTally
    from kcli.protocol.records.record import NewRecord

_IGNORED = {"topic", "partition", "offset", "timestamp_type"}
_USED = {"key", "key_encoding", "value", "value_encoding", "timestamp", "headers"}


class Shape(NamedTuple):
    """The conversion of a segment of input to a record.

    `key` is the key of all records. `key_delimiter` separates the key from the value at its first occurrence; a segment
    without it has no key. `empty_is_null`: empty keys and values are sent as null.
    """

    key: bytes | None = None
    key_delimiter: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    empty_is_null: bool = False


def raw_parser(shape: Shape, timestamp_ms: int | None) -> Parse:
    """Return a parser that makes each segment a record of this shape. `timestamp_ms` None: the time now."""
    return lambda segments, now_ms: records_of(segments, shape, now_ms if timestamp_ms is None else timestamp_ms)


def records_of(segments: Sequence[bytes], shape: Shape, timestamp_ms: int) -> list[NewRecord]:
    """Make one record of each segment."""
    from kcli.protocol.records.record import NewRecord

    if shape.key_delimiter is None and not shape.empty_is_null:
        return [NewRecord(shape.key, segment, timestamp_ms, shape.headers) for segment in segments]
    records = []
    for segment in segments:
        key, value = _key_and_value(segment, shape)
        if shape.empty_is_null:
            key, value = key or None, value or None
        records.append(NewRecord(key, value, timestamp_ms, shape.headers))
    return records


def _key_and_value(segment: bytes, shape: Shape) -> tuple[bytes | None, bytes | None]:
    if shape.key_delimiter is None:
        return shape.key, segment
    key, delimiter, value = segment.partition(shape.key_delimiter)
    return (key, value) if delimiter else (None, segment)


def jsonl_parser(headers: Sequence[tuple[str, bytes | None]], timestamp_ms: int | None, tally: WriteTally) -> Parse:
    """Return a parser of JSON lines that adds `headers` to each record and counts invalid lines in `tally`."""
    line_number = 0

    def parse(segments: Sequence[bytes], now_ms: int) -> list[NewRecord]:
        nonlocal line_number
        records = []
        for segment in segments:
            line_number += 1
            if not segment.strip():
                continue
            try:
                record = record_of_json(segment, now_ms)
            except ValueError as problem:
                tally.read += 1
                tally.fail(KcliError(f"line {line_number} is not a record in JSON: {problem}"), kind="not JSON")
                continue
            if timestamp_ms is not None:
                record = record._replace(timestamp_ms=timestamp_ms)
            records.append(record._replace(headers=[*record.headers, *headers]) if headers else record)
        return records

    return parse


def record_of_json(line: bytes, now_ms: int) -> NewRecord:
    """Return the record of one JSON line. ValueError names its fault."""
    from kcli.protocol.records.record import NewRecord

    try:
        members = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(members, dict):
        raise ValueError("not an object")
    for name in members.keys() - _IGNORED - _USED:
        raise ValueError(f'"{name}" is not a member of a record')
    return NewRecord(
        _bytes(members, "key"),
        _bytes(members, "value"),
        _timestamp(members.get("timestamp"), now_ms),
        _headers(members),
    )


def _bytes(members: dict[str, Any], name: str) -> bytes | None:
    text = members.get(name)
    encoding = members.get(f"{name}_encoding", "utf-8")
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f'"{name}" is neither a string nor null')
    if encoding == "base64":
        try:
            return b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f'"{name}" is not base64') from None
    if encoding != "utf-8":
        raise ValueError(f'"{name}_encoding" is neither "base64" nor "utf-8"')
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f'"{name}" contains half of a surrogate pair') from None


def _timestamp(value: Any, now_ms: int) -> int:
    if value is None:
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 1 << 63:
        raise ValueError('"timestamp" is not a number of milliseconds')
    return value


def _headers(members: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    headers = members.get("headers") or []
    if not isinstance(headers, list):
        raise ValueError('"headers" is not a list')
    return [_header(header) for header in headers]


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("name"), str):
        raise ValueError('a header is not an object with a "name"')
    for name in header.keys() - {"name", "value", "value_encoding"}:
        raise ValueError(f'"{name}" is not a member of a header')
    return header["name"], _bytes(header, "value")

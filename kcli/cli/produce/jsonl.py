"""Records as JSON, one object per line, in the shape that `kcli consume --output jsonl` writes. Pure.

    {"key": "k", "value": "/w==", "value_encoding": "base64", "timestamp": 1700000000000,
     "headers": [{"name": "h", "value": null}]}

All members may be left out: no key, a null value, the time of sending, no headers. Text is sent as UTF-8, or decoded
where the `..._encoding` beside it is "base64". `topic`, `partition`, `offset` and `timestamp_type`, which tell where a
record was read, are ignored; any other name is an error, since it is most likely a mistyped one.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.protocol.records.record import NewRecord

_IGNORED = {"topic", "partition", "offset", "timestamp_type"}
_USED = {"key", "key_encoding", "value", "value_encoding", "timestamp", "headers"}


def record_of(line: bytes, now_ms: int) -> NewRecord:
    """The record of one line. ValueError says what is wrong with it."""
    from kcli.protocol.records.record import NewRecord

    try:
        found = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(getattr(error, "msg", "nested too deeply")) from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    for name in found.keys() - _IGNORED - _USED:
        raise ValueError(f'"{name}" is not a member of a record')
    return NewRecord(
        _bytes(found, "key"), _bytes(found, "value"), _timestamp(found.get("timestamp"), now_ms), _headers(found)
    )


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    text = found.get(name)
    encoding = found.get(f"{name}_encoding", "utf-8")
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
        raise ValueError(f'"{name}" has half of a surrogate pair') from None


def _timestamp(value: Any, now_ms: int) -> int:
    if value is None:
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 1 << 63:
        raise ValueError('"timestamp" is not a number of milliseconds')
    return value


def _headers(found: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    headers = found.get("headers") or []
    if not isinstance(headers, list):
        raise ValueError('"headers" is not a list')
    return [_header(header) for header in headers]


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("name"), str):
        raise ValueError('a header is not an object with a "name"')
    for name in header.keys() - {"name", "value", "value_encoding"}:
        raise ValueError(f'"{name}" is not a member of a header')
    return header["name"], _bytes(header, "value")

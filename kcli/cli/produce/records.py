r"""Records from segments of input: delimited bytes, or one JSON object per line. Pure.

The JSON is that of `kcli consume --output jsonl`:

    {"key": "k", "value": "/w==", "value_encoding": "base64", "timestamp": 1700000000000,
     "headers": [{"name": "h", "value": null}]}

All members are optional: no key, a null value, the time of sending, no headers. Text is sent as UTF-8, or decoded if
its `..._encoding` is "base64". The name of a header may be empty, because Kafka allows that and a copy must not lose
records. `topic`, `partition`, `offset` and `timestamp_type` are ignored; any other name is an error, because it is most
likely misspelled. With `encoding`, keys and values are JSON values; for a null with bytes in `key_raw` or `value_raw`,
which did not decode or decoded to null, these bytes are sent.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.cli.produce.feed import ParsingEnded
from kcli.errors import KcliError
from kcli.protocol.records.record import NewRecords

if TYPE_CHECKING:
    from kcli.cli.produce.encoding import Encoding
    from kcli.cli.produce.feed import Parse, WriteTally
    from kcli.protocol.records.record import Headers
    from kcli.schemas.serdes import Side

_IGNORED = {"topic", "partition", "offset", "timestamp_type", "key_error", "value_error"}
_OF_SIDES = {f"{side}{member}" for side in ("key", "value") for member in ("", "_encoding", "_raw", "_raw_encoding")}
_USED = {*_OF_SIDES, "timestamp", "headers"}

# Lines parsed at once: enough to make the calls cheap; the objects of more lines leave the cache of the processor.
_LINES_AT_ONCE = 100
# An element between the lines that are parsed at once, spelled and equal to no other value: 2**53 + 1 is no double.
_BETWEEN = 2**53 + 1
_SEPARATOR = b",%d," % _BETWEEN


class Shape(NamedTuple):
    """The conversion of a segment of input to a record.

    `key` is the key of all records. `key_delimiter` separates the key from the value at its first occurrence; a segment
    without it has no key. `empty_is_null`: empty keys and values are sent as null.
    """

    key: bytes | None = None
    key_delimiter: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    empty_is_null: bool = False


def raw_parser(
    shape: Shape, timestamp_ms: int | None, tally: WriteTally | None = None, encoding: Encoding | None = None
) -> Parse:
    """Return a parser that makes each segment a record of this shape. `timestamp_ms` None: the time now.

    `encoding` encodes keys and values, and counts those that it cannot encode in `tally`.
    """

    def parse(segments: Sequence[bytes], now_ms: int) -> NewRecords:
        return records_of(segments, shape, now_ms if timestamp_ms is None else timestamp_ms)

    if encoding is None:
        return parse
    assert tally is not None
    return _encoding_parser(parse, tally, encoding)


def _encoding_parser(parse: Parse, tally: WriteTally, encoding: Encoding) -> Parse:
    from kcli.schemas.serdes import EncodeError

    number = 0

    def parse_and_encode(segments: Sequence[bytes], now_ms: int) -> NewRecords:
        nonlocal number
        records = parse(segments, now_ms)
        encoded: list[tuple[bytes | None, bytes | None]] = []
        for key, value in zip(records.each_key(), records.values, strict=True):
            number += 1
            try:
                encoded.append((encoding.of_text("key", key), encoding.of_text("value", value)))
            except EncodeError as error:
                tally.read += 1
                tally.fail(EncodeError(f"record {number} of the input: {error.message}"), kind="not encoded")
            except KcliError as error:
                raise ParsingEnded(of_encoded(records, encoded), _placed(error, f"record {number}")) from None
        return of_encoded(records, encoded)

    def of_encoded(records: NewRecords, encoded: Sequence[tuple[bytes | None, bytes | None]]) -> NewRecords:
        keys = None if records.keys is None else [key for key, _ in encoded]
        same_headers = None if records.headers is None else records.headers[: len(encoded)]
        return NewRecords([value for _, value in encoded], records.timestamps_ms, keys, same_headers)

    return parse_and_encode


def _placed(error: KcliError, place: str) -> KcliError:
    """Return a copy of the error that names its place in the input."""
    placed = copy(error)
    placed.message = f"{place} of the input: {error.message}"
    placed.__cause__ = error.__cause__
    return placed


def records_of(segments: Sequence[bytes], shape: Shape, timestamp_ms: int) -> NewRecords:
    """Make one record of each segment."""
    keys: Sequence[bytes | None] | None = None
    values: Sequence[bytes | None] = segments
    if shape.key_delimiter is not None:
        keys, values = _split_at(shape.key_delimiter, segments)
    elif shape.key is not None:
        keys = [shape.key] * len(segments)
    if shape.empty_is_null:
        keys = None if keys is None else [key or None for key in keys]
        values = [value or None for value in values]
    return NewRecords(values, timestamp_ms, keys, [shape.headers] * len(segments) if shape.headers else None)


def _split_at(delimiter: bytes, segments: Sequence[bytes]) -> tuple[Sequence[bytes | None], Sequence[bytes]]:
    """Return the keys and values of segments. A segment without the delimiter has a null key."""
    keys, delimiters, values = zip(*[segment.partition(delimiter) for segment in segments], strict=True)
    if all(delimiters):
        return keys, values
    return (
        [key if found else None for key, found in zip(keys, delimiters, strict=True)],
        [value if found else key for key, found, value in zip(keys, delimiters, values, strict=True)],
    )


def jsonl_parser(
    headers: Headers, timestamp_ms: int | None, tally: WriteTally, encoding: Encoding | None = None
) -> Parse:
    """Return a parser of JSON lines that adds `headers` to each record and counts invalid lines in `tally`."""
    from kcli.schemas.serdes import EncodeError

    line_number = 0

    def parse(segments: Sequence[bytes], now_ms: int) -> NewRecords:
        parts: list[NewRecords] = []
        try:
            for first in range(0, len(segments), _LINES_AT_ONCE):
                parts += parse_block(segments[first : first + _LINES_AT_ONCE], now_ms)
        except ParsingEnded as ended:
            raise ParsingEnded(completed([*parts, ended.records]), ended.error) from None
        return completed(parts)

    def completed(parts: Sequence[NewRecords]) -> NewRecords:
        records = NewRecords.joined(parts)
        return NewRecords(
            records.values,
            records.timestamps_ms if timestamp_ms is None else timestamp_ms,
            records.keys,
            [[*own, *headers] for own in records.each_headers()] if headers else records.headers,
        )

    def parse_block(lines: Sequence[bytes], now_ms: int) -> list[NewRecords]:
        nonlocal line_number
        first_line, line_number = line_number + 1, line_number + len(lines)
        try:
            return [records_of_json(lines, now_ms, encoding)]
        except (KcliError, ValueError):  # a line is blank or invalid, or the registry cannot encode it
            parts: list[NewRecords] = []
            for number, line in enumerate(lines, first_line):
                try:
                    part = parse_line(line, number, now_ms)
                except KcliError as error:
                    raise ParsingEnded(NewRecords.joined(parts), _placed(error, f"line {number}")) from None
                parts += [] if part is None else [part]
            return parts

    def parse_line(line: bytes, number: int, now_ms: int) -> NewRecords | None:
        if not line.strip():
            return None
        try:
            return records_of_json([line], now_ms, encoding)
        except EncodeError as error:
            tally.fail(EncodeError(f"line {number}: {error.message}"), kind="not encoded")
        except ValueError as problem:
            tally.fail(KcliError(f"line {number} is not a record in JSON: {problem}"), kind="not JSON")
        tally.read += 1
        return None

    return parse


def records_of_json(lines: Sequence[bytes], now_ms: int, encoding: Encoding | None = None) -> NewRecords:
    """Return the records of JSON lines. Raise ValueError or EncodeError if a line is not a record.

    The error of a single line names its fault; that of many lines may be about any of them, or about a blank line.
    """
    objects = _objects(lines)
    if any(type(members) is not dict for members in objects):
        raise ValueError("not an object")
    names: set[str] = set().union(*objects)
    for name in names - _IGNORED - _USED:
        raise ValueError(f'"{name}" is not a member of a record')
    keys = _payloads(objects, names, "key", encoding)
    values = _payloads(objects, names, "value", encoding)
    keys_or_none = None if keys.count(None) == len(keys) else keys
    return NewRecords(values, _timestamps(objects, now_ms), keys_or_none, _headers_of(objects))


def _objects(lines: Sequence[bytes]) -> list[Any]:
    """Parse JSON lines.

    Many lines are parsed as the elements of one array, several times as fast as one by one. A line that is not one
    value could make other values with its neighbours, such as `{}, [` and `]`. Therefore `_BETWEEN` stands between the
    lines, which do not contain it: if it is each second element of the array, the others are the lines.
    """
    if len(lines) == 1:
        return [_parsed(lines[0])]
    text = _SEPARATOR.join(lines)
    elements = _parsed(f"[{text.decode()}]")
    if text.count(b"%d" % _BETWEEN) != len(lines) - 1 or elements[1::2] != [_BETWEEN] * (len(lines) - 1):
        raise ValueError("a line is not one value")
    return elements[::2]  # type: ignore[no-any-return]


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _payloads(
    objects: Sequence[dict[str, Any]], names: set[str], side: Side, encoding: Encoding | None
) -> list[bytes | None]:
    """Return the keys or values of records."""
    is_text = encoding is None or not encoding.encodes(side)
    if is_text and f"{side}_encoding" not in names and f"{side}_raw" not in names:
        with suppress(AttributeError, UnicodeEncodeError):  # `_payload` names the fault
            texts = [members.get(side) for members in objects]
            return [None if text is None else text.encode() for text in texts]
    return [_payload(members, side, encoding) for members in objects]


def _payload(members: dict[str, Any], side: Side, encoding: Encoding | None) -> bytes | None:
    raw = f"{side}_raw"
    if raw in members and members.get(side) is None:
        return _bytes(members, raw)
    if encoding is None or not encoding.encodes(side):
        if isinstance(members.get(side), dict | list | int | float):
            raise ValueError(f'"{side}" is neither a string nor null; use -s {side}=json to encode it')
        return _bytes(members, side)
    return encoding.of_json(side, members.get(side))


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
    return _utf_8(text, f'"{name}"')


def _utf_8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} contains half of a surrogate pair") from None


def _timestamps(objects: Sequence[dict[str, Any]], now_ms: int) -> int | list[int]:
    times: list[Any] = [members.get("timestamp") for members in objects]
    if times.count(None) == len(times):
        return now_ms
    if set(map(type, times)) == {int} and min(times) >= -1 and max(times) < 1 << 63:
        return times
    return [_timestamp(value, now_ms) for value in times]


def _timestamp(value: Any, now_ms: int) -> int:
    if value is None:
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 1 << 63:
        raise ValueError('"timestamp" is not a number of milliseconds')
    return value


def _headers_of(objects: Sequence[dict[str, Any]]) -> list[Headers] | None:
    """Return the headers of records; None if no record has any."""
    column = [members.get("headers") for members in objects]
    return [_headers(headers) if headers else () for headers in column] if any(column) else None


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    if not isinstance(headers, list):
        raise ValueError('"headers" is not a list')
    return [_header(header) for header in headers]


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("name"), str):
        raise ValueError('a header is not an object with a "name"')
    for name in header.keys() - {"name", "value", "value_encoding"}:
        raise ValueError(f'"{name}" is not a member of a header')
    _utf_8(header["name"], "the name of a header")
    return header["name"], _bytes(header, "value")

"""Records with decoded keys and values: columns as all others, with the values beside the bytes."""

from __future__ import annotations

import re
from itertools import chain
from json import JSONDecoder
from typing import TYPE_CHECKING, Any

import numpy as np

from kcli.protocol.records.columns import RecordColumns
from kcli.schemas.json_values import json_text, json_texts, member_name
from kcli.schemas.serdes import DecodeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

Path = tuple[str | int, ...]
"""The way to a part of a value: names of members and indices of lists."""


class DecodedColumns(RecordColumns):
    """Records whose keys, values or both are decoded. All lists have one element per record.

    `decoded` has the values by side ("key", "value"), a `DecodeError` where one does not decode; a side without a
    decoder is missing. `json_sides` are the sides whose bytes are JSON themselves: these are printed as they are, with
    all digits of their numbers. `selected` are the JSON texts that --select has made of each record; None without it.
    `lines` are the records as JSON, if an expression has needed them.
    """

    __slots__ = ("decoded", "json_sides", "lines", "selected")

    def __init__(
        self,
        columns: RecordColumns,
        decoded: dict[str, list[Any]],
        *,
        json_sides: Collection[str] = (),
        lines: list[str] | None = None,
        selected: list[list[str]] | None = None,
    ) -> None:
        for name in RecordColumns.__slots__:
            setattr(self, name, getattr(columns, name))
        self.decoded = decoded
        self.json_sides = json_sides
        self.lines = lines
        self.selected = selected

    def take(self, selection: slice | NDArray[Any] | list[int]) -> DecodedColumns:
        """Return the selected records, with their decoded values."""
        rows = np.arange(len(self))[selection].tolist()
        return DecodedColumns(
            super().take(selection),
            {side: [values[row] for row in rows] for side, values in self.decoded.items()},
            json_sides=self.json_sides,
            lines=None if self.lines is None else [self.lines[row] for row in rows],
            selected=None if self.selected is None else [self.selected[row] for row in rows],
        )

    def payloads(self, side: str) -> list[bytes | None]:
        """Return the bytes of all keys or values."""
        return self.keys() if side == "key" else self.values()

    def texts(self, side: str, path: Path = ()) -> list[bytes | None]:
        """Return each key or value, or its part at `path`, as text for people: JSON, without quotes around a text.

        A value that does not decode is its bytes. None is a null of Kafka, and a part that is null or does not exist.
        """
        values = self.decoded[side]
        if path:
            parts = [part_of(value, path) for value in values]
            texts = [_plain(part) for part in parts]
            if side in self.json_sides:
                payloads = self.payloads(side)
                for row, part in enumerate(parts):
                    if type(part) in _WITH_DIGITS:
                        texts[row] = _compact(_part_of_json((payloads[row] or b"").decode(), path).encode())
            return texts
        if side in self.json_sides:
            pairs = zip(values, self.payloads(side), strict=True)
            texts = [
                _plain(value) if type(value) in _NO_JSON else _one_line(payload, value) for value, payload in pairs
            ]
        else:
            texts = [_plain(value) for value in values]
        if None in texts:
            for row, payload in enumerate(self.payloads(side)):
                if texts[row] is None and payload is not None:
                    texts[row] = payload if isinstance(values[row], DecodeError) else b"null"
        return texts

    def json_texts(self, side: str) -> list[str]:
        """Return the JSON text of each key or value, on one line; null for one that does not decode."""
        values = self.decoded[side]
        if side in self.json_sides:
            pairs = zip(values, self.payloads(side), strict=True)
            return [_one_line(payload, value).decode() for value, payload in pairs]
        return json_texts([None if isinstance(value, DecodeError) else value for value in values])

    def json_lines(self) -> list[str] | None:
        """Return the JSON texts to print that --select or --where has made already; None if there are none."""
        return self.lines if self.selected is None else list(chain.from_iterable(self.selected))

    def selected_texts(self) -> list[bytes]:
        """Return the results of --select as text for people."""
        return [_plain_text(text) for text in chain.from_iterable(self.selected or ())]

    def is_structured(self, side: str) -> list[bool]:
        """Return for each key or value whether its text is JSON: a number, an object, a list or null."""
        return [isinstance(value, _STRUCTURED) for value in self.decoded[side]]

    def rows_without_value(self, side: str) -> list[int]:
        """Return the records whose key or value is null in JSON: it does not decode, or it decodes to null."""
        return [row for row, value in enumerate(self.decoded[side]) if type(value) in (DecodeError, type(None))]

    def errors(self, side: str) -> list[str | None]:
        """Return the error of each key or value that does not decode."""
        values = self.decoded.get(side)
        if values is None:
            return [None] * len(self)
        return [value.message if isinstance(value, DecodeError) else None for value in values]


_JSON = JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_OR_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\n\r]+')
_WITH_DIGITS = {float, dict, list}
"""Types of the parts of JSON that may have numbers whose digits a float does not keep."""

_STRUCTURED = (dict, list, tuple, int, float, type(None))
"""Types of values that are printed as JSON outside JSON, where they have a text."""
_NO_JSON = {str, type(None), DecodeError}
"""Types of values that are not printed as JSON outside JSON."""


def _one_line(payload: bytes | None, value: Any) -> bytes:
    """Return the JSON text of a value whose payload is JSON: that payload, if it has no line break."""
    if payload is None or isinstance(value, DecodeError):
        return b"null"
    return _compact(payload) if b"\n" in payload or b"\r" in payload else payload.strip(b" \t")


def _compact(text: bytes) -> bytes:
    """Return a JSON text without spaces between its tokens."""
    return _STRING_OR_SPACE.sub(lambda found: found[1] or b"", text)


def _part_of_json(text: str, path: Path) -> str:
    """Return the text of the part at a path that a valid JSON text has."""
    start = _after_space(text, 0)
    for step in path:
        starts = dict(_parts_of_json(text, start))
        start = starts[step if step in starts or not isinstance(step, int) else len(starts) + step]
    return text[start : _end_of_json(text, start)]


def _parts_of_json(text: str, start: int) -> Iterator[tuple[str | int, int]]:
    """Yield the name or the index of each part of an object or list, and where it starts."""
    is_object, index = text[start] == "{", 0
    at = _after_space(text, start + 1)
    while text[at] not in "]}":
        name: str | int = index
        if is_object:
            name, at = _JSON.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # the colon
        yield name, at
        at = _after_space(text, _end_of_json(text, at))
        at = _after_space(text, at + 1) if text[at] == "," else at
        index += 1


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _end_of_json(text: str, start: int) -> int:
    return _JSON.raw_decode(text, start)[1]


def part_of(value: Any, path: Path) -> Any:
    """Return the part of a value at a path; None if it does not exist."""
    for step in path:
        if isinstance(value, dict):
            value = value[step] if step in value else _of_other_key(value, step)
        elif isinstance(value, list | tuple) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _of_other_key(value: dict[Any, Any], name: str | int) -> Any:
    """Return the value of a key that is not a text, such as the numbers of Protobuf's maps, by its name in JSON."""
    return next((part for key, part in value.items() if type(key) is not str and member_name(key) == name), None)


def _plain(value: Any) -> bytes | None:
    if value is None or isinstance(value, DecodeError):
        return None
    return value.encode("utf-8", "backslashreplace") if type(value) is str else _plain_text(json_text(value))


def _plain_text(text: str) -> bytes:
    """Return a JSON text for people: a text without its quotes and escapes, all else as it is."""
    if text.startswith('"'):
        from json import loads

        text = loads(text)
    return text.encode("utf-8", "backslashreplace")


def schema_headers(columns: RecordColumns, side: str) -> Sequence[bytes | None] | None:
    """Return the last header `__key_schema_id` or `__value_schema_id` of each record; None if no record has headers."""
    if not columns.header_counts.any():
        return None
    name = f"__{side}_schema_id"
    return [dict(columns.headers(row)).get(name) for row in range(len(columns))]

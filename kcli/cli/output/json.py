"""Reports as JSON: one versioned document, or one object per line.

The document is `{"kcli": 1, "kind": "topic.list", "items": [...]}`. The number changes when a field is renamed or
removed, or changes its meaning; new fields may be added at any time. A failed item has a field `error`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.cli.output.report import Report

VERSION = 1


def as_document(report: Report) -> str:
    """Return the whole report as one JSON document, indented."""
    return indented({"kcli": VERSION, "kind": report.kind, "items": report.items}) + "\n"


def indented(value: Any, depth: int = 0) -> str:
    """Return the value as `json.dumps` with `indent=2` does, but with Python's C encoder, ten times as fast.

    Python does not use the C encoder for indented JSON. Here that encoder writes everything flat, with separators that
    start the next line, and also whole lists of flat objects: a JSON string has no line break, so the borders between
    objects are unique.
    """
    outer, inner = "\n" + "  " * depth, "\n" + "  " * (depth + 1)
    if isinstance(value, dict) and value:
        if _is_flat(value.values()):
            return "{" + inner + _encoder(inner).encode(value)[1:-1] + outer + "}"
        fields = [f"{_key(key)}: {indented(part, depth + 1)}" for key, part in value.items()]
        return "{" + inner + ("," + inner).join(fields) + outer + "}"
    if isinstance(value, list | tuple) and value:
        if _is_flat(value):
            return "[" + inner + _encoder(inner).encode(value)[1:-1] + outer + "]"
        if all(type(part) is dict and part for part in value) and _is_flat(chain(*map(dict.values, value))):
            field = inner + "  "
            objects = (
                _encoder(field).encode(value)[2:-2].replace("}," + field + "{", inner + "}," + inner + "{" + field)
            )
            return "[" + inner + "{" + field + objects + inner + "}" + outer + "]"
        return "[" + inner + ("," + inner).join([indented(part, depth + 1) for part in value]) + outer + "]"
    return _encoder(inner).encode(value)


def _is_flat(values: Iterable[Any]) -> bool:
    """Return whether the values have no content of their own, except for empty objects and lists."""
    return not any(issubclass(kind, dict | list | tuple) for kind in set(map(type, filter(None, values))))


@functools.cache
def _encoder(line: str) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, separators=("," + line, ": "))


def _key(key: Any) -> str:
    """Return the key as a JSON string; keys that are not strings are converted, as JSON requires."""
    return json.dumps({key: 0}, ensure_ascii=False)[1 : -len(": 0}")]


def as_lines(report: Report) -> str:
    """Return one JSON object per item and line."""
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in report.items)

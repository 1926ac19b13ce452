"""Columns of cells as text, each distinct value only once: a report may have a hundred thousand rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kcli.cli.render.report import cell

Finish = Callable[[str], str]

_PLAIN = {str, int, type(None)}  # values of these types are equal only if they look the same


def texts_of(values: Sequence[Any], missing: str = "-", finish: Finish | None = None) -> list[str]:
    """The values as `cell` writes them; `finish` is applied to each text."""
    if not _are_plain(values):
        return [_text(value, missing, finish) for value in values]
    texts = {value: _text(value, missing, finish) for value in set(values)}
    return list(map(texts.__getitem__, values))


def _are_plain(values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= _PLAIN


def is_numeric(values: Iterable[Any]) -> bool:
    """Are all of them numbers, as far as there are any?"""
    kinds = set(map(type, values)) - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def _text(value: Any, missing: str, finish: Finish | None) -> str:
    text = cell(value, missing)
    return text if finish is None else finish(text)


def padded(name: str, values: Sequence[Any], least: int, *, right: bool, finish: Finish | None = None) -> list[str]:
    """The name and, below it, the values as text, all filled up with spaces to one width, which is `least` or more."""
    texts = {value: _text(value, "-", finish) for value in set(values)} if _are_plain(values) else None
    if texts is None:
        values = texts_of(values, finish=finish)
        texts = {text: text for text in set(values)}
    width = max(least, *map(display_width, texts.values()))
    filled = {value: _fill(text, width, right=right) for value, text in texts.items()}
    return [_fill(name, width, right=right), *map(filled.__getitem__, values)]


def _fill(text: str, width: int, *, right: bool) -> str:
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def display_width(text: str) -> int:
    """How many cells of a terminal a text takes: 2 for a wide character, 0 for one that is put on another."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)

"""Columns of cells as text, each distinct value only once: a report may have a hundred thousand rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kcli.cli.render.report import cell

Finish = Callable[[str], str]

_PLAIN = {str, int, type(None)}  # values of these types are equal only if they look the same


def texts_of(values: Sequence[Any], missing: str = "-", finish: Finish | None = None) -> list[str]:
    """The values as `cell` writes them; `finish` is applied to each text."""
    if not set(map(type, values)) <= _PLAIN:
        return [_text(value, missing, finish) for value in values]
    texts = {value: _text(value, missing, finish) for value in set(values)}
    return [texts[value] for value in values]


def is_numeric(values: Iterable[Any]) -> bool:
    """Are all of them numbers, as far as there are any?"""
    kinds = set(map(type, values)) - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def _text(value: Any, missing: str, finish: Finish | None) -> str:
    text = cell(value, missing)
    return text if finish is None else finish(text)


def padded(texts: Iterable[str], width: int, measure: Callable[[str], int], *, right: bool) -> list[str]:
    """The texts filled up with spaces to a width in terminal cells."""
    texts = list(texts)
    filled = {}
    for text in set(texts):
        spaces = " " * (width - measure(text))
        filled[text] = spaces + text if right else text + spaces
    return [filled[text] for text in texts]


def display_width(text: str) -> int:
    """How many cells of a terminal a text takes: 2 for a wide character, 0 for one that is put on another."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)

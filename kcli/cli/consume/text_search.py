"""Search of a regular expression in many texts.

A search of one long buffer costs far less than one search per text, so:

1. Most expressions need literals: a match of `refund.*blue` contains both, one of `(paid|late) order` contains
   `paid order` or `late order`. Only texts that contain them are searched for the expression. If it consists of
   literals, as the second one does, this search is all.
2. If no part of the expression can match a line break, all texts without line breaks are joined as lines and searched
   together, with `^` and `$` at line breaks.
3. All other texts are searched one by one.

The tree of the expression decides. It is that of Python's own parser, which is not a public interface: a node that is
not known here means that the texts are searched one by one.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kcli.cli.consume.text_columns import Literal, Spans, joined_spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.cli.consume.text_columns import Bytes

    Mask = NDArray[np.bool_]

_parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

_LINE_BREAK = 0x0A
_MOST_LITERALS = 8
_MOST_NEEDS = 3
_HEAD_BYTES = 3


class AnyOf(NamedTuple):
    """A condition that each match fulfils: it contains one of the literals, or fulfils all conditions of a choice."""

    literals: Sequence[bytes]
    choices: Sequence[Sequence[AnyOf]] = ()

    @property
    def shortest(self) -> int:
        """The length of the shortest literal that may fulfil the condition."""
        lengths = [len(literal) for literal in self.literals]
        return min(lengths + [max(need.shortest for need in choice) for choice in self.choices])


@lru_cache(maxsize=64)
def search_of(pattern: re.Pattern[bytes]) -> TextSearch:
    """Return the search for a pattern."""
    return TextSearch(pattern)


class TextSearch:
    """The search for one pattern, prepared once.

    `needs`: each match fulfils all of these conditions. `is_literal`: the only condition is the pattern itself.
    `lines`: the pattern for many texts joined as lines; None: not possible.
    """

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self.pattern = pattern
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the first compilation has warned already
            tree = _parser.parse(pattern.pattern, pattern.flags)
            lines = re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
        has_locale = bool(pattern.flags & re.LOCALE)
        self.needs = [] if has_locale else _needs(tree)
        self.is_literal = bool(self.needs) and _strings(tree) is not None
        self.ignores_case = bool(pattern.flags & re.IGNORECASE)
        is_searched_in_lines = tree.getwidth()[0] > 0 and not has_locale and not pattern.flags & re.DOTALL
        self.lines = lines if is_searched_in_lines and _stays_in_line(tree) else None

    def matches(self, texts: Spans) -> Mask:
        """Return the mask of the texts in which the pattern matches."""
        mask: Mask = np.ones(len(texts.lengths), np.bool_)
        if self.needs:
            mask = _LiteralSearch(texts, ignores_case=self.ignores_case).all_of(self.needs)
            if self.is_literal:
                return mask
            if np.count_nonzero(mask) > len(mask) // 2:
                self.needs = []  # most texts fulfil the conditions: to look for them costs more than it saves
        rows = np.flatnonzero(mask)
        mask[rows] = self._search(texts if len(rows) == len(mask) else texts.take(rows))
        return mask

    def _search(self, texts: Spans) -> Mask:
        if self.lines is None:
            return _search_each(self.pattern, texts)
        count = len(texts.lengths)
        joined = joined_spans([texts, Literal(b"\n")], count)
        has_line_break = _rows_at(np.flatnonzero(joined.source == _LINE_BREAK), joined, more_than=1)
        starts = [match.start() for match in self.lines.finditer(joined.source.data)]
        mask = _rows_at(np.array(starts, np.int64), joined)
        rows = np.flatnonzero(has_line_break)
        if len(rows):
            mask[rows] = _search_each(self.pattern, texts.take(rows))
        return mask


def _search_each(pattern: re.Pattern[bytes], texts: Spans) -> Mask:
    search = pattern.search
    return np.array([search(text) is not None for text in texts.texts()], np.bool_)


def _rows_at(positions: NDArray[np.int64], joined: Spans, more_than: int = 0) -> Mask:
    """Return the mask of the rows in which more than that many of the positions lie."""
    rows = np.searchsorted(joined.starts, positions, side="right") - 1
    return np.bincount(rows, minlength=len(joined.starts)) > more_than


class _LiteralSearch:
    """The search of literals in texts that lie in one buffer in order, as the values of a response do."""

    def __init__(self, texts: Spans, *, ignores_case: bool) -> None:
        self._ignores_case = ignores_case
        if not _is_dense(texts):
            texts = joined_spans([texts], len(texts.lengths))
        first = int(texts.starts[0]) if len(texts.starts) else 0
        self._starts = texts.starts - first
        self._ends = self._starts + texts.lengths
        data = texts.source[first : first + (int(self._ends[-1]) if len(self._ends) else 0)]
        self._data: Bytes = np.frombuffer(data.tobytes().lower(), np.uint8) if ignores_case else data

    def all_of(self, needs: Sequence[AnyOf]) -> Mask:
        """Return the mask of the texts that fulfil all conditions."""
        mask: Mask = np.ones(len(self._starts), np.bool_)
        for need in needs:
            fulfilled = np.zeros(len(mask), np.bool_)
            for literal in need.literals:
                fulfilled |= self._contains(literal.lower() if self._ignores_case else literal)
            for choice in need.choices:
                fulfilled |= self.all_of(choice)
            mask &= fulfilled
        return mask

    def _contains(self, literal: bytes) -> Mask:
        """Return the mask of the texts with this literal.

        Its first bytes are compared at all positions at once, the others only where those are the same.
        """
        head = literal[:_HEAD_BYTES]
        count = max(0, len(self._data) - len(literal) + 1)
        is_head = self._data[:count] == head[0]
        for index, byte in enumerate(head[1:], 1):
            is_head &= self._data[index : index + count] == byte
        positions = np.flatnonzero(is_head)
        for index, byte in enumerate(literal[len(head) :], len(head)):
            positions = positions[self._data[positions + index] == byte]
        rows = np.searchsorted(self._starts, positions, side="right") - 1
        mask: Mask = np.zeros(len(self._starts), np.bool_)
        mask[rows[positions + len(literal) <= self._ends[rows]]] = True
        return mask


def _is_dense(texts: Spans) -> bool:
    """True if the texts ascend in their buffer without overlaps, and fill most of it."""
    if not len(texts.starts):
        return True
    ends = texts.starts + texts.lengths
    size = int(ends[-1] - texts.starts[0])
    return bool((texts.starts[1:] >= ends[:-1]).all()) and size <= 2 * int(texts.lengths.sum())


# The tree of an expression: (operation, argument) in order


def _needs(tree: Any) -> list[AnyOf]:
    """Return conditions that each match fulfils, those with the longest literals; empty: none are known.

    Strings that follow each other are combined: `(a|b)c` needs `ac` or `bc`.
    """
    needs: list[AnyOf] = []
    strings = [b""]
    for operation, argument in [*tree, (None, None)]:
        following = _node_strings(str(operation), argument) or []
        if following and len(strings) * len(following) <= _MOST_LITERALS:
            strings = [first + second for first in strings for second in following]
            continue
        needs.append(AnyOf(strings))
        strings = following or [b""]
        if not following:
            needs += _node_needs(str(operation), argument)
    needs.append(AnyOf(strings))
    ranked = sorted((need for need in needs if need.shortest), key=lambda need: -need.shortest)
    return [need for need in ranked[:_MOST_NEEDS] if need.shortest > 1 or need is ranked[0]]


def _node_needs(operation: str, argument: Any) -> list[AnyOf]:
    if operation == "SUBPATTERN":
        return [] if argument[1] or argument[2] else _needs(argument[3])
    if operation in _REPEATS:
        return _needs(argument[2]) if argument[0] else []
    if operation == "BRANCH":
        choices = [_needs(tree) for tree in argument[1]]
        return [AnyOf((), choices)] if all(choices) and len(choices) <= _MOST_LITERALS else []
    return []


def _strings(tree: Any) -> list[bytes] | None:
    """Return all strings that an expression matches; None if there are many, or it has conditions besides."""
    strings = [b""]
    for operation, argument in tree:
        following = _node_strings(str(operation), argument)
        if following is None or len(strings) * len(following) > _MOST_LITERALS:
            return None
        strings = [first + second for first in strings for second in following]
    return strings


def _node_strings(operation: str, argument: Any) -> list[bytes] | None:
    if operation == "LITERAL":
        return [bytes([argument])]
    if operation == "IN" and len(argument) <= _MOST_LITERALS:
        codes = [code for name, code in argument if str(name) == "LITERAL"]
        return [bytes([code]) for code in codes] if len(codes) == len(argument) else None
    if operation == "SUBPATTERN":
        return None if argument[1] or argument[2] else _strings(argument[3])
    if operation == "BRANCH":
        branches = [_strings(tree) for tree in argument[1]]
        strings = [string for branch in branches for string in branch or ()]
        return strings if all(branches) and len(strings) <= _MOST_LITERALS else None
    return None


_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_IN_LINE_CATEGORIES = {"CATEGORY_DIGIT", "CATEGORY_WORD", "CATEGORY_NOT_SPACE"}
_IN_LINE_PLACES = {"AT_BEGINNING", "AT_END", "AT_BOUNDARY"}


def _stays_in_line(tree: Any) -> bool:
    """True if no part of the expression matches a line break, and each place means the same in a line of many."""
    return all(_node_stays_in_line(str(operation), argument) for operation, argument in tree)


def _node_stays_in_line(operation: str, argument: Any) -> bool:
    if operation == "LITERAL":
        return bool(argument != _LINE_BREAK)
    if operation in ("ANY", "GROUPREF"):
        return True
    if operation == "AT":
        return str(argument) in _IN_LINE_PLACES
    if operation == "IN":
        return _set_stays_in_line(argument)
    if operation in _REPEATS:
        return _stays_in_line(argument[2])
    if operation == "BRANCH":
        return all(map(_stays_in_line, argument[1]))
    if operation == "SUBPATTERN":
        return not argument[1] and not argument[2] and _stays_in_line(argument[3])
    return False


def _set_stays_in_line(members: Any) -> bool:
    """True if a set of characters, such as `[a-z]` or `\\d`, does not contain the line break."""
    for operation, argument in members:
        name = str(operation)
        if name == "LITERAL" and argument != _LINE_BREAK:
            continue
        if name == "RANGE" and not argument[0] <= _LINE_BREAK <= argument[1]:
            continue
        if name == "CATEGORY" and str(argument) in _IN_LINE_CATEGORIES:
            continue
        return False
    return True

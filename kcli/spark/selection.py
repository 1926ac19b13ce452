r"""Selection of partitions by assign, subscribe or subscribePattern. Pure.

A pattern is a regular expression of Java. It is translated to Python's `re` as far as both mean the same for topic
names, and refused otherwise. Topic names are letters, digits, dots, dashes and underscores, so lines, Unicode and
spaces do not matter. Supported: characters and escaped signs, `.`, `^`, `$`, plain classes, `\d \w \s \b` and their
opposites, groups, alternatives, look-around, greedy and lazy quantifiers, `{2,3}`, `\Q...\E`, and ignoring case.
Refused, because Java and Python differ or may differ: unions and intersections of classes, `\p{...}`, named groups and
back references, flags within a pattern, possessive and atomic parts (Python from 3.11 on).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from kcli.errors import ConfigError, NotFound
from kcli.structs import TopicPartition
from kcli.text import compile_regex


class Assign(NamedTuple):
    """Exactly these partitions."""

    partitions: frozenset[TopicPartition]


class Subscribe(NamedTuple):
    """All partitions of these topics."""

    topics: tuple[str, ...]


class Pattern(NamedTuple):
    """All partitions of the topics whose whole name matches. See the module for the supported syntax."""

    regex: str


Selection = Assign | Subscribe | Pattern


def missing_names(selection: Selection | None, existing: Collection[TopicPartition]) -> list[str]:
    """Return the named topics or partitions that do not exist. A pattern names nothing."""
    if isinstance(selection, Assign):
        return [str(tp) for tp in sorted(selection.partitions - set(existing))]
    if isinstance(selection, Subscribe):
        topics = {tp.topic for tp in existing}
        return [topic for topic in selection.topics if topic not in topics]
    return []


def may_select(selection: Selection | None, tp: TopicPartition) -> bool:
    """Return whether the selection names the partition; True for a pattern, which names nothing."""
    if isinstance(selection, Assign):
        return tp in selection.partitions
    return tp.topic in selection.topics if isinstance(selection, Subscribe) else True


def check_exists(selection: Selection | None, existing: Collection[TopicPartition]) -> None:
    """Raise NotFound for named topics or partitions that do not exist."""
    missing = missing_names(selection, existing)
    if missing:
        noun = "partition" if isinstance(selection, Assign) else "topic"
        plural, verb = ("s", "do") if len(missing) > 1 else ("", "does")
        raise NotFound(f"{noun}{plural} {', '.join(missing)} {verb} not exist")


_TOKEN = re.compile(
    r"""
    (?P<quote>\\Q.*?(?:\\E|\Z))
  | (?P<escape>\\.)
  | (?P<klass>\[\^?(?![\]^])(?:[^\[\]&\\]|&(?!&)|\\[^A-Za-z0-9]|\\[dDwWsS])+\])
  | (?P<flags>\(\?[ims]+(?::|\)))
  | (?P<group>\((?:\?:|\?=|\?!|\?<=|\?<!|(?!\?))|\))
  | (?P<count>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?!\+))
  | (?P<plain>[^\\\[(){*+?])
    """,
    re.VERBOSE | re.DOTALL,
)
_SAME_ESCAPES = "dDwWsSbBA"


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for `fullmatch` on topic names, like Java's `matches`. ConfigError if it is malformed or
    unsupported.
    """
    if not text:
        raise ConfigError("subscribePattern is empty")
    parts, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (token.lastgroup == "flags" and at and token[0].endswith(")")):
            raise _unsupported(text, text[at : at + 12])
        parts.append(_translate(text, token.lastgroup or "", token[0]))
        at = token.end()
    try:
        return compile_regex("".join(parts), re.ASCII)
    except re.error as error:
        raise ConfigError(f"subscribePattern {text!r} is not a valid regular expression: {error}") from None


def _translate(text: str, kind: str, token: str) -> str:
    if kind == "quote":
        # A quantifier after it applies to the last character, as in Java.
        return re.escape(token[2:].removesuffix("\\E"))
    if kind == "escape":
        sign = token[1]
        if sign in "zZ":
            return r"\Z"  # Java's \Z also matches before a final line break, which topic names do not have
        if sign.isalnum() and sign not in _SAME_ESCAPES:
            raise _unsupported(text, token)
    return token


def _unsupported(text: str, part: str) -> ConfigError:
    return ConfigError(
        f"subscribePattern {text!r}: {part!r} is not supported, because its meaning may differ from Java's; "
        "use plain classes, groups and quantifiers, or name the topics with subscribe"
    )

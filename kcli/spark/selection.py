"""Which partitions are read: assign, subscribe or subscribePattern, and what of it must exist. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from kcli.errors import ConfigError, NotFound
from kcli.structs import TopicPartition


class Assign(NamedTuple):
    """Exactly these partitions."""

    partitions: frozenset[TopicPartition]


class Subscribe(NamedTuple):
    """All partitions of these topics."""

    topics: tuple[str, ...]


class Pattern(NamedTuple):
    """All partitions of the topics whose whole name matches; see `kcli.spark.selection` for what may be written."""

    regex: str


Selection = Assign | Subscribe | Pattern


def missing_names(selection: Selection | None, found: Collection[TopicPartition]) -> list[str]:
    """What was named and is not among the partitions that exist; a pattern names nothing."""
    if isinstance(selection, Assign):
        return [str(tp) for tp in sorted(selection.partitions - set(found))]
    if isinstance(selection, Subscribe):
        topics = {tp.topic for tp in found}
        return [topic for topic in selection.topics if topic not in topics]
    return []


def check_exists(selection: Selection | None, found: Collection[TopicPartition]) -> None:
    """NotFound for topics or partitions that were named and are not there."""
    missing = missing_names(selection, found)
    if missing:
        what = "partition" if isinstance(selection, Assign) else "topic"
        plural, verb = ("s", "do") if len(missing) > 1 else ("", "does")
        raise NotFound(f"{what}{plural} {', '.join(missing)} {verb} not exist")


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
    """A pattern to be used with `fullmatch` on names of topics, as Java's `matches`. ConfigError: it is none, or Java
    might mean something else by it."""
    if not text:
        raise ConfigError("subscribePattern is empty")
    parts, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or (token.lastgroup == "flags" and at and token[0].endswith(")")):
            raise _refused(text, text[at : at + 12])
        parts.append(_translate(text, token.lastgroup or "", token[0]))
        at = token.end()
    try:
        return re.compile("".join(parts), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"subscribePattern {text!r} is no regular expression: {error}") from None


def _translate(text: str, kind: str, token: str) -> str:
    if kind == "quote":
        return re.escape(token[2:].removesuffix("\\E"))  # a quantifier behind it is for the last sign, as in Java
    if kind == "escape":
        sign = token[1]
        if sign in "zZ":
            return r"\Z"  # Java's \Z also matches before a last line end, which no topic has
        if sign.isalnum() and sign not in _SAME_ESCAPES:
            raise _refused(text, token)
    return token


def _refused(text: str, part: str) -> ConfigError:
    return ConfigError(
        f"subscribePattern {text!r}: {part!r} is not supported, since it is not sure to mean what it means in Java; "
        "say it with plain classes, groups and quantifiers, or name the topics with subscribe"
    )

"""Java's regular expressions for topic names, as far as Python's `re` means the same; the rest is refused. Pure.

Names of topics are letters, digits, dots, dashes and underscores, so that lines, Unicode and blanks do not matter. Over
these the two languages agree on the parts that are taken here: characters and escaped signs, `.`, `^`, `$`, plain
classes, `\\d \\w \\s \\b` and their opposites, groups, alternatives, look-around, quantifiers greedy and lazy, `{2,3}`,
`\\Q...\\E`, and ignoring case. They differ, or are not sure to agree, in the rest: unions and intersections of classes,
`\\p{...}`, named groups and back references, flags within a pattern, possessive and atomic parts (Python from 3.11 on).
"""

from __future__ import annotations

import re

from kcli.errors import ConfigError

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

r"""Check of patterns in RE2's syntax (github.com/google/re2/wiki/Syntax), which brokers use. Pure.

The first error is reported in the words of Apache's tool. RE2 has no look-around and no back references, knows
`\pL`-style classes, `\Q..\E` and flags, and repeats at most 1000 times.
"""

from __future__ import annotations

import re
import unicodedata

_MAX_REPEATS = 1000
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_CLASS_NAME = re.compile(r"\[:(\^?)(\w+):\]", re.ASCII)
_CLASSES = frozenset(
    [
        "alnum",
        "alpha",
        "ascii",
        "blank",
        "cntrl",
        "digit",
        "graph",
        "lower",
        "print",
        "punct",
        "space",
        "upper",
        "word",
        "xdigit",
    ]
)
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_NAME = re.compile(r"\w+", re.ASCII)
_SHORT_CLASSES = "dDsSwW"
_ESCAPES = "aftnrv"
_ANCHORS = "AbBz"
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = re.compile(r"x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))")
_LARGEST = 0x10FFFF


class _InvalidPattern(Exception):
    pass


def re2_error(pattern: str) -> str | None:
    """Return RE2's error for this pattern; None if the pattern is valid."""
    try:
        _Reader(pattern).read()
    except _InvalidPattern as error:
        return str(error)
    return None


class _Reader:
    """One pass over a pattern. `_operand`: a repetition may follow; `_repeated`: one was just read."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._operand = False
        self._repeated = ""
        self._names: set[str] = set()

    def read(self) -> None:
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign in "*+?":
                self._repeat(self._at + 1)
            elif sign == "{" and (match := _REPEAT.match(self._text, self._at)):
                self._count(match)
            else:
                self._repeated = ""
                self._piece(sign)
        if self._depth:
            raise _InvalidPattern("missing closing )")

    def _piece(self, sign: str) -> None:
        if sign == "(":
            self._open()
        elif sign == ")":
            if not self._depth:
                raise _InvalidPattern(
                    "regexp/syntax: internal error"
                )  # the message of the tool's and the brokers' library
            self._depth -= 1
            self._step(1)
        elif sign == "|":
            self._at += 1
            self._operand = False
        elif sign == "[":
            self._class()
        elif sign == "\\":
            self._escape()
        else:
            self._step(1)

    def _step(self, count: int) -> None:
        self._at += count
        self._operand = True

    # ---- repetition ----

    def _repeat(self, end: int) -> None:
        if self._text[end : end + 1] == "?":
            end += 1
        if not self._operand:
            raise _InvalidPattern("missing argument to repetition operator")
        if self._repeated:
            raise _InvalidPattern("invalid nested repetition operator")
        self._repeated = self._text[self._at : end]
        self._at = end

    def _count(self, match: re.Match[str]) -> None:
        least = int(match[1])
        most = int(match[3]) if match[3] else least
        if max(least, most) > _MAX_REPEATS or (match[3] and most < least):
            raise _InvalidPattern("invalid repeat count")
        self._repeat(match.end())

    # ---- groups ----

    def _open(self) -> None:
        text, at = self._text, self._at
        if not text.startswith("(?", at):
            self._begin_group(1)
        elif text.startswith(("(?P<", "(?<"), at):
            self._named_group()
        elif match := _FLAGS.match(text, at):
            if match[3] == ":":
                self._begin_group(len(match[0]))
            else:
                self._at = match.end()
        else:
            raise _InvalidPattern("invalid or unsupported Perl syntax")

    def _begin_group(self, length: int) -> None:
        self._depth += 1
        self._at += length
        self._operand = False

    def _named_group(self) -> None:
        start = self._text.index("<", self._at) + 1
        end = self._text.find(">", start)
        name = self._text[start:end]
        if end < 0 or not _NAME.fullmatch(name):
            raise _InvalidPattern("invalid named capture")
        if name in self._names:
            raise _InvalidPattern("duplicate capture group name")
        self._names.add(name)
        self._begin_group(end + 1 - self._at)

    # ---- escapes ----

    def _escape(self) -> None:
        rest = self._text[self._at + 1 :]
        if not rest:
            raise _InvalidPattern("trailing backslash at end of expression")
        if rest[0] == "Q":
            end = self._text.find("\\E", self._at + 2)
            self._step((end + 2 if end >= 0 else len(self._text)) - self._at)
        elif rest[0] in _ANCHORS or rest[0] in _SHORT_CLASSES:
            self._step(2)
        elif rest[0] in "pP":
            self._step(1 + self._property(rest))
        else:
            self._step(1 + _single(rest)[0])

    def _property(self, rest: str) -> int:
        """Return the length of `pL`, `p{Greek}`."""
        if rest[1:2] == "{":
            end = rest.find("}")
            name = rest[2:end].removeprefix("^") if end >= 0 else ""
            length = end + 1
        else:
            name, length = rest[1:2], 2
        if not name or not _is_property(name):
            raise _InvalidPattern("invalid character class range")
        return length

    # ---- classes ----

    def _class(self) -> None:
        text, at = self._text, self._at + 1
        at += text.startswith("^", at)
        first = True
        while at >= len(text) or text[at] != "]" or first:
            if at >= len(text):
                raise _InvalidPattern("missing closing ]")
            if match := _CLASS_NAME.match(text, at):
                if match[2] not in _CLASSES:
                    raise _InvalidPattern("invalid character class range")
                at = match.end()
            else:
                at = self._class_piece(at)
            first = False
        self._step(at + 1 - self._at)

    def _class_piece(self, at: int) -> int:
        text = self._text
        if text[at] == "\\" and text[at + 1 : at + 2] and text[at + 1] in _SHORT_CLASSES:
            return at + 2
        if text[at] == "\\" and text[at + 1 : at + 2] and text[at + 1] in "pP":
            return at + 1 + self._property(text[at + 1 :])
        low, at = self._sign(at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("]", ""):
            high, at = self._sign(at + 1)
            if high < low:
                raise _InvalidPattern("invalid character class range")
        return at

    def _sign(self, at: int) -> tuple[int, int]:
        """Return one sign of a class, and the start of the next."""
        if self._text[at] != "\\":
            return ord(self._text[at]), at + 1
        if at + 1 >= len(self._text):
            raise _InvalidPattern("trailing backslash at end of expression")
        length, code = _single(self._text[at + 1 :])
        return code, at + 1 + length


def _single(rest: str) -> tuple[int, int]:
    """Return the length of an escape for one sign, without its backslash, and that sign."""
    if match := _OCTAL.match(rest):
        return len(match[0]), int(match[0], 8)
    if match := _HEX.match(rest):
        code = int(match[1] or match[2], 16)
        if code <= _LARGEST:
            return len(match[0]), code
    elif rest[0] in _ESCAPES:
        return 1, "\a\f\t\n\r\v"[_ESCAPES.index(rest[0])].encode()[0]
    elif not (rest[0].isascii() and rest[0].isalnum()):
        return 1, ord(rest[0])
    raise _InvalidPattern("invalid escape sequence")


def _is_property(name: str) -> bool:
    """Return whether this is a general category (L, Lu, ...), Any, or a script. Scripts are known by the names of
    letters.
    """
    if name == "Any" or name in {unicodedata.category(chr(code))[: len(name)] for code in range(0x3000)}:
        return True
    return name[0].isupper() and _is_script(name)


def _is_script(name: str) -> bool:
    wanted = name.upper().replace("_", " ") + " "
    if name in ("Common", "Inherited", "Han"):
        return True
    codes = range(0x20, 0x1F000)
    return any(unicodedata.name(chr(code), "").startswith(wanted) for code in codes)

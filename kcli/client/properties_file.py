"""Java's .properties files: text to a mapping of strings. Pure; the grammar is that of java.util.Properties.load."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.errors import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def load_properties(text: str) -> dict[str, str]:
    """The properties in `text`; a later one wins over an earlier one. ConfigError for a malformed \\u escape."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, joined where a backslash at the end says so."""
    pending = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = line.lstrip(_BLANKS)
        if not pending and line[:1] in ("", "#", "!"):
            continue
        if _ends_in_escape(line):
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _ends_in_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value: the key ends at the first unescaped '=', ':' or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    result, at = [], 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            result.append(char)
            continue
        char = text[at]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if len(digits) < 4 or not all(d in "0123456789abcdefABCDEF" for d in digits):
                raise ConfigError(f"\\u{digits} in a properties file is not followed by four hexadecimal digits")
            result.append(chr(int(digits, 16)))
            at += 4
        else:
            result.append(_ESCAPES.get(char, char))
    return "".join(result)

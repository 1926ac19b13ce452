"""Properties files as java.util.Properties loads them, and kcat's. Pure.

Java reads the bytes as ISO-8859-1, where a character in UTF-8 becomes two or more; so does kcli, because the same file
must give the same password. A file that begins with a byte order mark is UTF-8: Java cannot read its first property.
The properties that only librdkafka has are read as kcat reads them: UTF-8, without escapes and continuation lines,
except that a backslash before a colon or an equals sign is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcli.client.librdkafka import KAFKA_NAMES, OWN_NAMES
from kcli.errors import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def load_properties(source: bytes | str, *, kcat: bool = True) -> dict[str, str]:
    """Return the properties in the bytes or the text of a file; a later one replaces an earlier one.

    With `kcat` False, properties of librdkafka are read as Java reads all others. Raise ConfigError for a malformed \\u
    escape, and for malformed UTF-8 after a byte order mark.
    """
    text = source if isinstance(source, str) else _decoded(source)
    is_latin = isinstance(source, bytes) and not source.startswith(_BYTE_ORDER_MARK)
    properties = {}
    for number, line in _logical_lines(text, kcat=kcat):
        name, value = _split(line)
        if kcat and _is_literal(name):
            value = value.strip().replace("\\:", ":").replace("\\=", "=")  # as kcat does, for files made for Java
            properties[name] = _in_utf8(value) if is_latin else value
        else:
            properties[_unescape(name, number)] = _unescape(value, number)
    return properties


def names_in_utf8(source: bytes) -> list[str]:
    """Return the properties of a file without byte order mark whose values seem to be UTF-8, but are read as Java does.

    Their characters outside ASCII are not those that an editor shows.
    """
    if source.isascii() or source.startswith(_BYTE_ORDER_MARK):
        return []
    properties = load_properties(source)
    raw = {_split(line)[0]: _split(line)[1] for _, line in _logical_lines(_decoded(source))}
    return [name for name in properties if (text := raw.get(name)) and not _is_literal(name) and _in_utf8(text) != text]


def _decoded(source: bytes) -> str:
    if not source.startswith(_BYTE_ORDER_MARK):
        return source.decode("iso-8859-1")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("the file begins with a byte order mark, but is not UTF-8") from None


def _in_utf8(text: str) -> str:
    try:
        return text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text


def _is_literal(name: str) -> bool:
    return name in KAFKA_NAMES or name in OWN_NAMES


def _logical_lines(text: str, *, kcat: bool = True) -> Iterator[tuple[int, str]]:
    """The lines without comments and blank lines, with their numbers.

    A line that ends in a backslash is joined with the next.
    """
    pending, start = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = line.lstrip(_BLANKS)
        if not pending:
            start = number
            if line[:1] in ("", "#", "!"):
                continue
        is_literal = kcat and not pending and _is_literal(_split(line)[0])
        if _ends_in_escape(line) and not is_literal:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending = ""
    if pending:
        yield start, pending


def _ends_in_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value of a line, with escapes: the key ends at the first unescaped '=', ':' or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return line[:end], value


def _unescape(text: str, line: int) -> str:
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
                raise ConfigError(
                    f"line {line} of the properties file has a malformed \\u escape; use four hexadecimal digits "
                    "after \\u, or two backslashes"
                )
            result.append(chr(int(digits, 16)))
            at += 4
        else:
            result.append(_ESCAPES.get(char, char))
    # Two escapes write a character beyond the first plane, in UTF-16.
    return "".join(result).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

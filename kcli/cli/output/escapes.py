r"""Backslash escapes in both directions: `\n` typed by a user into a byte, and a control character into safe text."""

import re

from kcli.errors import ConfigError
from kcli.visible import visible

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|(.)|$)", re.DOTALL)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def unescape(text: str) -> bytes:
    r"""Return the bytes of a delimiter: `\n \r \t \0 \xNN`, and `\` before any other sign for the sign itself.

    An undecodable byte from the shell is returned unchanged. `ConfigError` for an unknown letter.
    """
    parts: list[bytes] = []
    done = 0
    for match in _ESCAPE.finditer(text):
        parts += _encode(text[done : match.start()]), _unescaped(match)
        done = match.end()
    return b"".join([*parts, _encode(text[done:])])


def _unescaped(match: re.Match[str]) -> bytes:
    digits, sign = match.groups()
    if digits:
        return bytes([int(digits, 16)])
    if sign is None or (sign.isalnum() and sign not in _NAMED):
        raise ConfigError(rf"'{match[0]}' is not a valid escape; use \n \r \t \0 \xNN or \\")
    return _encode(_NAMED.get(sign, sign))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def visible_bytes(data: bytes) -> bytes:
    r"""Escape control characters in bytes; bytes that are not UTF-8 become `\xff`."""
    return visible(data.decode("utf-8", "backslashreplace")).encode()


def highlighted_bytes(data: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """Escape as `visible_bytes` does, and show the matches of the pattern in bold red, as grep does.

    A match that begins or ends inside a character of UTF-8 is extended to the whole character.
    """
    parts: list[bytes] = []
    done = 0
    for match in pattern.finditer(data):
        if not match[0]:
            continue
        start, end = match.span()
        while start > done and data[start] & 0xC0 == 0x80:
            start -= 1
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        if end > done:
            start = max(start, done)
            parts += visible_bytes(data[done:start]), b"\x1b[1;31m", visible_bytes(data[start:end]), b"\x1b[0m"
            done = end
    return b"".join([*parts, visible_bytes(data[done:])])

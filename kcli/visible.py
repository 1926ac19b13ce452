"""Texts of strangers, such as the names of topics and groups, made safe to show. Ground: imports nothing of kcli.

They enter a sentence, a table or a log line through `visible`, and a command to paste through `shell_word`.
"""

from __future__ import annotations

import re

# C0, DEL and C1 controls; line and paragraph separators; surrogates; characters without a width, and those that change
# the direction of writing.
_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Escape as `\n`, `\x1b`, `\u202e` what cannot be seen: controls, and characters without a width or with a
    direction of writing.

    The result is one line, which cannot control a terminal and does not look like another text. Backslashes stay
    single.
    """
    return text if text.isascii() and text.isprintable() else re.sub(_UNSAFE, _shown, text)


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (
        f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    )


def visible_json(text: str) -> str:
    """Escape in JSON what `visible` escapes; the JSON value stays the same. Line breaks between objects stay."""
    return re.sub(_UNSAFE, _shown_in_json, text)


def _shown_in_json(match: re.Match[str]) -> str:
    char = match[0]
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return char if char == "\n" else "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def shell_word(text: str) -> str:
    r"""Quote a text as one word of a command that people paste into a shell.

    A text with characters that cannot be seen is written as `$'a\nb'`, which bash, zsh and ksh read.
    """
    from shlex import quote

    if visible(text) == text:
        return quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{re.sub(_UNSAFE, _shown_in_shell, quoted)}'"


def _shown_in_shell(match: re.Match[str]) -> str:
    # In octal, because a hexadecimal escape would take the digits after it as its own.
    data = match[0].encode("utf-8", "surrogateescape" if "\udc80" <= match[0] <= "\udcff" else "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in data)

r"""The format language of `-f/--format`: kcat's verbs, and some additions.

    %s value        %S its length (-1: null)     %R its length as 4 bytes, big-endian
    %k key          %K its length (-1: null)     %h headers, a=1,b=2
    %t topic        %p partition                 %o offset           %T timestamp in ms        %% a percent sign
    %{time}         the timestamp as 2024-01-31T10:00:00.000Z
    %{value:hex} %{value:base64} %{key:hex} %{key:base64}
    %{value.id} %{key.a.b[0]} %{value["a b"]}     a part of the decoded value or key, with -s
    %{value:error} %{key:error}                   why it does not decode, with -s
    %{headers.NAME}                               the last header of this name
    \n \r \t \0 \\ \xNN

Nothing is added: a format for lines ends with `\n`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kcli.cli.options import naming
from kcli.cli.output.escapes import unescape
from kcli.errors import ConfigError


class Field(NamedTuple):
    """A field of a record and its style: "" unchanged, "hex", "base64", "length", "length32", "error".

    `path` leads to a part of a decoded key or value, or names a header.
    """

    name: str
    style: str = ""
    path: tuple[str | int, ...] = ()

    @property
    def needs_decoder(self) -> bool:
        """True if only a decoded key or value has this field."""
        return self.style == "error" or (bool(self.path) and self.name != "headers")


FormatPart = bytes | Field
"""A literal, or a field of the record."""

VERBS = {
    "s": Field("value"),
    "S": Field("value", "length"),
    "R": Field("value", "length32"),
    "k": Field("key"),
    "K": Field("key", "length"),
    "h": Field("headers"),
    "t": Field("topic"),
    "p": Field("partition"),
    "o": Field("offset"),
    "T": Field("timestamp"),
}
NAMED = {
    "time": Field("time"),
    "value": Field("value"),
    "value:hex": Field("value", "hex"),
    "value:base64": Field("value", "base64"),
    "key": Field("key"),
    "key:hex": Field("key", "hex"),
    "key:base64": Field("key", "base64"),
    "value:error": Field("value", "error"),
    "key:error": Field("key", "error"),
    "headers": Field("headers"),
    "topic": Field("topic"),
    "partition": Field("partition"),
    "offset": Field("offset"),
    "timestamp": Field("timestamp"),
}

_PATH = re.compile(r'\.([^.\[\]"]+)|\.?\["([^"]*)"\]|\.?\[(-?[0-9]{1,9})\]|\."([^"]*)"')
_VERB = re.compile(r"\\.|%(?:\{([^}]*)\}|(.)|$)", re.DOTALL)


def compile_format(text: str) -> list[FormatPart]:
    """Return the parts of a format, literals unescaped and merged. Raise ConfigError for an invalid verb or escape."""
    if not text:
        raise ConfigError("-f: the format must not be empty")
    parts: list[FormatPart] = []
    done = 0
    for match in _VERB.finditer(text):
        if match[0].startswith("\\"):
            continue  # an escape is part of a literal, even an escaped percent sign
        _add(parts, unescape(text[done : match.start()]))
        _add(parts, _part(match))
        done = match.end()
    _add(parts, unescape(text[done:]))
    return parts


def named_field(name: str) -> Field | None:
    """Return the field of a name, such as offset, value:hex or value.customer.id; None for an unknown name."""
    if name in NAMED:
        return NAMED[name]
    if name.startswith("headers.") and name != "headers.":
        return Field("headers", "", (name.removeprefix("headers."),))
    side = "value" if name.startswith("value") else "key" if name.startswith("key") else ""
    path: list[str | int] = []
    position = len(side)
    while side and position < len(name):
        step = _PATH.match(name, position)
        if step is None:
            return None
        path.append(int(step[3]) if step[3] else next(text for text in step.groups() if text is not None))
        position = step.end()
    return Field(side, "", tuple(path)) if path else None


def _part(match: re.Match[str]) -> FormatPart:
    name, letter = match.groups()
    if letter == "%":
        return b"%"
    field = named_field(name) if name is not None else VERBS.get(letter or "")
    if field is None:
        names = [*NAMED, "value.PATH", "key.PATH", "headers.NAME"]
        known = " ".join([*(f"%{verb}" for verb in VERBS), "%%", *(f"%{{{name}}}" for name in names)])
        raise ConfigError(f"-f: '{match[0]}' is not a valid verb; use {known}")
    return field


def _add(parts: list[FormatPart], part: FormatPart) -> None:
    if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
        parts[-1] += part
    elif part:
        parts.append(part)


def raw_format(delimiter: str, key_delimiter: str | None) -> list[FormatPart]:
    """Return the parts of raw output: the value and `-D`; with `-K` the key and that delimiter before it."""
    key: list[FormatPart] = []
    if key_delimiter is not None:
        with naming("-K"):
            key = [Field("key"), unescape(key_delimiter)]
    with naming("-D"):
        return [part for part in (*key, Field("value"), unescape(delimiter)) if part]

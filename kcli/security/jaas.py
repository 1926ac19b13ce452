"""The text of `sasl.jaas.config`: one login module with its options, read as Java reads it. Pure.

The grammar is that of Kafka's org.apache.kafka.common.security.JaasConfig over java.io.StreamTokenizer. No error has a
part of the text: any part can be a password, where a quote or a semicolon is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.secret import Secret

NAME = "sasl.jaas.config"
FLAGS = ("required", "requisite", "sufficient", "optional")

# One alternative per branch of StreamTokenizer. Characters up to the blank separate tokens; a word starts with a
# letter, "_" or "$" and goes on with digits, "." and "-" too. A lone slash starts a comment, as two slashes do, and
# takes the next character, even if that is the end of the line.
_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+)
      | (?P<comment>/\*(?:(?!\*/).)*\*/ | /\*.*\Z | /.?[^\n\r]*)
      | (?P<number>-?(?=[\d.])\d*\.?\d*)
      | (?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z_$\xa0-\U0010ffff0-9.-]*)
      | (?P<quote>["'])(?P<text>(?:\\[\x00-\U0010ffff]|(?!(?P=quote))[^\\\n\r])*)(?:(?P=quote)|(?=[\n\r])|\\?\Z)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|(?P<char>.))", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MUST_BE_ESCAPED = re.compile(r'["\\\n\r]')


class JaasEntry(NamedTuple):
    """A login module, its control flag in lower case, and its options."""

    module: str
    flag: str
    options: dict[str, Secret]

    def option(self, name: str) -> str | None:
        """Return the text of an option, which may be a secret; None if it is absent."""
        secret = self.options.get(name)
        return None if secret is None else secret.reveal()

    def required(self, name: str) -> str:
        """Return the text of an option. Raise ConfigError if it is absent."""
        secret = self.options.get(name)
        if secret is None:
            raise ConfigError(f'{NAME}: the option {name} is missing; add {name}="..." before the final semicolon')
        return secret.reveal()


class _Token(NamedTuple):
    kind: str  # "word", "quote", "number", "end", or the character itself
    text: str


_END = _Token("end", "")


def parse_jaas(text: str) -> JaasEntry:
    """Parse the one entry of a JAAS text. Of an option that is given twice, the last one counts.

    Raise ConfigError, which names the place by counting and has no part of the text.
    """
    tokens = _tokens(text)
    entry = _parse_entry(tokens)
    if next(tokens, None) is not None:
        raise _malformed("has text after the semicolon that ends the login module; give exactly one login module")
    return entry


def login_section(text: str, name: str) -> str | None:
    """Return the entries of a section `name { ... };` of a login file of Java; None if the file has no such section."""
    before, start = "", -1
    for match in _TOKEN.finditer(text):
        if match.lastgroup in ("blank", "comment"):
            continue
        if match["other"] == "{" and before == name:
            start = match.end()
        elif match["other"] == "}" and start >= 0:
            return text[start : match.start()]
        before = match["word"] or match["text"] or ""
    return None


def format_jaas(module: str, options: dict[str, str]) -> Secret:
    """Return the text that `parse_jaas` and Java read as this module with these options."""
    listed = "".join(f' {name}="{_quote(value)}"' for name, value in options.items())
    return Secret(f"{module} required{listed};")


def _parse_entry(tokens: Iterator[_Token]) -> JaasEntry:
    module = next(tokens, None)
    if module is None:
        raise _malformed("is empty; give a login module, a flag, options and a semicolon")
    if not module.text:
        raise _malformed("does not start with the class name of a login module")
    flag = next(tokens, None)
    if flag is None or flag.text.lower() not in FLAGS or flag.kind not in ("word", "quote"):
        raise _malformed(f"has no valid flag after the login module; use {', '.join(FLAGS[:-1])} or {FLAGS[-1]}")
    options: dict[str, Secret] = {}
    for number, name in enumerate(tokens, 1):
        if name.kind == ";":
            return JaasEntry(module.text, flag.text.lower(), options)
        equals, value = next(tokens, _END), next(tokens, _END)
        if equals.kind != "=" or not {name.kind, value.kind} <= {"word", "quote"}:
            raise _malformed(
                f'is malformed at option {number} after the flag; write each option as name="value", with \\" and '
                "\\\\ for quotes and backslashes in the value, and end with a semicolon"
            )
        options[name.text] = Secret(value.text)
    raise _malformed("does not end with a semicolon; check the quotes, and add a semicolon after the last option")


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind in ("blank", "comment"):
            continue
        if match["quote"]:
            yield _Token("quote", _ESCAPE.sub(_unescape, match["text"]))
        elif match["other"]:
            yield _Token(match["other"], "")
        else:
            yield _Token("word" if match["word"] else "number", match["word"] or "")


def _unescape(match: re.Match[str]) -> str:
    if match["octal"]:
        return chr(int(match["octal"], 8))
    return _CONTROLS.get(match["char"], match["char"])


def _quote(value: str) -> str:
    return _MUST_BE_ESCAPED.sub(lambda match: {"\n": "\\n", "\r": "\\r"}.get(match[0], "\\" + match[0]), value)


def _malformed(problem: str) -> ConfigError:
    return ConfigError(f"{NAME}: the text {problem}")

r"""`-f`, `-D`, `-K`: verbs and escapes. The comparison with kcat itself is in tests/interop."""

import re

import pytest

from kcli.cli.consume.format import VERBS, Field, compile_format, raw_format
from kcli.cli.output.escapes import highlighted_bytes, unescape, visible_bytes
from kcli.errors import ConfigError
from kcli.visible import visible, visible_json


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("%s", [Field("value")]),
        (r"%k %s\n", [Field("key"), b" ", Field("value"), b"\n"]),
        ("100%%", [b"100%"]),
        ("%%%%s", [b"%%s"]),
        (r"\x41B\x4243", [b"ABB43"]),
        (r"\x4|", [b"\x04|"]),
        (r"a\tb\r\n\0\\", [b"a\tb\r\n\0\\"]),
        (r"\;\%s\"", [b';%s"']),
        (r"\\%s", [b"\\", Field("value")]),
        ("ü", ["ü".encode()]),
        ("%{time}|%{value:hex}", [Field("time"), b"|", Field("value", "hex")]),
        ("%{key:base64}%{value}", [Field("key", "base64"), Field("value")]),
        ("%S%R%K", [Field("value", "length"), Field("value", "length32"), Field("key", "length")]),
    ],
)
def test_formats(text, parts):
    assert compile_format(text) == parts


def test_every_verb_of_kcat_is_supported() -> None:
    assert set(VERBS) == set("stpokhTSKR")
    for verb, field in VERBS.items():
        assert compile_format(f"<%{verb}>") == [b"<", field, b">"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        ("%q", "'%q' is not a valid verb; use %s"),
        ("50%", "'%' is not a valid verb"),
        ("%{}", "'%{}' is not"),
        ("%{value:rot13}", "'%{value:rot13}' is not"),
        ("%{value", "'%{' is not"),
        (r"\q", r"'\q' is not a valid escape"),
        (r"\x", r"'\x' is not a valid escape"),
        (r"\xZZ", r"'\x' is not a valid escape"),
        ("end\\", r"'\' is not a valid escape"),
    ],
)
def test_an_invalid_format_is_an_error(text, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        compile_format(text)


def test_raw_output_is_a_format() -> None:
    assert raw_format(r"\n", None) == [Field("value"), b"\n"]
    assert raw_format(r"\0", r"\t") == [Field("key"), b"\t", Field("value"), b"\0"]
    assert raw_format("", "") == [Field("key"), Field("value")]


def test_an_argument_that_is_not_utf_8_keeps_its_bytes() -> None:
    assert unescape("\udcff") == b"\xff"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain \xc3\xbc", "plain ü"),
        (b"\x1b[2J", r"\x1b[2J"),
        (b"a\nb\tc\rd\0e\x7f", r"a\nb\tc\rd\x00e\x7f"),
        (b"\xc2\x9b31m", r"\u009b31m"),
        (b"\x9b31m", r"\x9b31m"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\u202eevil\u2028".encode(), r"\u202eevil\u2028"),
        (b"back\\slash", "back\\slash"),
    ],
)
def test_control_bytes_are_escaped(data, shown):
    assert visible_bytes(data) == shown.encode()
    assert visible(shown) == shown


def test_escaped_json_is_valid_json() -> None:
    assert visible_json('{"a": "\x7f\u009b\u202e"}\n{}') == '{"a": "\\u007f\\u009b\\u202e"}\n{}'


@pytest.mark.parametrize(
    ("data", "pattern", "shown"),
    [
        (b"a refund, a refund", b"refund", "a <refund>, a <refund>"),
        (b"none", b"refund", "none"),
        (b"aaa", b"a*", "<aaa>"),
        (b"ab", b"$|b?", "a<b>"),
        (b"none", b"$", "none"),
        (b"\x1b[2J!", rb"\[2", "\\x1b<[2>J!"),
        ("zażółć".encode(), b"\xbc", "za<ż>ółć"),  # the second byte of a character
        ("ü".encode(), b".", "<ü>"),
        (b"\xff\xfe", b"\xfe", "\\xff<\\xfe>"),
        (b"", b"x*", ""),
    ],
)
def test_matches_are_highlighted_as_whole_characters(data: bytes, pattern: bytes, shown: str) -> None:
    text = highlighted_bytes(data, re.compile(pattern)).decode()
    assert text.replace("\x1b[1;31m", "<").replace("\x1b[0m", ">") == shown

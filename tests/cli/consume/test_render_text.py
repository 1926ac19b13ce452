r"""`-f`, `-D`, `-K`: verbs, escapes, raw values and keys. The comparison with kcat itself is in tests/interop."""

import re

import pytest

from kcli.cli.consume.filters import compile_filters
from kcli.cli.consume.options import FilterOptions, RawOptions
from kcli.cli.consume.printing import RenderOptions, make_renderer
from kcli.cli.consume.render_text import VERBS, Field, compile_format, raw_format, text_renderer
from kcli.cli.output.escapes import highlighted_bytes, unescape, visible_bytes
from kcli.errors import ConfigError
from kcli.text import format_timestamp
from kcli.visible import visible, visible_json
from tests.cli.consume.data import NOON, ORDERS_3, columns, record

MIXED = columns(
    record(b"v1", b"k1", headers=[("a", b"1"), ("b", None), ("a", b"\x00\xff"), ("e", b"")]),
    record(None, b"k2"),
    record(b"v3", None),
    record(b"", b""),
    record(b"\xc3\xbc\xff\x1b", b"\x00k"),
    base_offset=7,
)


def raw(delimiter: str = r"\n", key_delimiter: str | None = None, **options: object) -> bytes:
    renderer = text_renderer(raw_format(delimiter, key_delimiter), **options)  # type: ignore[arg-type]
    return bytes(renderer.render(ORDERS_3, MIXED))


def formatted(text: str, **options: object) -> bytes:
    return bytes(text_renderer(compile_format(text), **options).render(ORDERS_3, MIXED))  # type: ignore[arg-type]


def test_values_are_exact_bytes_and_a_null_is_an_empty_line() -> None:
    assert raw() == b"v1\n\nv3\n\n\xc3\xbc\xff\x1b\n"
    assert raw(r"\0") == b"v1\0\0v3\0\0\xc3\xbc\xff\x1b\0"
    assert raw("") == b"v1v3\xc3\xbc\xff\x1b"
    assert raw(r"<\n>") == b"v1<\n><\n>v3<\n><\n>\xc3\xbc\xff\x1b<\n>"


def test_keys_before_values() -> None:
    assert raw(key_delimiter=r"\t") == b"k1\tv1\nk2\t\n\tv3\n\t\n\x00k\t\xc3\xbc\xff\x1b\n"


def test_a_text_for_nulls_distinguishes_them_from_empty_values() -> None:
    assert raw(null="NULL") == b"v1\nNULL\nv3\n\n\xc3\xbc\xff\x1b\n"
    assert raw(key_delimiter=":", null="~") == b"k1:v1\nk2:~\n~:v3\n:\n\x00k:\xc3\xbc\xff\x1b\n"


def test_control_bytes_are_escaped_on_a_terminal_but_not_the_delimiter() -> None:
    assert raw(key_delimiter=r"\t", terminal=True) == "k1\tv1\nk2\t\n\tv3\n\t\n\\x00k\tü\\xff\\x1b\n".encode()
    assert formatted(r"\x1b[1m%h\x1b[0m ", terminal=True).startswith(b"\x1b[1ma=1,b=NULL,a=\\x00\\xff,e=\x1b[0m ")


def test_matches_of_filters_are_coloured_in_keys_and_values() -> None:
    filters = compile_filters(FilterOptions("v", "k"))
    assert filters is not None
    lines = formatted(r"%k=%s %{value:hex}\n", terminal=True, highlights=filters.highlights).split(b"\n")
    assert lines[0] == b"\x1b[1;31mk\x1b[0m1=\x1b[1;31mv\x1b[0m1 7631"
    assert lines[1] == b"\x1b[1;31mk\x1b[0m2= "
    inverted = compile_filters(FilterOptions("v", invert=True))
    assert inverted is not None
    assert inverted.highlights == {}


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("%t %p %o", b"orders 3 7", b"orders 3 8"),
        ("%k=%s", b"k1=v1", b"k2="),
        ("%T", b"%d" % NOON, b"%d" % NOON),
        ("%{time}", b"2024-01-31T12:00:00.000Z", b"2024-01-31T12:00:00.000Z"),
        ("%K/%S", b"2/2", b"2/-1"),
        ("%R", b"\0\0\0\2", b"\xff\xff\xff\xff"),
        ("%h", b"a=1,b=NULL,a=\0\xff,e=", b""),
        ("%{key:hex} %{value:hex}", b"6b31 7631", b"6b32 "),
        ("%{value:base64}", b"djE=", b""),
        ("%t:%s", b"orders:v1", b"orders:"),
        ("just words", b"just words", b"just words"),
    ],
)
def test_verbs(text, first, second):
    assert formatted(text + r"\x01").split(b"\x01")[:2] == [first, second]


def test_a_large_batch_is_rendered_in_slices() -> None:
    many = columns(*(record(b"%d" % n, b"k") for n in range(20_000)))
    expected = b"".join(b"%d %d\n" % (n, n) for n in range(20_000))
    assert text_renderer(compile_format(r"%o %s\n")).render(ORDERS_3, many) == expected


def test_no_records_no_output() -> None:
    nothing = MIXED.take(slice(0, 0))
    for text in ("%s", "%k%s", "%o", "x"):
        assert bytes(text_renderer(compile_format(text)).render(ORDERS_3, nothing)) == b""


@pytest.mark.parametrize(
    ("style", "words"),
    [
        (RenderOptions(raw=RawOptions(format="%s", key_delimiter=":")), "-f cannot be combined with -D or -K"),
        (RenderOptions(raw=RawOptions(format="%s", delimiter=":")), "-f cannot be combined with -D or -K"),
        (RenderOptions("jsonl", RawOptions(format="%s")), "-f cannot be combined with --output"),
        (RenderOptions("csv", RawOptions(key_delimiter=";")), "-K cannot be combined with --output"),
        (RenderOptions("json", RawOptions(null="x")), "-Z cannot be combined with --output"),
        (RenderOptions("table", RawOptions(delimiter=";")), "-D cannot be combined with --output"),
    ],
)
def test_options_in_conflict_are_an_error(style, words):
    with pytest.raises(ConfigError, match=words):
        make_renderer(style)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (NOON + 7, "2024-01-31T12:00:00.007Z"),
        (-1, ""),
        (-5, "-5"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (2**63 - 1, str(2**63 - 1)),
    ],
)
def test_timestamps_inside_and_outside_the_calendar(ms, text):
    assert format_timestamp(ms) == text


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

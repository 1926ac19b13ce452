"""Properties files: the grammar and the character set of java.util.Properties, and kcat's for librdkafka's names."""

from __future__ import annotations

import pytest

from kcli.client.properties import load_properties, names_in_utf8
from kcli.errors import ConfigError


def test_a_property_key_ends_at_equals_colon_or_blank() -> None:
    text = "a=1\nb: 2\nc 3\n  d\t=\t4\ne\nf=\ng = x = y \n"
    assert load_properties(text) == {"a": "1", "b": "2", "c": "3", "d": "4", "e": "", "f": "", "g": "x = y "}


def test_properties_skip_comments_and_the_last_value_wins() -> None:
    assert load_properties("# one\n  ! two\n\n   \na=1\na=2\nb=#3\n") == {"a": "2", "b": "#3"}


def test_a_backslash_joins_lines_unless_it_is_escaped() -> None:
    text = "bootstrap.servers=a:9092,\\\n   b:9092\npath=c:\\\\\nnext=1\nlast=x\\"
    assert load_properties(text) == {"bootstrap.servers": "a:9092,b:9092", "path": "c:\\", "next": "1", "last": "x"}


def test_a_comment_starts_only_at_the_beginning_of_a_logical_line() -> None:
    assert load_properties("a=1,\\\n#2\n# not joined \\\nb=3") == {"a": "1,#2", "b": "3"}


def test_escapes_in_properties() -> None:
    assert load_properties(r"a\=b\:c\ d=\t\n\u00e9\q\\") == {"a=b:c d": "\t\né" + "q\\"}


def test_properties_lines_end_in_any_line_ending() -> None:
    assert load_properties("a=1\r\nb=2\rc=3\nd=4\\\r\n 5") == {"a": "1", "b": "2", "c": "3", "d": "45"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12zz", r"a=\u"])
def test_a_malformed_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^line 2 of the properties file has a malformed \\u escape; use four hex"
    ) as error:
        load_properties(f"# one\n{text}")
    assert "12" not in str(error.value)


def test_bytes_are_read_as_iso_8859_1_as_java_does() -> None:
    assert load_properties(b"sasl.jaas.config=p\xe9") == {"sasl.jaas.config": "p\xe9"}
    utf_8 = "client.id=plain\nsasl.jaas.config=p\xe9".encode()
    assert load_properties(utf_8)["sasl.jaas.config"] == "p\xc3\xa9"
    assert names_in_utf8(utf_8) == ["sasl.jaas.config"]
    assert names_in_utf8(b"a=\xe9") == names_in_utf8("# \xe9\na=b".encode()) == []


def test_a_byte_order_mark_means_utf_8() -> None:
    source = b"\xef\xbb\xbf" + "a=\xe9\nsasl.password=\u20ac".encode()
    assert load_properties(source) == {"a": "\xe9", "sasl.password": "\u20ac"}
    assert names_in_utf8(source) == []
    with pytest.raises(ConfigError, match="begins with a byte order mark, but is not UTF-8"):
        load_properties(b"\xef\xbb\xbfa=\xe9")


def test_librdkafkas_properties_are_read_as_kcat_reads_them() -> None:
    source = "sasl.password = c:\\temp\u20ac\\\nsasl.username=a\\u12\nssl.key.password=a\\\\b".encode()
    assert load_properties(source) == {
        "sasl.password": "c:\\temp\u20ac\\",
        "sasl.username": "a\\u12",
        "ssl.key.password": "a\\b",
    }


def test_characters_beyond_the_first_plane_are_two_escapes() -> None:
    assert load_properties(b"a=\\ud83d\\ude00 \\u20ac") == {"a": "\U0001f600 \u20ac"}
    assert load_properties(b"a=\\ud83d") == {"a": "\ufffd"}


def test_kcat_drops_a_backslash_before_a_colon_or_an_equals_sign() -> None:
    assert load_properties(b"sasl.password=a\\:b\\=c\\d") == {"sasl.password": "a:b=c\\d"}

"""Java's .properties grammar, as java.util.Properties reads it."""

import pytest

from kcli.client.properties_file import load_properties
from kcli.errors import ConfigError


def test_keys_and_values_part_at_equals_colon_or_blank() -> None:
    text = "a=1\nb: 2\nc 3\n  d\t=\t4\ne\nf=\ng = x = y \n"
    assert load_properties(text) == {"a": "1", "b": "2", "c": "3", "d": "4", "e": "", "f": "", "g": "x = y "}


def test_comments_and_blank_lines_are_nothing_and_the_last_value_wins() -> None:
    assert load_properties("# one\n  ! two\n\n   \na=1\na=2\nb=#3\n") == {"a": "2", "b": "#3"}


def test_a_backslash_joins_lines_unless_it_is_escaped_itself() -> None:
    text = "bootstrap.servers=a:9092,\\\n   b:9092\npath=c:\\\\\nnext=1\nlast=x\\"
    assert load_properties(text) == {"bootstrap.servers": "a:9092,b:9092", "path": "c:\\", "next": "1", "last": "x"}


def test_a_comment_is_one_only_at_the_beginning_of_a_logical_line() -> None:
    assert load_properties("a=1,\\\n#2\n# not joined \\\nb=3") == {"a": "1,#2", "b": "3"}


def test_escapes() -> None:
    assert load_properties(r"a\=b\:c\ d=\t\n\u00e9\q\\") == {"a=b:c d": "\t\né" + "q\\"}


def test_all_line_ends_are_line_ends() -> None:
    assert load_properties("a=1\r\nb=2\rc=3\nd=4\\\r\n 5") == {"a": "1", "b": "2", "c": "3", "d": "45"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12zz", r"a=\u"])
def test_a_malformed_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        load_properties(text)

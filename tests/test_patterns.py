"""Regular expressions of clients: which names match, which expressions are refused."""

from __future__ import annotations

import sys

import pytest

from kcli.patterns import InvalidRegex, LibraryMissing, compile_regex
from tests.needs import needs_package

NAMES = ["orders", "orders-1", "orders.eu", "Orders", "a", "b", "ab", "aab", "_", "12", "a.b.c"]


@pytest.fixture(autouse=True)
def library() -> None:
    needs_package("re2", "regex")


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        (r"orders.*", "orders orders-1 orders.eu"),
        (r"orders", "orders"),
        (r"^orders$", "orders"),
        (r"orders(-\d+|\.(eu|us))?", "orders orders-1 orders.eu"),
        (r"[[:upper:]][[:lower:]]+", "Orders"),
        (r"(?i)ORDERS", "orders Orders"),
        (r"\Qa.b.c\E", "a.b.c"),
        (r"a||b", "a b"),
        (r"", ""),
    ],
)
def test_the_whole_name_must_match(pattern: str, matching: str) -> None:
    regex = compile_regex(pattern)
    assert [name for name in NAMES if regex.matches(name)] == matching.split()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a", "missing ): (a"),
        ("a)", "unexpected ): a)"),
        ("[a", "missing ]: [a"),
        ("a**", "bad repetition operator: **"),
        ("(?=a)", "invalid perl operator: (?="),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("\\", "trailing \\"),
        ("\ud800", "it has characters that are not valid Unicode"),
    ],
)
def test_an_expression_that_is_not_valid_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(InvalidRegex) as refused:
        compile_regex(pattern)
    assert str(refused.value) == text


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*x", "a{0,200}a{200}b"])
def test_time_is_linear_where_backtracking_takes_for_ever(pattern: str) -> None:
    assert not compile_regex(pattern).matches("a" * 249)


def test_without_the_library_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(LibraryMissing, match=r"google-re2: pip install 'kcli-kafka\[regex\]'"):
        compile_regex("a")

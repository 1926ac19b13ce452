"""Search of many texts: the same matches as a search of each text."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume.text_columns import Spans
from kcli.cli.consume.text_search import AnyOf, TextSearch

EXPRESSIONS = [
    rb"ab", rb"a.b", rb"a.*b|ba", rb"^a", rb"b$", rb"^$", rb"", rb"a*", rb"(ab|ba)+c?", rb"(a|b)c", rb"[ab]c",
    rb"[^a]b", rb"\s", rb"a\s", rb"\S\S", rb"\Aa", rb"b\Z", rb"\bab\b", rb"\Bb", rb"a(?!b)", rb"(?<!a)b", rb"(?<=a)b",
    rb"(?i)AB", rb"(?s)a.b", rb"(?m)^b", rb"(?x) a  b", rb"(a)\1", rb"a{2,}", rb"(?:ab){0,2}c", rb"(?i:A)b", rb"\n",
    rb"a\nb", rb"\W", rb"\d+c", rb"[\d\-]b", rb"[\x00-\x20]", rb"(?s:.)a", rb"a|", rb"(ab)?c", rb"abc|abd|b", rb"a$b?",
    rb"a(?=\n)", rb"\xff", rb"(a|b)(1|c)", rb"(?i)(A|b)[C1]", rb"(ab|c).*(1|b)|aab", rb"((a|b)|c)b", rb"[abc1][abc1]",
]  # fmt: skip
TEXTS = st.lists(st.text("ab1c \n-\r\x00\u00ff", max_size=8).map(lambda text: text.encode("latin-1")), max_size=12)


def matches(search: TextSearch, texts: list[bytes], filler: bytes) -> list[bool]:
    buffer, starts = bytearray(), []
    for text in texts:
        buffer += filler
        starts.append(len(buffer))
        buffer += text
    spans = Spans(bytes(buffer + filler), np.array(starts, np.int64), np.array([*map(len, texts)], np.int64))
    return [bool(match) for match in search.matches(spans)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_a_search_of_each_text(expression: bytes) -> None:
    pattern = re.compile(expression)
    search = TextSearch(pattern)

    @settings(max_examples=50, deadline=None)
    @given(st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from([b"", b"a", b"ab\n", b"ab" * 20]))
    def check(batches: list[list[bytes]], filler: bytes) -> None:
        for texts in batches:
            assert matches(search, texts, filler) == [pattern.search(text) is not None for text in texts]

    check()


LETTER = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\s", r"\S", r"\b", "^", "$", r"\n", r"\d", "ab"])
GENERATED = st.recursive(
    LETTER,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["?", "{1,2}", "{2}", "{0,2}?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda one: f"(?!{one})"),
        inner.map(lambda one: f"(?={one})"),
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(GENERATED, TEXTS)
def test_any_expression(expression, texts):
    pattern = re.compile(expression.encode())
    assert matches(TextSearch(pattern), texts, b"a") == [pattern.search(text) is not None for text in texts]


@pytest.mark.parametrize(
    ("expression", "needs", "is_literal", "in_lines"),
    [
        (rb"refund", [AnyOf([b"refund"])], True, True),
        (rb"a\.b", [AnyOf([b"a.b"])], True, True),
        (rb"(?i)Refund", [AnyOf([b"Refund"])], True, True),
        (rb"refund.*blue", [AnyOf([b"refund"]), AnyOf([b"blue"])], False, True),
        (rb"(paid|late) [xy]", [AnyOf([b"paid x", b"paid y", b"late x", b"late y"])], True, True),
        (rb"^paid", [AnyOf([b"paid"])], False, True),
        (rb'order":[0-9]+7', [AnyOf([b'order":'])], False, True),
        (rb"(ab)*c", [AnyOf([b"c"])], False, True),
        (rb"(ab)+c", [AnyOf([b"ab"])], False, True),
        (rb"ab.*c|ba", [AnyOf((), [[AnyOf([b"ab"])], [AnyOf([b"ba"])]])], False, True),
        (rb"[a-z]+", [], False, True),
        (rb"ab|[c-z]", [], False, True),
        (rb"ab|", [], False, False),
        (rb'key="[^"]*"', [AnyOf([b'key="'])], False, False),
        (rb"x\s", [AnyOf([b"x"])], False, False),
        (rb"(?s)x.", [AnyOf([b"x"])], False, False),
        (rb"", [], False, False),
    ],
)
def test_the_plan_of_an_expression(expression: bytes, needs: list[AnyOf], is_literal: bool, in_lines: bool) -> None:
    search = TextSearch(re.compile(expression))
    assert search.needs == needs
    assert (search.is_literal, search.lines is not None) == (is_literal, in_lines)


def test_a_literal_that_most_texts_contain_is_no_longer_searched() -> None:
    search = TextSearch(re.compile(rb"order [0-9]7"))
    texts = [b"order %d" % n for n in range(10, 100)]
    expected = [text.endswith(b"7") for text in texts]
    assert matches(search, texts, b"") == expected
    assert search.needs == []
    assert matches(search, texts, b"") == expected


def test_a_literal_of_all_bytes() -> None:
    everything = bytes(range(256))
    search = TextSearch(re.compile(re.escape(everything)))
    assert matches(search, [b"a" + everything, everything[1:], everything, b""], b"") == [True, False, True, False]


def test_texts_in_any_order_and_more_than_once() -> None:
    spans = Spans(b"abcab", np.array([3, 0, 1, 0, 5]), np.array([2, 5, 3, 1, 0]))
    assert TextSearch(re.compile(b"ab")).matches(spans).tolist() == [True, True, False, False, False]


def test_an_expression_is_warned_of_once() -> None:
    with pytest.warns(FutureWarning):
        pattern = re.compile(b"[[a]b?")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert matches(TextSearch(pattern), [b"[", b"b"], b"") == [True, False]

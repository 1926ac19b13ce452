"""--grep, --key, --header, --invert."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume.filters import _search_literal, compile_filters, matching_rows
from kcli.errors import ConfigError
from tests.cli.consume.data import columns, record

ORDERS = columns(
    record(b"paid 10", b"alice", headers=[("type", b"order"), ("v", b"1")]),
    record(b"open 20", b"bob", headers=[("type", b"offer")]),
    record(None, b"alice"),
    record(b"", None, headers=[("type", None)]),
    record(b"two\nlines paid", b"carol", headers=[("type", b"x"), ("type", b"order")]),
)


def chosen(grep=None, key=None, headers=(), invert=False):
    return np.flatnonzero(matching_rows(compile_filters(grep, key, headers, invert=invert), ORDERS)).tolist()


def test_values() -> None:
    assert chosen(grep="paid") == [0, 4]
    assert chosen(grep="^paid") == [0]
    assert chosen(grep="paid$") == [4]
    assert chosen(grep=r"\d") == [0, 1]
    assert chosen(grep="(?i)PAID") == [0, 4]
    assert chosen(grep="two.lines") == []
    assert chosen(grep="(?s)two.lines") == [4]


def test_a_null_matches_no_expression() -> None:
    assert chosen(grep="") == [0, 1, 3, 4]
    assert chosen(grep=".*") == [0, 1, 3, 4]
    assert chosen(key="") == [0, 1, 2, 4]


def test_all_filters_must_match() -> None:
    assert chosen(key="alice") == [0, 2]
    assert chosen(key="^.{3}$") == [1]
    assert chosen(headers=["type=^o"]) == [0, 1, 4]
    assert chosen(headers=["type=order", "v=1"]) == [0]
    assert chosen(headers=["type="]) == [0, 1, 4]
    assert chosen(headers=["absent=."]) == []
    assert chosen(grep="paid", key="alice", headers=["type=order"]) == [0]


def test_invert_negates_the_whole_condition() -> None:
    assert chosen(grep="paid", invert=True) == [1, 2, 3]
    assert chosen(grep="paid", key="alice", invert=True) == [1, 2, 3, 4]


def test_no_filter() -> None:
    assert compile_filters(None, None, [], invert=False) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grep": "("}, "--grep: '(' is not a valid regular expression"),
        ({"key": "*"}, "--key: '*' is not a valid regular"),
        ({"headers": ["a=["]}, "--header: '[' is not a valid regular"),
        ({"headers": ["type"]}, "--header: 'type' is not valid; use NAME=REGEX"),
        ({"headers": ["=x"]}, "--header: '=x' is not valid; use NAME=REGEX"),
        ({"invert": True}, "--invert requires --grep, --key or --header"),
    ],
)
def test_an_invalid_filter_is_an_error(arguments, words):
    with pytest.raises(ConfigError, match="^" + re.escape(words)):
        chosen(**arguments)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=6)), max_size=20), st.binary(max_size=3), st.binary(max_size=2))
def test_a_literal_search_matches_the_search_of_each_value(values, literal, gap):
    buffer, starts = bytearray(), []
    for value in values:
        buffer += gap
        starts.append(len(buffer))
        buffer += value or b""
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    found = _search_literal(literal, memoryview(buffer), np.array(starts, np.int64), lengths)
    assert found is not None
    assert found.tolist() == [value is not None and literal in value for value in values]


def test_spans_out_of_order_are_not_searched_as_one_buffer() -> None:
    assert _search_literal(b"a", b"aXa", np.array([2, 0]), np.array([1, 1])) is None

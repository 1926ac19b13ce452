"""--grep, --key, --header, --invert."""

import re
import warnings

import numpy as np
import pytest

from kcli.cli.consume.filters import compile_filters, matching_rows
from kcli.cli.consume.options import FilterOptions
from kcli.errors import ConfigError
from tests.cli.consume.data import columns, record

ORDERS = columns(
    record(b"paid 10", b"alice", headers=[("type", b"order"), ("v", b"1")]),
    record(b"open 20", b"bob", headers=[("type", b"offer")]),
    record(None, b"alice"),
    record(b"", None, headers=[("type", None)]),
    record(b"two\nlines paid", b"carol", headers=[("type", b"x"), ("type", b"order")]),
)


def chosen(grep=None, key=None, headers=None, invert=False):
    return np.flatnonzero(matching_rows(compile_filters(FilterOptions(grep, key, headers, invert)), ORDERS)).tolist()


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


def test_a_name_of_a_header_is_compared_as_a_whole() -> None:
    many = columns(
        *(record(headers=[("typ", b"x"), ("type", b"order")][: n % 3]) for n in range(50)),
        record(headers=[("typeorder", b""), ("", b"type=order"), ("\u00fc", b"order")]),
    )

    def with_header(text):
        return np.flatnonzero(matching_rows(compile_filters(FilterOptions(header=[text])), many)).tolist()

    assert with_header("type=^order$") == list(range(2, 50, 3))
    assert with_header("\u00fc=o") == [50]
    assert with_header("typ=x") == [n for n in range(50) if n % 3]
    assert with_header("order=.") == []


def test_invert_negates_the_whole_condition() -> None:
    assert chosen(grep="paid", invert=True) == [1, 2, 3]
    assert chosen(grep="paid", key="alice", invert=True) == [1, 2, 3, 4]


def test_no_filter() -> None:
    assert compile_filters(FilterOptions()) is None


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


@pytest.mark.parametrize("arguments", [{"grep": "[[o]pen"}, {"key": "[[b]ob"}, {"headers": ["type=[[f]fer"]}])
def test_an_expression_about_which_python_warns_is_searched_without_a_warning(arguments):
    re.purge()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(**arguments) == [1]

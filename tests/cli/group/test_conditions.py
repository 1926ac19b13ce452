"""Conditions such as `lag>1000 or age>10m`: what they mean, and what is wrong with a bad one."""

from __future__ import annotations

import itertools

import pytest

from kcli.conditions import Amount, Verdict, parse_condition
from kcli.errors import ConfigError
from kcli.text import duration_ms, format_duration, parse_duration_option

FACTS = {"lag": Amount(500), "age": Amount(600_000), "members": Amount(2), "uncommitted": Amount(0), "state": "Stable"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("lag>499", True),
        ("lag>500", False),
        ("lag>=500", True),
        ("lag < 501", True),
        ("lag<=500", True),
        ("lag=500", True),
        ("lag==500", True),
        ("lag!=500", False),
        ("lag>1_000", False),
        ("LAG>499", True),
        ("age>9m59s", True),
        ("age>10m", False),
        ("age<1h", True),
        ("members=2", True),
        ("state=stable", True),
        ("state!=Stable", False),
        ("lag>1000 or age>=10m", True),
        ("lag>1000 and age>=10m", False),
        ("not lag>1000", True),
        ("not not lag>1000", False),
        ("members=2 or lag>1000 and age>1h", True),  # `and` binds before `or`
        ("(members=2 or lag>1000) and age>1h", False),
        ("uncommitted>0 or (state=Stable and members>=2)", True),
        ("lag>1000 OR members=2", True),
    ],
)
def test_what_a_condition_means(text: str, holds: bool) -> None:
    assert parse_condition(text).judge(FACTS) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "one of lag, members, uncommitted, age, state is missing at the end"),
        ("lag", "a comparison after 'lag' is missing"),
        ("lag>", "a value after 'lag>' is missing"),
        ("lags>5", "'lags' is not one of"),
        ("lag>1k", "whole number, not '1k'"),
        ("lag>-1", "whole number, not '-1'"),
        ("lag>1.5", "whole number"),
        ("lag 5", "comes one of > >= < <= = !=, not '5'"),
        ("lag>1 or", "missing at the end"),
        ("lag>1 members=2", "'members' is out of place"),
        ("(lag>1", "')' is missing"),
        ("lag>1)", "')' is out of place"),
        ("age>10", "length of time such as 90s, 10m or 1h30m, not '10'"),
        ("age=10m", "never exactly so"),
        ("state>Stable", "only be equal or not"),
        ("state=5", "'5' is not a state"),
        ("lag>1 && age>1m", "'&&' means nothing"),
        ("lag=>5", "whole number, not '>'"),
    ],
)
def test_a_bad_condition_is_a_usage_error_that_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_condition(text)
    assert f"'{text}' is not a condition: " in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("lag>1000", True),  # already, whatever the rest is
        ("lag>=5000", True),
        ("lag>5000", None),
        ("lag<=5000", None),
        ("lag<5000", False),
        ("lag<=4999", False),
        ("lag=5000", None),
        ("lag=4000", False),
        ("lag!=4000", True),
        ("lag!=6000", None),
    ],
)
def test_a_lower_bound_settles_what_it_can(text: str, verdict: Verdict) -> None:
    assert parse_condition(text).judge({"lag": Amount(5000, exact=False)}) is verdict


def test_the_unknown_is_carried_on_as_kleene_s_logic_does() -> None:
    truth = {"lag>0": True, "lag>9": False, "age>1m": None}
    facts = {"lag": Amount(5), "age": None}
    for (one, a), (other, b) in itertools.product(truth.items(), repeat=2):
        either = True if True in (a, b) else None if None in (a, b) else False
        both = False if False in (a, b) else None if None in (a, b) else True
        assert parse_condition(f"{one} or {other}").judge(facts) is either
        assert parse_condition(f"{one} and {other}").judge(facts) is both
        assert parse_condition(f"not {one}").judge(facts) is (None if a is None else not a)


def test_a_condition_tells_what_it_asks_for() -> None:
    assert parse_condition("lag>1 or not (age>1m and state=Empty)").names == {"lag", "age", "state"}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("1.5d", 129_600_000),
        ("2w", 1_209_600_000),
    ],
)
def test_lengths_of_time(text: str, ms: float) -> None:
    assert duration_ms(text) == ms


def test_lengths_of_time_are_exact() -> None:
    for unit, unit_ms in (("s", 1000), ("m", 60_000), ("h", 3_600_000)):
        for tenths in range(1, 1000):
            assert parse_duration_option("--window", f"{tenths / 10:.1f}{unit}") == tenths * unit_ms // 10
    assert duration_ms("1h16.1s") == 3_616_100
    assert duration_ms("0.0005s") == 0.5
    assert duration_ms("9" * 400 + "." + "9" * 5000 + "w") == float("inf")


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-5m", "5min", "1h30", "1e3s"])
def test_what_is_no_length_of_time(text: str) -> None:
    assert duration_ms(text) is None


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        *((0, "0ms"), (450, "450ms"), (999.6, "999ms"), (1000, "1s"), (59_999, "59s"), (60_000, "1m00s")),
        *(
            (187_000, "3m07s"),
            (3_600_000, "1h00m"),
            (18_300_000, "5h05m"),
            (86_400_000, "1d00h"),
            (187_200_000, "2d04h"),
        ),
    ],
)
def test_a_length_of_time_is_shown_in_one_word(ms: float, shown: str) -> None:
    assert format_duration(ms) == shown
    assert " " not in shown

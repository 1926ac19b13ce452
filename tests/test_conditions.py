"""Grammar of conditions such as `lag>1000 or age>10m`: results, three-valued logic, and errors."""

from __future__ import annotations

import itertools

import pytest

from kcli.conditions import Amount, Condition, Kind, Verdict, parse_condition
from kcli.errors import ConfigError

KINDS = {
    "lag": Kind.COUNT,
    "members": Kind.COUNT,
    "uncommitted": Kind.COUNT,
    "age": Kind.DURATION,
    "state": Kind.STATE,
    "share": Kind.NUMBER,
    "time-lag": Kind.DURATION,
    "largest_share": Kind.NUMBER,
    "topic": Kind.TEXT,
}
FACTS = {
    "lag": Amount(500),
    "age": Amount(600_000),
    "members": Amount(2),
    "uncommitted": Amount(0),
    "share": Amount(0.333),
    "time-lag": Amount(600_000),
    "largest_share": Amount(0.333),
    "state": "Stable",
}


def parse(text: str) -> Condition:
    return parse_condition(text, KINDS)


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
        ("time-lag>9m and TIME_LAG>9m and Time-Lag>9m", True),
        ("largest-share>0.3 and LARGEST_SHARE>30%", True),
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
        ("share>20%", True),
        ("share > 33.3%", False),
        ("share>=0.333", True),
        ("share>-1", True),
    ],
)
def test_condition_on_known_values(text: str, holds: bool) -> None:
    assert parse(text).judge(FACTS) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "",
            "expected one of lag, members, uncommitted, age, state, share, time-lag, largest_share, but the text ends",
        ),
        ("lag", "expected a comparison after 'lag', but the text ends"),
        ("lag>", "expected a value after 'lag>', but the text ends"),
        ("lags>5", "'lags' is unknown; use one of lag, members"),
        ("lag>1k", "lag takes a whole number, got '1k'"),
        ("lag>-1", "lag takes a whole number, got '-1'"),
        ("lag>1.5", "whole number"),
        ("lag 5", "expected one of > >= < <= = != after 'lag', got '5'"),
        ("lag>1 or", "but the text ends"),
        ("lag>1 members=2", "unexpected 'members'; join comparisons with 'and' or 'or'"),
        ("(lag>1", "missing ')'"),
        ("lag>1)", "unexpected ')'"),
        ("age>10", "age takes a duration such as 90s, 10m or 1h30m, got '10'"),
        ("age=10m", "age cannot be compared with '='; use > >= < or <="),
        ("state>Stable", "state can only be compared with = or !=, got '>'"),
        ("state=5", "'5' is not a valid state"),
        ("lag>1 && age>1m", "unexpected '&&'"),
        ("share>x", "share takes a number such as 10, 0.5 or 20%, got 'x'"),
        ("topic=orders", "'topic' is text and cannot be compared; use one of lag"),
        ("lag=>5", "lag takes a whole number, got '>'"),
    ],
)
def test_invalid_condition_names_the_mistake(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert f"'{text}' is not a valid condition: " in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("lag>1000", True),
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
def test_lower_bound_decides_some_comparisons(text: str, verdict: Verdict) -> None:
    assert parse(text).judge({"lag": Amount(5000, exact=False)}) is verdict


def test_unknown_values_follow_kleene_logic() -> None:
    truth = {"lag>0": True, "lag>9": False, "age>1m": None}
    facts = {"lag": Amount(5), "age": None}
    for (one, a), (other, b) in itertools.product(truth.items(), repeat=2):
        either = True if True in (a, b) else None if None in (a, b) else False
        both = False if False in (a, b) else None if None in (a, b) else True
        assert parse(f"{one} or {other}").judge(facts) is either
        assert parse(f"{one} and {other}").judge(facts) is both
        assert parse(f"not {one}").judge(facts) is (None if a is None else not a)


def test_condition_lists_the_names_that_it_uses() -> None:
    assert parse("lag>1 or not (age>1m and state=Empty)").names == {"lag", "age", "state"}


def test_condition_describes_the_values_that_it_uses() -> None:
    facts = {"lag": Amount(4, exact=False), "age": Amount(90_000), "share": Amount(1 / 3), "state": None}
    condition = parse("lag>1 or age>1m or share>1 or state=Empty")
    assert condition.describe(facts) == "age is 1m30s, lag is 4 or more, share is 0.333333333, state is not known"

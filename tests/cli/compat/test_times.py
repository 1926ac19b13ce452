"""Moments and durations as Apache's tool reads them (java.text.SimpleDateFormat, java.time.Duration)."""

from __future__ import annotations

import pytest

from kcli.cli.compat.problems import Failed
from kcli.cli.compat.times import parse_duration, parse_moment

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-1-1T0:0:1.5Z", 1_005),
        ("1970-01-01T02:00:00.000+02:00", 0),
        ("1970-01-01T02:00:00.000+02", 0),
        ("1969-12-31T22:30:00.000-01:30", 0),
    ],
)
def test_moments(text: str, ms: int) -> None:
    assert parse_moment(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2024-01-01", "2024-01-01T", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z"),
        *("2024-02-30T00:00:00.000", "2024-01-01T24:00:00.000", "2024-01-01T00:00:00.1000", "0000-01-01T00:00:00.000"),
        # Apache's tool takes these two, for +05 and for a moment in UTC.
        *("2024-01-01T00:00:00.000+0530", "2024-01-01T00:00:00.000Zzz"),
    ],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(Failed, match="ParseException"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("PT1H", HOUR), ("pt1h", HOUR), ("-PT1H", -HOUR), ("PT-1H", -HOUR), ("P1DT2H", 26 * HOUR)),
        *(("PT1.5S", 1_500), ("PT1,5S", 1_500), ("PT-1.5S", -1_500), ("PT0S", 0)),
        ("PT0.0001S", 1),  # up: a little earlier is a record more, never one less
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "1h", "P", "PT", "P1H", "PT1D", "P1DT", "PT1H ", "P1M", "P1W"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Failed, match="cannot be parsed to a Duration"):
        parse_duration(text)

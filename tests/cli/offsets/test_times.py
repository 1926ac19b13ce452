"""Moments and lengths of time, as people, `kcli consume` and Kafka's own tool write them."""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.text import parse_duration, parse_time

NOW_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        # Kafka's own forms (Utils.getDateTime): milliseconds, with no zone, Z, +hh, +hhmm and +hh:mm
        ("2024-01-01T00:00:00.000", NOW_MS),
        ("2024-01-01T00:00:00.000Z", NOW_MS),
        ("2024-01-01T02:30:00.000+02:30", NOW_MS),
        ("2024-01-01T02:30:00.000+0230", NOW_MS),
        ("2023-12-31T19:00:00.000-05", NOW_MS),
        ("2024-01-01T00:00:00.123", NOW_MS + 123),
        # consume's
        ("2024-01-01", NOW_MS),
        ("2024-01-01 00:00", NOW_MS),
        ("1704067200", NOW_MS),
        ("1704067200000", NOW_MS),
        ("now", NOW_MS),
        ("-1h30m", NOW_MS - 3 * HOUR_MS // 2),
    ],
)
def test_moments(text: str, ms: int) -> None:
    assert parse_time(text, NOW_MS) == ms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2024-02-30T00:00:00.000", "not on the calendar"),
        ("2024-01-01T25:00:00.000", "not on the calendar"),
        ("1969-12-31", "before 1970"),
        ("yesterday", "'yesterday' is not a valid time; use "),
        ("1h", "is not a valid time"),
        ("", "is not a valid time"),
        ("9" * 30, "Kafka stores times as 64-bit numbers"),
        ("9" * 1000, "is not a valid time"),
    ],
)
def test_what_is_no_moment_is_told(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as bad:
        parse_time(text, NOW_MS)
    assert words in str(bad.value)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        # java.time.Duration.parse, which Kafka's tool reads --by-duration with
        ("P1D", 24 * HOUR_MS),
        ("P1DT2H", 26 * HOUR_MS),
        ("PT1H30M", 3 * HOUR_MS // 2),
        ("pt15m", 15 * 60_000),
        ("PT0.5S", 500),
        ("PT0S", 0),
        ("P2W", 14 * 24 * HOUR_MS),
        ("1h30m", 3 * HOUR_MS // 2),
        ("90s", 90_000),
        ("1.5d", 36 * HOUR_MS),
        ("250ms", 250),
    ],
)
def test_lengths(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("P", "not a valid duration"),
        ("PT", "not a valid duration"),
        ("P1DT", "not a valid duration"),
        ("P1H", "not a valid duration"),
        ("P1M", "months and years"),
        ("P1Y2M", "months and years"),
        ("-P1D", "omit the sign"),
        ("-1h", "omit the sign"),
        ("60", "not a valid duration; write it like 1h30m"),
        ("", "not a valid duration"),
        ("P" + "9" * 1000 + "D", "not a valid duration"),
    ],
)
def test_what_is_no_length_is_told(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as bad:
        parse_duration(text)
    assert words in str(bad.value)

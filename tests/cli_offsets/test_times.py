"""Moments and lengths of time, as people, `kcli consume` and Kafka's own tool write them."""

from __future__ import annotations

import pytest

from kcli.cli.times import length_ms, time_ms
from kcli.errors import ConfigError

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
    assert time_ms(text, NOW_MS) == ms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2024-02-30T00:00:00.000", "not on the calendar"),
        ("2024-01-01T25:00:00.000", "not on the calendar"),
        ("1969-12-31", "before 1970"),
        ("yesterday", "'yesterday' is not a time: a time is "),
        ("1h", "is not a time"),
        ("", "is not a time"),
        ("9" * 30, "no time that Kafka could store"),
        ("9" * 1000, "is not a time"),
    ],
)
def test_what_is_no_moment_is_told(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as bad:
        time_ms(text, NOW_MS)
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
    assert length_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("P", "not a length of time"),
        ("PT", "not a length of time"),
        ("P1DT", "not a length of time"),
        ("P1H", "not a length of time"),
        ("P1M", "months and years"),
        ("P1Y2M", "months and years"),
        ("-P1D", "without a sign"),
        ("-1h", "without a sign"),
        ("60", "not a length of time like 1h30m"),
        ("", "not a length of time"),
        ("P" + "9" * 1000 + "D", "not a length of time"),
    ],
)
def test_what_is_no_length_is_told(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as bad:
        length_ms(text)
    assert words in str(bad.value)

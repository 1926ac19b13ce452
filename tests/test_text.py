"""Durations, topics and partitions as people write and read them."""

from __future__ import annotations

import re
import warnings

import pytest

from kcli.errors import ConfigError
from kcli.text import (
    closest_name,
    closest_names,
    compile_regex,
    did_you_mean,
    duration_ms,
    format_alternatives,
    format_duration,
    parse_duration,
    parse_duration_option,
    parse_partitions,
    parse_time,
    parse_topics,
)


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
def test_duration_in_milliseconds(text: str, ms: float) -> None:
    assert duration_ms(text) == ms


def test_durations_are_exact() -> None:
    for unit, unit_ms in (("s", 1000), ("m", 60_000), ("h", 3_600_000)):
        for tenths in range(1, 1000):
            assert parse_duration_option("--window", f"{tenths / 10:.1f}{unit}") == tenths * unit_ms // 10
    assert duration_ms("1h16.1s") == 3_616_100
    assert duration_ms("0.0005s") == 0.5
    assert duration_ms("9" * 400 + "." + "9" * 5000 + "w") == float("inf")


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-5m", "5min", "1h30", "1e3s"])
def test_text_that_is_not_a_duration(text: str) -> None:
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
def test_duration_is_formatted_without_spaces(ms: float, shown: str) -> None:
    assert format_duration(ms) == shown
    assert " " not in shown


@pytest.mark.parametrize(
    ("texts", "partitions", "wanted"),
    [
        (["orders"], [], {"orders": None}),
        (["orders:0"], [], {"orders": [0]}),
        (["orders:2,0,5-7"], [], {"orders": [0, 2, 5, 6, 7]}),
        (["orders", "bills:1"], ["0,3"], {"orders": [0, 3], "bills": [1]}),
        (["orders"], ["3", "0-1"], {"orders": [0, 1, 3]}),
        (["orders:1", "orders:0"], [], {"orders": [0, 1]}),
        (["orders:1", "orders"], [], {"orders": None}),
        (["orders", "orders:1"], [], {"orders": None}),
        (["a.b_c-D"], [], {"a.b_c-D": None}),
    ],
)
def test_topics_with_partitions_are_parsed(texts, partitions, wanted):
    assert parse_topics(texts, partitions) == wanted


@pytest.mark.parametrize("text", ["", ",", "x", "-1", "1-", "3-1", "1.5", "0-99999999", "1,,2"])
def test_an_invalid_list_of_partitions_is_an_error(text):
    with pytest.raises(ConfigError, match="is not a valid list of partitions"):
        parse_partitions(text)


def test_partitions_without_a_topic_are_an_error() -> None:
    with pytest.raises(ConfigError, match="':1' is not a valid topic"):
        parse_topics([":1"])


def test_alternatives_are_joined_with_or() -> None:
    assert [format_alternatives(names) for names in ("a", "ab", "abc")] == ["a", "a or b", "a, b or c"]


def test_the_closest_names_ignore_case() -> None:
    names = ["level", "Lever", "codec"]
    assert sorted(closest_names("LEVLE", names)) == ["Lever", "level"]
    assert closest_name("LEVELS", names) == "level"
    assert closest_name("xyzzy", names) is None


def test_similar_names_are_suggested() -> None:
    names = ["orders", "Orders-v2", "payments", "__consumer_offsets"]
    assert did_you_mean("order", names).startswith(" (did you mean orders")
    assert did_you_mean("ORDERS", names).startswith(" (did you mean orders")
    assert did_you_mean("zzz", names) == ""


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
        ("100000000", 100_000_000_000),  # the first and the last of both units
        ("9999999999", 9_999_999_999_000),
        ("100000000000", 100_000_000_000),
        ("9999999999999", 9_999_999_999_999),
        ("1704067200.5", NOW_MS + 500),
        ("now", NOW_MS),
        ("-1h30m", NOW_MS - 3 * HOUR_MS // 2),
    ],
)
def test_times_as_people_write_them(text: str, ms: int) -> None:
    assert parse_time(text, NOW_MS) == ms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2024-02-30T00:00:00.000", "not on the calendar"),
        ("2024-01-01T25:00:00.000", "not on the calendar"),
        ("2024-01-01T24:00", "not on the calendar"),
        ("1969-12-31", "before 1970"),
        ("yesterday", "'yesterday' is not a valid time; use "),
        ("1h", "is not a valid time"),
        ("", "is not a valid time"),
        ("9" * 30, "seconds since 1970 have 9 or 10 digits, milliseconds 12 or 13, without a fraction"),
        # microseconds, nanoseconds, and numbers of which the unit is not certain
        ("1704067200000000", "seconds since 1970 have 9 or 10 digits"),
        ("1704067200000000000", "seconds since 1970 have 9 or 10 digits"),
        ("17040672000", "seconds since 1970 have 9 or 10 digits"),
        ("17040672", "seconds since 1970 have 9 or 10 digits"),
        ("0170406720", "seconds since 1970 have 9 or 10 digits"),
        ("1704067200000.5", "seconds since 1970 have 9 or 10 digits"),
        ("0", "seconds since 1970 have 9 or 10 digits"),
        ("-5", "is not a valid time"),
        # dates without hyphens
        ("20261128", "'20261128' is not a valid time; write the date as 2026-11-28"),
        ("202611281230", "write the date as 2026-11-28T12:30"),
        ("20261128123059", "write the date as 2026-11-28T12:30:59"),
        ("20261128123059250", "write the date as 2026-11-28T12:30:59.250"),
        ("20261399", "seconds since 1970 have 9 or 10 digits"),
        ("9" * 1000, "is not a valid time"),
    ],
)
def test_an_invalid_time_is_reported(text: str, words: str) -> None:
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
def test_durations_as_people_write_them(text: str, ms: int) -> None:
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
def test_an_invalid_duration_is_reported(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as bad:
        parse_duration(text)
    assert words in str(bad.value)


@pytest.mark.parametrize("expression", ["[[a]", "[a||b]", b"[a&&b]", b"[[:alpha:]]"])
def test_a_regular_expression_compiles_without_warnings(expression: str | bytes) -> None:
    re.purge()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_regex(expression).pattern == expression


@pytest.mark.parametrize("expression", ["(", r"\q", "a{99999999999}", "(" * 5000 + ")" * 5000])
def test_each_fault_of_a_regular_expression_is_one_kind_of_error(expression: str) -> None:
    with pytest.raises(re.error):
        compile_regex(expression)

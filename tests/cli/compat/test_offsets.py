"""Values of --reset-offsets: times and durations as Apache's tool parses them (java.text.SimpleDateFormat,
java.time.Duration), and lines of its CSV, whose numbers Java must be able to parse."""

from __future__ import annotations

import pytest

from kcli.cli.compat.messages import Failed
from kcli.cli.compat.offsets import parse_duration, parse_moment, read_offsets
from kcli.structs import OffsetAndMetadata, TopicPartition

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
def test_a_time_is_parsed(text: str, ms: int) -> None:
    assert parse_moment(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2024-01-01", "2024-01-01T", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z"),
        *("2024-02-30T00:00:00.000", "2024-01-01T24:00:00.000", "2024-01-01T00:00:00.1000", "0000-01-01T00:00:00.000"),
        *("99999999999-01-01T00:00:00.000", "2024-01-01T00:00:99999999999.000"),
        # Apache's tool takes these two, for +05 and for a moment in UTC.
        *("2024-01-01T00:00:00.000+0530", "2024-01-01T00:00:00.000Zzz"),
    ],
)
def test_an_invalid_time_is_an_error(text: str) -> None:
    with pytest.raises(Failed, match="ParseException"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("PT1H", HOUR), ("pt1h", HOUR), ("-PT1H", -HOUR), ("PT-1H", -HOUR), ("P1DT2H", 26 * HOUR)),
        *(("PT1.5S", 1_500), ("PT1,5S", 1_500), ("PT-1.5S", -1_500), ("PT0S", 0)),
        ("PT0.0001S", 1),  # rounded up: an earlier time may add a record and never skips one
    ],
)
def test_a_duration_is_parsed(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "1h", "P", "PT", "P1H", "PT1D", "P1DT", "PT1H ", "P1M", "P1W"])
def test_an_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(Failed, match="cannot be parsed to a Duration"):
        parse_duration(text)


@pytest.mark.parametrize("number", ["1_0", "\u0663", "9223372036854775808", "9" * 5000, "", "1.0", "0x1"])
def test_an_invalid_offset_is_an_error(number: str) -> None:
    with pytest.raises(Failed, match=r"line 2 of f\.csv"):
        read_offsets(f"t,0,1\nt,1,{number}\n", "f.csv", ["g"])


@pytest.mark.parametrize("number", ["0_1", "2147483648"])
def test_an_invalid_partition_is_an_error(number: str) -> None:
    with pytest.raises(Failed, match="is not a valid partition"):
        read_offsets(f"t,{number},1\n", "f.csv", ["g"])


def test_the_largest_offset_and_blanks_around_numbers_are_read() -> None:
    offsets = read_offsets("t, 0 ,9223372036854775807\n", "f.csv", ["g"])
    assert offsets == {("g", TopicPartition("t", 0)): OffsetAndMetadata(2**63 - 1)}

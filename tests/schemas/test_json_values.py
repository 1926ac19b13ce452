"""JSON of native values, and the times that it contains."""

import datetime
import enum
import json
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.schemas.json_values import (
    Duration,
    Timestamp,
    json_ready,
    json_text,
    json_texts,
    parse_clock,
    parse_timestamp,
)

UTC = datetime.timezone.utc


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": b"\xff", 1: True, None: 2}, '{"a":"/w==","1":true,"null":2}'),
        ({b"k": [bytearray(b"a")]}, '{"aw==":["YQ=="]}'),
        ([float("nan"), float("inf"), float("-inf"), 0.5], '["NaN","Infinity","-Infinity",0.5]'),
        (2**64, "18446744073709551616"),
        (Decimal("1.10"), '"1.10"'),
        (Decimal("0E-20"), '"0.00000000000000000000"'),
        (Decimal("1E+3"), '"1000"'),
        (datetime.datetime(2020, 1, 2, 3, 4, 5, 6, UTC), '"2020-01-02T03:04:05.000006Z"'),
        (datetime.datetime(2020, 1, 2, 3, 4), '"2020-01-02T03:04:00"'),
        (datetime.date(2020, 1, 2), '"2020-01-02"'),
        (datetime.time(1, 2, 3), '"01:02:03"'),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (Duration(1, 2, 3), '{"months":1,"days":2,"milliseconds":3}'),
        (Colour.RED, "1"),
        ("é\n", '"é\\n"'),
        ("\ud800é", '"\\ud800\\u00e9"'),
    ],
)
def test_json_of_native_values(value: object, text: str):
    assert json_texts([value]) == [text]
    assert json.loads(text) == json_ready(value)
    json_text(value).encode()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_700_000_000_120_000_000, "2023-11-14T22:13:20.120Z"),
        (1_700_000_000_000_120_000, "2023-11-14T22:13:20.000120Z"),
        (-62_135_596_800 * 10**9, "0001-01-01T00:00:00Z"),
        (-62_167_219_201 * 10**9, "-0001-12-31T23:59:59Z"),
        (253_402_300_800 * 10**9, "+10000-01-01T00:00:00Z"),
        (9223372036854775807 * 10**6, "+292278994-08-17T07:12:55.807Z"),
    ],
)
def test_timestamps_outside_the_years_of_datetime(nanoseconds: int, text: str):
    assert Timestamp(nanoseconds).isoformat() == text
    assert json_text(Timestamp(nanoseconds, is_local=True)) == f'"{text[:-1]}"'
    assert parse_timestamp(text) == Timestamp(nanoseconds)


@given(st.integers(-(2**80), 2**80), st.booleans())
def test_text_of_a_timestamp_is_read_back(nanoseconds: int, is_local: bool):
    text = Timestamp(nanoseconds, is_local=is_local).isoformat()
    year = text[: text.index("-", 1)]
    if len(year) < 10:
        assert parse_timestamp(text) == Timestamp(nanoseconds, is_local=is_local)


@given(st.datetimes(timezones=st.just(UTC)))
def test_timestamp_agrees_with_datetime(instant: datetime.datetime):
    parsed = parse_timestamp(json_ready(instant))
    assert (
        parsed.nanoseconds
        == (instant - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(microseconds=1) * 1000
    )
    assert datetime.datetime.fromisoformat(parsed.isoformat()[:-1].ljust(19, "0")[:19]) == instant.replace(
        tzinfo=None, microsecond=0
    )


def test_time_zones():
    assert parse_timestamp("2024-01-01T02:00:00+02:00") == parse_timestamp("2024-01-01 00:00:00z")
    assert parse_timestamp("2023-12-31T19:30-0430") == parse_timestamp("2024-01-01T00:00Z")


@pytest.mark.parametrize("text", ["2024-01-01", "2024-13-01T00:00Z", "2024-01-01T24:00Z", "x", "2024-01-01T00:00:60Z"])
def test_texts_that_are_not_times(text: str):
    with pytest.raises(ValueError):
        parse_timestamp(text)


def test_time_of_day():
    assert parse_clock("13:30:00.25") == (13 * 3600 + 30 * 60) * 10**9 + 250_000_000
    with pytest.raises(ValueError):
        parse_clock("13:60")

"""Arrow values in results: times outside the calendar, bytes that are not text, durations."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kcli.spark.pipelines.result import ms_of, rows_of, values_of
from kcli.spark.record_schema import MOST_MS
from kcli.text import format_time

YEAR_55840_MS = 1_700_000_000_000_000  # microseconds taken for milliseconds
INSTANT = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (YEAR_55840_MS, "1700000000000000"),
        (MOST_MS, str(MOST_MS)),
        (-MOST_MS, str(-MOST_MS)),
    ],
)
def test_a_time_outside_the_calendar_is_a_number(ms: int, text: str) -> None:
    assert format_time(ms) == text
    assert ms_of(text) == ms


def test_time_columns_may_have_any_year() -> None:
    us = [1_700_000_000_123_000, YEAR_55840_MS * 1000, None, -1000]
    shown = ["2023-11-14T22:13:20.123Z", "1700000000000000", None, "1969-12-31T23:59:59.999Z"]
    for kind in (INSTANT, pa.timestamp("us"), pa.timestamp("us", tz="Europe/Berlin")):
        assert values_of(pa.chunked_array([pa.array(us, kind)])) == shown
    nested = pa.array([{"at": at, "all": [at, None], "of": [("a", at)]} for at in us], _nested())
    table = pa.table({"t": nested, "offset": pa.array(range(4))})
    assert [row["offset"] for row in rows_of(table)] == [0, 1, 2, 3]
    assert [row["t"] for row in rows_of(table)] == [{"at": at, "all": [at, None], "of": [["a", at]]} for at in shown]
    assert values_of(pa.chunked_array([pa.array([0, 10**7, None], pa.date32())])) == ["1970-01-01", "10000000", None]


def _nested() -> Any:
    parts = [("at", INSTANT), ("all", pa.list_(INSTANT)), ("of", pa.map_(pa.string(), INSTANT))]
    return pa.struct(parts)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (timedelta(0), "PT0S"),
        (timedelta(days=1, hours=2, seconds=3.5), "P1DT2H3.5S"),
        (timedelta(minutes=90), "PT1H30M"),
        (-timedelta(days=7), "-P7D"),
        (timedelta(microseconds=1), "PT0.000001S"),
        (time(10, 30), "10:30:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, tzinfo=timezone.utc), "2026-01-31T00:00:00.000Z"),
        (b"text", "text"),
        (b"\xff\x00", "0xff00"),
        (Decimal("3.00"), 3),
        (Decimal("0.5"), 0.5),
        (True, True),
        ([b"\xff", None], ["0xff", None]),
        ({"a": {"b": [timedelta(1)]}}, {"a": {"b": ["P1D"]}}),
        (None, None),
    ],
)
def test_all_values_convert_to_json_types(value: Any, shown: Any) -> None:
    [found] = values_of(pa.chunked_array([pa.array([value])]))
    assert found == shown
    json.dumps(found)


def test_chunked_and_empty_tables() -> None:
    table = pa.table({"a": pa.chunked_array([pa.array([1], INSTANT), pa.array([None], INSTANT)])})
    assert rows_of(table) == [{"a": "1970-01-01T00:00:00.000Z"}, {"a": None}]
    assert rows_of(table.slice(0, 0)) == []

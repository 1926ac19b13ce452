"""Durations as people write and read them."""

from __future__ import annotations

import pytest

from kcli.text import duration_ms, format_duration, parse_duration_option


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

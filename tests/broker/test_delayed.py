"""Shared deadlines of long polls."""

from __future__ import annotations

import pytest

from kcli.broker.delayed import shared_deadline_ms


@pytest.mark.parametrize(
    ("wait_ms", "grain_ms"), [(1, 1), (50, 1), (99, 1.98), (500, 10), (1_000, 10), (5_000, 50), (30_000, 300)]
)
def test_shared_deadline_is_never_early_and_at_most_a_grain_late(wait_ms: int, grain_ms: float) -> None:
    for now_ms in (0.0, 17.3, 123_456.789):
        late_ms = shared_deadline_ms(now_ms, wait_ms) - (now_ms + wait_ms)
        assert 0 <= late_ms < grain_ms


def test_five_hundred_polls_of_half_a_second_share_fifty_deadlines() -> None:
    deadlines = {shared_deadline_ms(1_000 + n, 500) for n in range(500)}
    assert len(deadlines) <= 51


def test_five_hundred_long_polls_share_a_hundred_deadlines() -> None:
    deadlines = {shared_deadline_ms(1_000 + n * 10, 5_000) for n in range(500)}
    assert len(deadlines) <= 101

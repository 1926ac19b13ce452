"""Shared deadlines of long polls."""

from __future__ import annotations

import pytest

from kcli.broker.delayed import shared_deadline_ms


@pytest.mark.parametrize("wait_ms", [1, 99, 500, 5_000, 30_000])
def test_shared_deadline_is_never_early_and_at_most_one_percent_late(wait_ms: int) -> None:
    for now_ms in (0.0, 17.3, 123_456.789):
        late_ms = shared_deadline_ms(now_ms, wait_ms) - (now_ms + wait_ms)
        assert 0 <= late_ms < max(1, wait_ms / 100)


def test_five_hundred_long_polls_share_a_hundred_deadlines() -> None:
    deadlines = {shared_deadline_ms(1_000 + n * 10, 5_000) for n in range(500)}
    assert len(deadlines) <= 101

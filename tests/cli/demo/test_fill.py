"""The demo's orders: believable, and the same ones every time."""

from __future__ import annotations

import json
import random

from kcli.cli.demo.fill import SPAN_MS, orders

NOW_MS = 1_763_700_000_000


def test_the_events_of_an_order_are_in_order() -> None:
    seen: dict[int, list[str]] = {}
    for record in orders(2000, NOW_MS, random.Random(1)):
        order = json.loads(record.value or b"")
        assert record.key == order["customer"].encode()
        seen.setdefault(order["order"], []).append(order["event"])
    sequences = {tuple(events) for events in seen.values()}
    assert sequences == {
        ("placed",),
        ("placed", "paid"),
        ("placed", "cancelled"),
        ("placed", "paid", "shipped"),
        ("placed", "paid", "refunded"),
    }


def test_timestamps_rise_over_the_last_two_hours() -> None:
    times = [record.timestamp_ms for record in orders(500, NOW_MS, random.Random(1))]
    assert times == sorted(times)
    assert NOW_MS - SPAN_MS < times[0] < times[-1] < NOW_MS
    assert times[-1] > NOW_MS - 60_000


def test_equal_seeds_make_equal_orders() -> None:
    assert list(orders(50, NOW_MS, random.Random(3))) == list(orders(50, NOW_MS, random.Random(3)))

"""The demo's orders: believable, and the same ones every time."""

from __future__ import annotations

import json
import random

from kcli.cli.demo.traffic import SPAN_MS, orders

NOW_MS = 1_763_700_000_000


def test_an_order_goes_its_way_one_event_after_another() -> None:
    seen: dict[int, list[str]] = {}
    for record in orders(2000, NOW_MS, random.Random(1)):
        order = json.loads(record.value or b"")
        assert record.key == order["customer"].encode()
        seen.setdefault(order["order"], []).append(order["event"])
    ways = {tuple(events) for events in seen.values()}
    assert ways == {
        ("placed",),
        ("placed", "paid"),
        ("placed", "cancelled"),
        ("placed", "paid", "shipped"),
        ("placed", "paid", "refunded"),
    }


def test_times_rise_over_the_last_two_hours() -> None:
    times = [record.timestamp_ms for record in orders(500, NOW_MS, random.Random(1))]
    assert times == sorted(times)
    assert NOW_MS - SPAN_MS < times[0] < times[-1] < NOW_MS
    assert times[-1] > NOW_MS - 60_000


def test_the_same_chance_makes_the_same_orders() -> None:
    assert list(orders(50, NOW_MS, random.Random(3))) == list(orders(50, NOW_MS, random.Random(3)))

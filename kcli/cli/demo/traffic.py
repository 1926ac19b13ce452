"""Believable orders of a shop, as records of the last two hours. Pure: time and chance are arguments."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from kcli.protocol.records.record import NewRecord

SPAN_MS = 2 * 3_600_000
CUSTOMERS = 120
CITIES = ("Berlin", "Kraków", "Lisbon", "Lyon", "Malmö", "Porto", "Turin")
ITEMS = {"lamp": 3900, "kettle": 4500, "chair": 12900, "mug": 1250, "poster": 1990, "blanket": 5400}
SOURCES = (b"web", b"web", b"app", b"app", b"app", b"phone")


def orders(count: int, now_ms: int, chance: random.Random) -> Iterator[NewRecord]:
    """`count` events, oldest first, keyed by customer; each order is placed, mostly paid, then shipped or refunded."""
    open_orders: list[dict[str, object]] = []
    for n in range(count):
        timestamp_ms = now_ms - SPAN_MS + SPAN_MS * (n + 1) // (count + 1)
        if open_orders and chance.random() < 0.6:
            order = open_orders.pop(chance.randrange(len(open_orders)))
            order["event"] = _next_event(str(order["event"]), chance)
        else:
            item = chance.choice(list(ITEMS))
            order = {
                "order": 10_000 + n,
                "event": "placed",
                "customer": f"c{chance.randrange(CUSTOMERS):03}",
                "item": item,
                "cents": ITEMS[item] * chance.choice((1, 1, 1, 2, 3)),
                "city": chance.choice(CITIES),
            }
        if order["event"] in ("placed", "paid"):
            open_orders.append(order)
        value = json.dumps(order, ensure_ascii=False, separators=(",", ":")).encode()
        headers = [("source", chance.choice(SOURCES))]
        yield NewRecord(str(order["customer"]).encode(), value, timestamp_ms, headers)


def _next_event(event: str, chance: random.Random) -> str:
    if event == "placed":
        return "paid" if chance.random() < 0.9 else "cancelled"
    return "shipped" if chance.random() < 0.85 else "refunded"

"""Data of the demo: a topic with a shop's orders, and two groups, one of which has lag."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from kcli.errors import BrokerError, KcliError
from kcli.protocol.records.record import NewRecord, NewRecords
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.clock import Clock

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 3000
#: Fraction of the records that each group has read.
GROUPS = {"billing": 1.0, "mailing": 0.8}

_SEED = 7
_TIMEOUT_MS = 10_000


def fill(properties: dict[str, str], clock: Clock, replicas: int = 1) -> list[str]:
    """Fill the broker of these client properties; return one sentence per topic and group.

    With more than one of the `replicas`, one may be lost without an effect on writes.

    `KcliError` if the broker refuses.
    """
    from kcli.client.config import ClientConfig
    from kcli.client.connect import connect

    with closing(connect(ClientConfig.from_properties(properties), clock)) as client:
        deadline_ms = clock.now_ms() + _TIMEOUT_MS
        ends = _write_orders(properties, client, clock, replicas, deadline_ms)
        sentences = [f"Topic {TOPIC}: {sum(ends.values())} events of the last two hours in {PARTITIONS} partitions."]
        for group, share in GROUPS.items():
            lag = _commit(client, group, ends, share, deadline_ms)
            sentences.append(f"Group {group}: {f'{lag} records behind' if lag else 'has read all records'}.")
        return sentences


def _write_orders(
    properties: dict[str, str], client: ConsumerNetworkClient, clock: Clock, replicas: int, deadline_ms: float
) -> dict[TopicPartition, int]:
    """Create the topic and write the orders; return the end offset of each partition."""
    from kcli.admin.topics import NewTopic, create_topics
    from kcli.client.config import ProducerConfig
    from kcli.producer.batches import Outcome
    from kcli.producer.producer import Producer

    configs = {"min.insync.replicas": str(replicas - 1)} if replicas > 2 else {}
    created = create_topics(client, [NewTopic(TOPIC, PARTITIONS, replicas, configs)], deadline_ms)
    for error in created.errors.values():
        raise error
    ends = {TopicPartition(TOPIC, number): 0 for number in range(PARTITIONS)}

    errors: list[KcliError] = []

    def on_outcome(outcome: Outcome) -> None:
        if outcome.error is not None:
            errors.append(outcome.error)
        ends[outcome.tp] = max(ends[outcome.tp], outcome.base_offset + outcome.record_count)

    producer = Producer.from_config(ProducerConfig.from_properties(properties), client, in_background=False)
    producer.send_many(TOPIC, NewRecords.of(orders(RECORDS, clock.wall_ms(), random.Random(_SEED))), on_outcome)
    producer.flush(max(0.0, deadline_ms - clock.now_ms()))
    for error in errors:
        raise error
    return ends


def _commit(
    client: ConsumerNetworkClient, group: str, ends: dict[TopicPartition, int], share: float, deadline_ms: float
) -> int:
    """Commit at this share of each partition; return the number of unread records."""
    from kcli.admin.offsets.commits import commit_offsets

    offsets = {tp: OffsetAndMetadata(int(end * share)) for tp, end in ends.items()}
    for tp, code in commit_offsets(client, group, offsets, deadline_ms).items():
        if code:
            raise BrokerError(code, topic=tp.topic, partition=tp.partition, group=group)
    return sum(end - offsets[tp].offset for tp, end in ends.items())


SPAN_MS = 2 * 3_600_000
CUSTOMERS = 120
CITIES = ("Berlin", "Kraków", "Lisbon", "Lyon", "Malmö", "Porto", "Turin")
ITEMS = {"lamp": 3900, "kettle": 4500, "chair": 12900, "mug": 1250, "poster": 1990, "blanket": 5400}
SOURCES = (b"web", b"web", b"app", b"app", b"app", b"phone")


def orders(count: int, now_ms: int, rng: random.Random) -> Iterator[NewRecord]:
    """Yield `count` events, oldest first, keyed by customer: an order is placed, then mostly paid, then shipped or
    refunded.

    Deterministic: the time and the random generator are arguments.
    """
    open_orders: list[dict[str, object]] = []
    for n in range(count):
        timestamp_ms = now_ms - SPAN_MS + SPAN_MS * (n + 1) // (count + 1)
        if open_orders and rng.random() < 0.6:
            order = open_orders.pop(rng.randrange(len(open_orders)))
            order["event"] = _next_event(str(order["event"]), rng)
        else:
            item = rng.choice(list(ITEMS))
            order = {
                "order": 10_000 + n,
                "event": "placed",
                "customer": f"c{rng.randrange(CUSTOMERS):03}",
                "item": item,
                "cents": ITEMS[item] * rng.choice((1, 1, 1, 2, 3)),
                "city": rng.choice(CITIES),
            }
        if order["event"] in ("placed", "paid"):
            open_orders.append(order)
        value = json.dumps(order, ensure_ascii=False, separators=(",", ":")).encode()
        headers = [("source", rng.choice(SOURCES))]
        yield NewRecord(str(order["customer"]).encode(), value, timestamp_ms, headers)


def _next_event(event: str, rng: random.Random) -> str:
    if event == "placed":
        return "paid" if rng.random() < 0.9 else "cancelled"
    return "shipped" if rng.random() < 0.85 else "refunded"

"""Shared helpers for tests of `kcli group explain`: records, commits, and findings."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tests.cli.fake import run_kcli
from tests.real_kafka import Kafka

Found = dict[str, dict[str, Any]]
NOT_FOUND = 3


def explained(kafka: Kafka, group: str, interval_s: float = 0.2, status: int = 0) -> Found:
    """Return the findings by kind."""
    result = run_kcli(
        *("group", "explain", group, "-b", kafka.bootstrap_servers, "--interval", str(interval_s), "--output", "json")
    )
    assert result.status in (0, status), result.err
    (item,) = json.loads(result.text)["items"]
    return {finding["finding"]: finding for finding in item.get("findings", ())}


def until_found(kafka: Kafka, group: str, kind: str, interval_s: float = 0.2, timeout_s: float = 20) -> Found:
    """Repeat the command until it reports this finding: members and brokers need a moment."""
    deadline = time.monotonic() + timeout_s
    while kind not in (found := explained(kafka, group, interval_s, NOT_FOUND)):
        assert time.monotonic() < deadline, found
    return found


def fill(kafka: Kafka, topic: str, records: dict[int, int], **how: Any) -> None:
    """Write this number of records to each of these partitions."""
    producer = kafka.ordered_producer()
    for partition, number in records.items():
        for _ in range(number):
            producer.produce(topic, b"x" * 100, partition=partition, **how)
    assert producer.flush(30) == 0


def commit(kafka: Kafka, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit for a group without members, as a consumer with assigned partitions does."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    done = consumer.commit(offsets=[At(topic, *it) for it in offsets.items()], asynchronous=False)
    assert not [at.error for at in done if at.error]
    consumer.close()


@contextmanager
def meanwhile(work: Callable[[], None], every_s: float = 0.02) -> Iterator[None]:
    """Repeat `work` until the block ends."""
    over = threading.Event()

    def go() -> None:
        while not over.wait(every_s):
            work()

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

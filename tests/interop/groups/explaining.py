"""Shared helpers for tests of `kcli group explain`: records, commits, and findings."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.requests import ask_any, ask_node
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
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


def write_unknown_transaction(kafka: Kafka, topic: str) -> int:
    """Write a record in a transaction that no coordinator knows to partition 0, which node 1 leads; return its
    producer id. The brokers must not verify transactions (transaction.partition.verification.enable).
    """
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))) as client:
        deadline_ms = client.clock.now_ms() + 20_000
        leader = client.topics_metadata([topic], deadline_ms).nodes[1]
        given = ask_any(client, InitProducerIdRequest(transactional_id=None), deadline_ms)
        while given.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # the first producer id of a broker
            client.sleep(20)
            given = ask_any(client, InitProducerIdRequest(transactional_id=None), deadline_ms)
        assert given.error_code == 0
        batch = build_batch(
            [NewRecord(None, b"hangs", int(time.time() * 1000), [])],
            producer_id=given.producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id="nobody", acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = ask_node(client, leader, request, deadline_ms, max_version=11)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return given.producer_id

"""One data directory used in turn by a real Kafka and by our broker: each continues where the other stopped or was
killed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.real_kafka import Kafka, KafkaNode

pytestmark = pytest.mark.slow

Row = tuple[int, bytes | None, bytes | None]

# Words in a broker's log that say it was not content with what it found.
COMPLAINTS = re.compile(r"corrupt|rebuil[dt]|truncat|damaged|stray|inconsisten|fail", re.IGNORECASE)
HARMLESS = re.compile(
    r"log\.cleaner|= |truncateOnRestart|authorization failed|Truncating to|failed authentication|Truncation|failover",
)


def produce(broker: Kafka, topic: str, rows: list[tuple[bytes, bytes | None]], **settings: Any) -> None:
    refused: list[str] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0, **settings}
    )
    for key, value in rows:
        producer.produce(topic, value, key, partition=0, on_delivery=lambda e, _: refused.append(str(e)) if e else None)
    assert producer.flush(60) == 0
    assert not refused


def read(broker: Kafka, topic: str, partition: int = 0) -> list[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    rows: list[Row] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            consumer.close()
            return rows
        rows.append((message.offset(), message.key(), message.value()))
    raise AssertionError(f"no end of {topic} after {len(rows)} records")


def commit(broker: Kafka, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    deadline = time.monotonic() + 30
    try:
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                return
            except KafkaException:  # a real Kafka makes the topic of the offsets only now
                assert time.monotonic() < deadline, f"group {group} found no coordinator"
                time.sleep(0.1)
    finally:
        consumer.close()


def committed(broker: Kafka, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset)
    finally:
        consumer.close()


def complaints(log: str) -> list[str]:
    lines = [line for line in log.splitlines() if "WARN" in line or "ERROR" in line or "kcli broker:" in line]
    return [line for line in lines if COMPLAINTS.search(line) and not HARMLESS.search(line)]


class Turns:
    """The directory and the broker that uses it now."""

    def __init__(self, real: KafkaNode) -> None:
        self.real = real
        self.ours = BrokerProcess(real.folder, real.jars, settings={"log.cleaner.backoff.ms": "200"})
        self.now: Any = real
        self._said = 0

    def hand_over(self, *, clean: bool) -> Any:
        if clean:
            self.now.stop()
        else:
            self.now.kill()
        self.now = self.ours if self.now is self.real else self.real
        self._said = len(self.log)
        self.now.start()
        return self.now

    @property
    def log(self) -> str:
        return Path(self.now.log_file).read_text(errors="replace") if Path(self.now.log_file).exists() else ""

    @property
    def said(self) -> str:
        """Return what the current broker has logged since it started."""
        return self.log[self._said :]


@pytest.fixture
def turns(own_kafka: Callable[..., KafkaNode]) -> Any:
    turns = Turns(own_kafka(log_segment_bytes=str(1 << 20)))
    yield turns
    turns.ours.kill()


def rows(start: int, count: int, size: int = 1000) -> list[tuple[bytes, bytes | None]]:
    return [(b"k%d" % (number % 10), b"%d " % number + b"v" * size) for number in range(start, start + count)]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_each_broker_serves_the_data_of_the_other(turns: Turns, clean: bool) -> None:
    real = turns.real
    real.create_topic("orders", 2)
    written = rows(0, 1500)
    produce(real, "orders", written, **{"batch.num.messages": 50})
    upto = 700
    commit(real, "billing", "orders", upto)
    for last in (1600, 1650):
        broker = turns.hand_over(clean=clean)
        assert [row[1:] for row in read(broker, "orders")] == written
        assert [row[0] for row in read(broker, "orders")] == [*range(len(written))]
        assert committed(broker, "billing", "orders") == upto
        more = rows(len(written), last - len(written))
        produce(broker, "orders", more)
        written += more
        upto = len(written)
        commit(broker, "billing", "orders", upto)
        if clean:
            assert complaints(turns.said) == []
    broker = turns.hand_over(clean=clean)
    assert [row[1:] for row in read(broker, "orders")] == written
    assert committed(broker, "billing", "orders") == len(written)
    assert read(broker, "orders", 1) == []


def test_a_topic_compacted_by_one_broker_is_served_and_cleaned_by_the_other(turns: Turns) -> None:
    real = turns.real
    real.create_topic("comp", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms=500)
    newest: dict[bytes, bytes | None] = {}

    def write_and_clean(broker: Kafka, start: int) -> None:
        for number in range(start, start + 3):
            batch = rows(number * 100, 100, 20)
            produce(broker, "comp", batch)
            newest.update(batch)
            time.sleep(0.7)
        produce(broker, "comp", [(b"end", b"%d" % start)])
        newest[b"end"] = b"%d" % start
        deadline = time.monotonic() + 30
        while len(read(broker, "comp")) > 130:
            assert time.monotonic() < deadline, "nobody cleaned"
            time.sleep(0.2)

    write_and_clean(real, 0)
    for start in (10, 20):
        broker = turns.hand_over(clean=True)
        if broker is turns.ours:  # it does not know the topic's settings, which are in the real one's metadata log
            from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            wanted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"}
            resource = ConfigResource(ConfigResource.Type.TOPIC, "comp")
            resource.incremental_configs = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
            ]
            for done in admin.incremental_alter_configs([resource]).values():
                done.result(30)
        before = read(broker, "comp")
        assert {key: value for _, key, value in before} == newest
        write_and_clean(broker, start)
        after = read(broker, "comp")
        assert {key: value for _, key, value in after} == newest
        assert [row[0] for row in after] == sorted(row[0] for row in after)
        assert complaints(turns.said) == []

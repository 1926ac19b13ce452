"""One data directory used in turn by a real Kafka and by our broker: each continues where the other stopped or was
killed.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.records.batch import walk_batches
from tests.broker.wire import Wire
from tests.broker_process import BrokerProcess
from tests.real_kafka import Kafka, KafkaNode, read_until_equal

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
    lines = [line for line in log.splitlines() if "WARN" in line or "ERROR" in line or line.startswith("kcli: ")]
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


def write_transactions(broker: Kafka, topic: str) -> None:
    """Write interleaved transactions of three producers and records without one; leave one transaction open."""
    chance = random.Random(5)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transaction.timeout.ms": 600_000, "log_level": 2}
    settings["linger.ms"] = 1000  # a batch has all records up to the next flush
    writers = [Producer({**settings, "transactional.id": f"writer-{number}"}) for number in range(3)]
    for writer in writers:
        writer.init_transactions(60)
    plain = broker.ordered_producer(topic)
    is_open: list[Producer] = []
    written = 0
    for number in range(300):
        writer = chance.choice([*writers, plain])
        if writer in is_open and chance.random() < 0.15:
            (writer.commit_transaction if chance.random() < 0.5 else writer.abort_transaction)(30)
            is_open.remove(writer)
            written += 1  # its marker
            continue
        if writer is not plain and writer not in is_open:
            writer.begin_transaction()
            is_open.append(writer)
        for part in range(chance.randrange(1, 4)):
            writer.produce(topic, b"%d.%d " % (number, part) + b"v" * chance.randrange(8000), b"k", partition=0)
            written += 1
        writer.flush(30)
    assert is_open
    for writer in is_open[1:]:
        writer.abort_transaction(30)
        written += 1
    # The end of a transaction is answered before its marker is written.
    assert read_until_equal(written, lambda: fetch_committed(broker, topic, 0)[1]) == written


def committed_fetch(topic: str, offset: int, max_bytes: int = 1, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(isolation_level=1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics)


def fetch_committed(broker: Kafka, topic: str, *wanted: int, max_wait_ms: int = 0) -> tuple[Any, ...]:
    """Return the offsets, the aborted transactions and the first batches' offsets of a read_committed Fetch."""
    request = committed_fetch(topic, *wanted, max_wait_ms=max_wait_ms)
    with Wire(broker.bootstrap_servers) as wire:
        row = wire.ask(request, 12).responses[0].partitions[0]
    data = bytes(row.records)
    starts = [int.from_bytes(data[at : at + 8], "big") for at in walk_batches(data, 0, len(data)).starts]
    aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
    return row.error_code, row.high_watermark, row.last_stable_offset, aborted, starts


def seen_by_readers(broker: Kafka, topic: str, kcat: str) -> tuple[Any, ...]:
    chance = random.Random(6)
    fetches = [(chance.randrange(450), chance.choice([1, 5_000, 50_000, 2_000_000])) for _ in range(60)]
    command = [kcat, "-b", broker.bootstrap_servers, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    command += ["-X", "isolation.level=read_committed", "-f", "%o "]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    fetched = [fetch_committed(broker, topic, *one) for one in fetches]
    _, high_watermark, stable_offset, *_ = fetched[0]
    fetched.append(fetch_committed(broker, topic, high_watermark - 1, max_wait_ms=60_000))  # answered at once
    with Wire(broker.bootstrap_servers) as wire:  # the first open batch has several records
        wire.request(committed_fetch(topic, stable_offset + 1, max_wait_ms=60_000), 12)
        assert wire.is_open(for_s=0.3), "a fetch within the first batch that is not stable must wait"
    return read(broker, topic), printed, fetched


def transaction_indexes(broker: KafkaNode) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (broker.data / "tx-0").glob("*.txnindex")}


def test_read_committed_readers_see_the_same_from_both_brokers(turns: Turns, kcat: str) -> None:
    real = turns.real
    real.create_topic("tx", 1)
    write_transactions(real, "tx")
    seen = seen_by_readers(real, "tx", kcat)
    ours = turns.hand_over(clean=True)
    assert seen_by_readers(ours, "tx", kcat) == seen
    assert complaints(turns.said) == []
    ours.stop()
    written = transaction_indexes(real)
    assert len(written) > 1
    for path in written:
        path.unlink()
    ours.start()
    assert seen_by_readers(ours, "tx", kcat) == seen
    assert transaction_indexes(real) == written
    next(iter(written)).write_bytes(b"garbage")
    theirs = turns.hand_over(clean=False)
    assert seen_by_readers(theirs, "tx", kcat) == seen
    assert transaction_indexes(real) == written

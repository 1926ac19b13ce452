"""A topic with known content on a real Kafka, against which the results of the pipelines are checked.

Partition 0 has holes that compaction left, then hot keys. Partition 1 has null keys and values, JSON whose fields
drift, what is not valid JSON, duplicates; times go back and forth. Partition 2 lost its head to DeleteRecords, and has
committed and aborted transactions with their markers. A group has lag in all of them.

Nothing here is made up while it is read: offsets are counted as records are written, and a foreign client has read the
topic before a test sees it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.real_kafka import Kafka

BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MINUTE_MS = 60_000
PARTITIONS = 3
DELETED_BEFORE = 40
"""Log start of partition 2."""
KEPT, COMPACTED, DELETED, ABORTED = "kept", "compacted", "deleted", "aborted"

_COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "0",
}
# Compaction is enabled again, because gaps need an explanation, but compacts no more: its lag exceeds the age of
# records.
_AT_REST = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(50 * 365 * 86_400_000)}
_KEYLESS = {"cleanup.policy": "delete", "retention.ms": "-1"}
_DROPPED = ("segment.ms", "min.cleanable.dirty.ratio", "max.compaction.lag.ms", "delete.retention.ms")


class Known(NamedTuple):
    """A written record. `fate`: its final state; `batch`: number of its record batch within the partition.

    Batches are not compressed, and a batch has exactly the records with its number.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    batch: int
    fate: str = KEPT
    transactional: bool = False


class KnownTopic(NamedTuple):
    """`written` has the records in offset order per partition; `markers` are the offsets of control records; `ends` the
    log end offsets; `group` has committed `committed`.
    """

    kafka: Kafka
    name: str
    written: list[Known]
    markers: dict[int, list[int]]
    ends: dict[int, int]
    group: str
    committed: dict[int, int]

    def seen(self, partition: int | None = None, *, committed: bool = False) -> list[Known]:
        """Return the records that a consumer reads; `committed`: under read_committed, without aborted records."""
        fates = {KEPT} if committed else {KEPT, ABORTED}
        return [it for it in self.written if it.fate in fates and partition in (None, it.partition)]

    def options(self, **more: str) -> dict[str, str]:
        """Return options with which format "kcli" reads the whole topic."""
        return {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "subscribe": self.name, **more}


class _Writer:
    """Writer that counts offsets and batches. A batch is the records between two flushes."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic
        self.written: list[list[Known]] = [[] for _ in range(PARTITIONS)]
        self.markers: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._batches = dict.fromkeys(range(PARTITIONS), 0)
        self._plain = kafka.ordered_producer(topic, linger_ms=10_000)
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.new_name("known")}
        self._transactional = Producer({**settings, "linger.ms": 10_000})
        self._transactional.list_topics(topic, 30)
        self._transactional.init_transactions(30)

    def batch(self, partition: int, rows: Iterable[Sequence[Any]], *, fate: str = KEPT, producer: Any = None) -> None:
        """Write a batch of (timestamp, key, value)."""
        for timestamp_ms, key, value in rows:
            (producer or self._plain).produce(self.topic, value, key, partition, timestamp=timestamp_ms)
            known = Known(partition, self.ends[partition], timestamp_ms, key, value, self._batches[partition], fate)
            self.written[partition].append(known._replace(transactional=producer is not None))
            self.ends[partition] += 1
        assert (producer or self._plain).flush(60) == 0
        self._batches[partition] += 1

    def transaction(self, partition: int, rows: Iterable[Sequence[Any]], *, aborts: bool = False) -> None:
        producer = self._transactional
        producer.begin_transaction()
        self.batch(partition, rows, fate=ABORTED if aborts else KEPT, producer=producer)
        (producer.abort_transaction if aborts else producer.commit_transaction)(30)
        self.markers[partition].append(self.ends[partition])
        self.ends[partition] += 1
        self._batches[partition] += 1
        # The coordinator answers before the markers are written.
        _until(lambda: _end(self.kafka, self.topic, partition) == self.ends[partition], "a transaction's marker")

    def keyless(self, partition: int) -> bool:
        """Return whether the broker accepts a record without a key: a log applies a changed setting a moment later."""
        taken: list[bool] = []
        words = b"the first"
        self._plain.produce(
            self.topic, words, None, partition, timestamp=BASE_MS, on_delivery=lambda e, _: taken.append(not e)
        )
        assert self._plain.flush(60) == 0
        if taken[0]:
            known = Known(partition, self.ends[partition], BASE_MS, None, words, self._batches[partition])
            self.written[partition].append(known)
            self.ends[partition] += 1
            self._batches[partition] += 1
        return taken[0]


def make_known_topic(kafka: Kafka) -> KnownTopic:
    """Create the topic. Takes some seconds, mostly for the log cleaner."""
    topic = kafka.create_topic(kafka.new_name("known"), PARTITIONS, **_COMPACTION)
    writer = _Writer(kafka, topic)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    _compacted(kafka, writer)
    _configure(admin, topic, _KEYLESS, _DROPPED)
    for partition in range(PARTITIONS):
        _until(lambda partition=partition: writer.keyless(partition), "records without keys to be taken")
    _hot(writer)
    _drifting(writer)
    _duplicated(writer)
    _transactions(writer)
    _delete_head(admin, writer)
    _configure(admin, topic, _AT_REST, ("retention.ms",))
    written = [record for partition in writer.written for record in partition]
    group, committed = kafka.new_name("known-group"), {0: 100, 1: writer.ends[1], 2: 60}
    known = KnownTopic(kafka, topic, written, writer.markers, dict(writer.ends), group, committed)
    _commit(kafka, group, topic, committed)
    for under_read_committed in (False, True):
        expected = [it[:5] for it in known.seen(committed=under_read_committed)]
        found = read(kafka, topic, committed=under_read_committed)
        wrong = [pair for pair in zip_longest(expected, found) if pair[0] != pair[1]]
        assert not wrong, f"the topic is not what it should be, first (expected, found) {wrong[0]}"
    return known


def _compacted(kafka: Kafka, writer: _Writer) -> None:
    """Write eight rounds with the same five keys and a new one, one segment each.

    The cleaner ignores the last round, in the active segment, and keeps the newest record of each key in the others. A
    round is one batch, which keeps its place in the log; two rounds have two batches, the first of which is removed
    completely.
    """
    rounds = 8
    for number in range(rounds):
        at = BASE_MS + number * MINUTE_MS
        rows = [(at + key, b"again-%d" % key, b"round %d" % number) for key in range(5)]
        if number in (0, 3):
            writer.batch(0, rows[:2])
            del rows[:2]
        writer.batch(0, [*rows, (at + 5, b"once-%d" % number, b"alone")])
    for place, it in enumerate(writer.written[0]):
        if it.key is not None and it.key.startswith(b"again") and it.timestamp_ms < BASE_MS + (rounds - 2) * MINUTE_MS:
            writer.written[0][place] = it._replace(fate=COMPACTED)
    left = [it[:5] for it in writer.written[0] if it.fate == KEPT]
    _until(lambda: read(kafka, writer.topic) == left, "the topic to be compacted")


def _hot(writer: _Writer) -> None:
    """Write 400 records: half with one key, a quarter with another; ten batches, three minutes apart."""
    for number in range(10):
        at = BASE_MS + (20 + 3 * number) * MINUTE_MS
        keys = [b"hot" if n % 2 else b"warm" if n % 4 else b"cold-%d" % (number * 40 + n) for n in range(40)]
        writer.batch(0, [(at + n * 1000, key, b"v" * (n + 1)) for n, key in enumerate(keys)])


def _drifting(writer: _Writer) -> None:
    """Write JSON in which `amount` becomes text, `currency` is added and `note` removed; times of odd batches run
    backwards.
    """
    for number in range(6):
        at = BASE_MS + 10 * number * MINUTE_MS
        rows = [
            (at + (-n if number % 2 else n) * 1000, b"customer-%d" % (n % 7), _document(number, n)) for n in range(25)
        ]
        writer.batch(1, rows)
    at = BASE_MS + 61 * MINUTE_MS
    odd = [None, b"", b"\xff\xfe\x00", b"not json", b"[1, 2]", b"17", b"null", b'{"id": 1', b"{}"]
    writer.batch(1, [(at + n, None if n % 2 else b"odd-%d" % n, value) for n, value in enumerate(odd)])


def _document(number: int, n: int) -> bytes:
    document: dict[str, Any] = {"id": number * 25 + n, "amount": n / 4 if number < 3 else f"{n}.00"}
    if number >= 2:
        document["currency"] = "EUR" if n % 5 else None
    if number < 4:
        document["note"] = {"by": "test", "tags": ["a"] * (n % 3)}
    if n == 24:
        document["paid"] = True
    return json.dumps(document).encode()


def _duplicated(writer: _Writer) -> None:
    """Write duplicates to partition 1: 12 records, again two minutes later, five of them after three hours, with other
    values of the same keys in between; and three of them to partition 2.
    """
    at = BASE_MS + 70 * MINUTE_MS
    rows = [(at + n, b"twice-%d" % n, b"order %d" % n) for n in range(12)]
    writer.batch(1, rows)
    writer.batch(1, [(ms + 2 * MINUTE_MS, key, value) for ms, key, value in rows])
    writer.batch(1, [(ms + 3 * MINUTE_MS, key, b"changed") for ms, key, _ in rows[:3]])
    writer.batch(1, [(ms + 180 * MINUTE_MS, key, value) for ms, key, value in rows[:5]])
    writer.batch(2, [(ms + MINUTE_MS, key, value) for ms, key, value in rows[:3]])


def _transactions(writer: _Writer) -> None:
    """Write committed, aborted, committed, aborted transactions of 20 records each, then plain records. They have
    offsets 4 to 87.
    """
    for number in range(4):
        at = BASE_MS + (80 + number) * MINUTE_MS
        rows = [(at + n, b"tx-%d" % n, b"transaction %d" % number) for n in range(20)]
        writer.transaction(2, rows, aborts=number % 2 == 1)
    at = BASE_MS + 90 * MINUTE_MS
    writer.batch(2, [(at + n * 100, b"tail-%d" % n, None if n % 10 == 0 else b"tail") for n in range(30)])


def _delete_head(admin: AdminClient, writer: _Writer) -> None:
    places = [TopicPartition(writer.topic, 2, DELETED_BEFORE)]
    for deleted in admin.delete_records(places).values():
        assert deleted.result(30).low_watermark == DELETED_BEFORE
    writer.written[2] = [it._replace(fate=DELETED) if it.offset < DELETED_BEFORE else it for it in writer.written[2]]


def _configure(admin: AdminClient, topic: str, settings: dict[str, str], dropped: Iterable[str]) -> None:
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
    entries += [ConfigEntry(k, "", incremental_operation=AlterConfigOpType.DELETE) for k in dropped]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def _commit(kafka: Kafka, group: str, topic: str, committed: dict[int, int]) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings)
    places = [TopicPartition(topic, partition, offset) for partition, offset in committed.items()]
    _until(lambda: _committed(consumer, places), "the group's coordinator")
    consumer.close()


def _committed(consumer: Any, places: list[TopicPartition]) -> bool:
    try:
        return all(place.error is None for place in consumer.commit(offsets=places, asynchronous=False))
    except KafkaException:
        return False


def read(kafka: Kafka, topic: str, *, committed: bool = False) -> list[tuple[int, int, int, Any, Any]]:
    """Read with librdkafka: (partition, offset, timestamp, key, value), ordered."""
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, -2) for partition in range(PARTITIONS)])
    found, at_end = [], 0
    while at_end < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, f"nothing came from {topic}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end += 1
        else:
            place = (message.partition(), message.offset(), message.timestamp()[1])
            found.append((*place, message.key(), message.value()))
    consumer.close()
    return sorted(found, key=lambda row: row[:2])


def _end(kafka: Kafka, topic: str, partition: int) -> int:
    """Return the high watermark, from librdkafka."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "nobody"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    consumer.close()
    return int(end)


def _until(condition: Any, what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.1)

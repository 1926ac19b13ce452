"""The consumer library on both brokers: bounded reads end by fetch position and account for every offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kcli.client.config import ConsumerConfig
from kcli.client.connect import connect
from kcli.consumer.consumer import Consumer
from kcli.consumer.coverage import PartitionCoverage
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import TopicPartition
from tests.consumer.partition_reader import PartitionReader
from tests.interop import shapes
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

ALL = ReadRange(LOG_START, LOG_END)
DEADLINE_MS = 60_000


@contextmanager
def reading(
    kafka: Kafka, ranges: dict[TopicPartition, ReadRange], **properties: Any
) -> Iterator[tuple[RangeReader, Callable[[], float]]]:
    config = configured(kafka, **properties)
    with connect(config) as client:
        reader = RangeReader(client, ranges, config)
        gathered = reader.resolve(client.clock.now_ms() + DEADLINE_MS)
        assert not gathered.errors
        yield reader, client.clock.now_ms
        reader.close()


def configured(kafka: Kafka, **properties: Any) -> ConsumerConfig:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ConsumerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers, **named})


def read(kafka: Kafka, topic: str, asked: ReadRange = ALL, **properties: Any) -> tuple[list[bytes], PartitionCoverage]:
    """Return the values of partition 0 in a range, and the coverage of the read."""
    with reading(kafka, {TopicPartition(topic, 0): asked}, **properties) as (reader, now_ms):
        values = finish(reader, now_ms).get(TopicPartition(topic, 0), [])
        return values, reader.coverage()[0]


def finish(reader: RangeReader, now_ms: Callable[[], float]) -> dict[TopicPartition, list[bytes]]:
    deadline_ms = now_ms() + DEADLINE_MS
    found: dict[TopicPartition, list[bytes]] = {}
    while not reader.done:
        assert now_ms() < deadline_ms, f"it does not end: {reader.coverage()}"
        for tp, columns in reader.poll(1_000):
            found.setdefault(tp, []).extend(value for value in columns.values() if value is not None)
    return found


@pytest.mark.parametrize("make", [shapes.empty, shapes.head_deleted, shapes.compacted_with_holes])
def test_a_read_to_the_end_ends_for_every_topic(make: Callable[[Kafka], shapes.Shape], any_kafka: Kafka) -> None:
    check_a_whole_read(any_kafka, make(any_kafka), "read_uncommitted")


@pytest.mark.parametrize(
    ("make", "isolation"),
    [
        (shapes.ending_in_markers, "read_uncommitted"),
        (shapes.ending_in_markers, "read_committed"),
        (shapes.aborted_at_the_end, "read_committed"),
    ],
)
def test_a_read_to_the_end_ends_after_transactions(
    make: Callable[[Kafka], shapes.Shape], isolation: str, real_kafka: Kafka
) -> None:
    check_a_whole_read(real_kafka, make(real_kafka), isolation)


def check_a_whole_read(kafka: Kafka, shape: shapes.Shape, isolation: str) -> None:
    values, covered = read(kafka, shape.topic, isolation_level=isolation)
    assert values == shape.visible
    assert covered.complete
    assert (covered.position, covered.records) == (covered.asked_end, len(shape.visible))
    assert covered.bytes >= sum(map(len, shape.visible))


def test_aborted_transactions_are_hidden_with_small_responses(real_kafka: Kafka) -> None:
    topic, visible = shapes.aborted_at_the_end(real_kafka)
    values, covered = read(real_kafka, topic, isolation_level="read_committed", max_partition_fetch_bytes=1)
    assert values == visible
    assert covered.complete


def test_deleted_records_below_an_explicit_start_are_reported_missing(any_kafka: Kafka) -> None:
    topic, visible = shapes.head_deleted(any_kafka)
    values, covered = read(any_kafka, topic, ReadRange(Place.offset(0), LOG_END))
    assert values == visible
    assert not covered.complete
    assert "offsets 0 to 59 were deleted: the log starts at 60" in covered.reason


def test_records_deleted_during_the_read_are_reported_as_a_gap(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    shapes.produce(any_kafka, topic, [b"%d" % n for n in range(200)], **{"batch.num.messages": 1})
    tp = TopicPartition(topic, 0)
    with reading(any_kafka, {tp: ALL}, max_partition_fetch_bytes=1) as (reader, now_ms):
        first = [value for _ in range(5) for _, columns in reader.poll(1_000) for value in columns.values()]
        delete_records(any_kafka, topic, 150)
        rest = finish(reader, now_ms)[tp]
        covered = reader.coverage()[0]
    assert rest[-50:] == [b"%d" % n for n in range(150, 200)]
    assert not covered.complete
    assert "to 149 were deleted before they were read" in covered.reason
    assert len(first) + len(rest) < 200


def delete_records(kafka: Kafka, topic: str, before: int) -> None:
    from confluent_kafka import TopicPartition as Theirs

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([Theirs(topic, 0, before)]).values():
        assert deleted.result(30).low_watermark == before


def test_a_topic_deleted_during_the_read_ends_it(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    shapes.produce(any_kafka, topic, [b"%d" % n for n in range(200)], **{"batch.num.messages": 1})
    tp = TopicPartition(topic, 0)
    with reading(any_kafka, {tp: ALL}, max_partition_fetch_bytes=1) as (reader, now_ms):
        assert reader.poll(10_000)
        any_kafka.delete_topic(topic)
        finish(reader, now_ms)
        covered = reader.coverage()[0]
    assert not covered.complete
    assert "was deleted" in covered.reason


def test_a_record_larger_than_the_fetch_limits_arrives_whole(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    large = [b"a" * 300_000, b"b" * 500_000, b"c"]
    shapes.produce(any_kafka, topic, large)
    values, covered = read(any_kafka, topic, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)
    assert values == large
    assert covered.complete


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(codec: str, any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    values = [b"%d " % n + b"filling " * (n % 50) for n in range(5_000)]
    shapes.produce(any_kafka, topic, values, **{"compression.type": codec, "linger.ms": 20})
    found, covered = read(any_kafka, topic)
    assert found == values
    assert covered.complete
    tail, _ = read(any_kafka, topic, ReadRange(Place.before_end(7), LOG_END))
    assert tail == values[-7:]
    middle, _ = read(any_kafka, topic, ReadRange(Place.offset(1_234), Place.offset(2_345)))
    assert middle == values[1_234:2_345]


def test_ranges_by_time_return_the_records_in_the_window(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    producer = any_kafka.ordered_producer()
    base = 1_700_000_000_000
    for n in range(100):
        producer.produce(topic, b"%d" % n, timestamp=base + 1000 * n)
    producer.flush(30)
    values, covered = read(any_kafka, topic, ReadRange(Place.time(base + 9_500), Place.time(base + 20_000)))
    assert values == [b"%d" % n for n in range(10, 20)]
    assert covered.complete
    values, covered = read(any_kafka, topic, ReadRange(Place.time(base + 100_000), LOG_END))
    assert values == []
    assert covered.complete
    assert covered.notes == ("no record at or after 2023-11-14T22:15:00.000Z",)


def test_empty_partitions_among_many_are_complete(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=60)
    producer = any_kafka.ordered_producer()
    for n in range(3_000):
        if n % 60 % 3:
            producer.produce(topic, b"%d" % n, partition=n % 60)
    producer.flush(30)
    ranges = {TopicPartition(topic, number): ALL for number in range(60)}
    with reading(any_kafka, ranges) as (reader, now_ms):
        found = finish(reader, now_ms)
        covered = reader.coverage()
    assert {tp.partition for tp in found} == {number for number in range(60) if number % 3}
    for tp, values in found.items():
        assert values == [b"%d" % n for n in range(3_000) if n % 60 == tp.partition]
    assert all(it.complete for it in covered)


def test_a_broker_restart_in_the_middle_of_a_read_loses_and_repeats_nothing(any_own_kafka: Callable[..., Any]) -> None:
    kafka = any_own_kafka()
    topic = kafka.create_topic("t")
    values = [b"%d" % n for n in range(300)]
    shapes.produce(kafka, topic, values, **{"batch.num.messages": 1})
    tp = TopicPartition(topic, 0)
    with reading(kafka, {tp: ALL}, max_partition_fetch_bytes=1) as (reader, now_ms):
        first = [value for _ in range(20) for _, columns in reader.poll(1_000) for value in columns.values()]
        kafka.kill()
        for _ in range(3):
            first += [value for _, columns in reader.poll(100) for value in columns.values()]
        kafka.start()
        rest = finish(reader, now_ms)[tp]
        covered = reader.coverage()[0]
    assert first + rest == values
    assert covered.complete


def test_partition_reader_reads_a_range(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    shapes.produce(any_kafka, topic, [b"%d" % n for n in range(1_000)])
    with PartitionReader(configured(any_kafka), TopicPartition(topic, 0), 100, 900) as reader:
        found = [value for columns in reader for value in columns.values()]
    assert found == [b"%d" % n for n in range(100, 900)]


def test_consumer_reads_assigned_partitions(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=2)
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Consumer.from_config(configured(any_kafka, auto_offset_reset="earliest")) as consumer:
        consumer.assign(tps)
        assert [consumer.position(tp) for tp in tps] == [0, 0]
        producer = any_kafka.ordered_producer()
        for n in range(1_000):
            producer.produce(topic, b"%d" % n, partition=n % 2)
        producer.flush(30)
        found: dict[TopicPartition, list[bytes | None]] = {tp: [] for tp in tps}
        for _ in range(50):
            for tp, columns in consumer.poll(1_000).items():
                found[tp] += columns.values()
            if sum(map(len, found.values())) == 1_000:
                break
        assert found == {tp: [b"%d" % n for n in range(tp.partition, 1_000, 2)] for tp in tps}
        assert consumer.end_offsets(tps) == dict.fromkeys(tps, 500)


def test_consumer_continues_at_the_committed_offset(any_kafka: Kafka) -> None:
    from confluent_kafka import Consumer as Theirs
    from confluent_kafka import TopicPartition as TheirPartition

    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    shapes.produce(any_kafka, topic, [b"%d" % n for n in range(10)])
    other = Theirs({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    other.commit(offsets=[TheirPartition(topic, 0, 7)], asynchronous=False)
    other.close()
    config = configured(any_kafka, group_id=group, enable_auto_commit="false")
    with Consumer.from_config(config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.position(TopicPartition(topic, 0)) == 7
        (columns,) = consumer.poll(10_000).values()
        assert columns.values() == [b"7", b"8", b"9"]

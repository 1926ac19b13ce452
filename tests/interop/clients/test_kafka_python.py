"""kafka-python 3 (pure Python, the newest version of every API) on both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import (
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka.errors import (
    GroupIdNotFoundError,
    MessageSizeTooLargeError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka

CODECS = [None, "gzip", "lz4"]
NOON = 1_706_702_400_000


@pytest.fixture
def producer(any_kafka: Kafka) -> Iterator[KafkaProducer]:
    made = KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers)
    yield made
    made.close(10)


@pytest.fixture
def admin(any_kafka: Kafka) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=any_kafka.bootstrap_servers)
    yield made
    made.close()


Make = Callable[..., KafkaConsumer]


@pytest.fixture
def consumer(any_kafka: Kafka) -> Iterator[Make]:
    made: list[KafkaConsumer] = []

    def start(*topics: str, **settings: Any) -> KafkaConsumer:
        defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 200}
        servers = {"bootstrap_servers": any_kafka.bootstrap_servers}
        made.append(KafkaConsumer(*topics, **{**servers, **defaults, "session_timeout_ms": 6_000, **settings}))
        return made[-1]

    yield start
    for one in made:
        one.close(autocommit=False)


def read(consumer: KafkaConsumer, count: int, timeout_s: float = 30) -> list[Any]:
    deadline, found = time.monotonic() + timeout_s, []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for records in consumer.poll(200).values():
            found += records
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_idempotently_written_records_are_read_back(codec: str | None, any_kafka: Kafka, consumer: Make) -> None:
    topic = any_kafka.new_topic(partitions=3, retention_ms=-1)
    settings = {"enable_idempotence": True, "compression_type": codec, "linger_ms": 5}
    with KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, **settings) as producer:
        sent = [
            producer.send(topic, b"value %d" % n, b"%d" % n, [("h", b"%d" % n)], n % 3, NOON + n) for n in range(1_500)
        ]
        producer.flush(30)
    assert [(s.value.partition, s.value.offset, s.value.timestamp) for s in sent] == [
        (n % 3, n // 3, NOON + n) for n in range(1_500)
    ]
    reader = consumer()
    reader.assign([TopicPartition(topic, number) for number in range(3)])
    found = sorted(read(reader, 1_500), key=lambda record: int(record.key))
    assert [(r.key, r.value, list(r.headers), r.partition, r.offset, r.timestamp) for r in found] == [
        (b"%d" % n, b"value %d" % n, [("h", b"%d" % n)], n % 3, n // 3, NOON + n) for n in range(1_500)
    ]


def test_writing_creates_a_topic(any_kafka: Kafka, producer: KafkaProducer) -> None:
    topic = any_kafka.new_name("made-by-writing")
    assert producer.send(topic, b"x", partition=3).get(30).offset == 0  # num.partitions is 4


def test_a_record_that_is_too_large_is_refused(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(max_message_bytes=1_000)
    # An idempotent producer of this client gives up for good.
    with KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers, enable_idempotence=False) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * 5_000).get(30)
        assert producer.send(topic, b"x").get(30).offset == 0


def test_positions_offsets_by_time_and_end_offsets(any_kafka: Kafka, producer: KafkaProducer, consumer: Make) -> None:
    topic = any_kafka.new_topic(retention_ms=-1)
    tp = TopicPartition(topic, 0)
    for n in range(100):
        producer.send(topic, b"%d" % n, timestamp_ms=NOON + 1_000 * n)
    producer.flush(30)
    reader = consumer(max_poll_records=10)
    reader.assign([tp])
    assert (reader.beginning_offsets([tp]), reader.end_offsets([tp])) == ({tp: 0}, {tp: 100})
    found = reader.offsets_for_times({tp: NOON + 40_500})[tp]
    assert (found.offset, found.timestamp) == (41, NOON + 41_000)
    assert reader.offsets_for_times({tp: NOON + 1_000_000})[tp] is None
    reader.seek(tp, 90)
    assert [record.offset for record in read(reader, 10)] == list(range(90, 100))
    assert reader.position(tp) == 100
    reader.seek_to_beginning(tp)
    assert read(reader, 1)[0].offset == 0


def test_the_remaining_member_takes_over_all_partitions(
    any_kafka: Kafka, producer: KafkaProducer, consumer: Make
) -> None:
    topic, group = any_kafka.new_topic(partitions=4), any_kafka.new_name("group")
    soon = {"metadata_max_age_ms": 1_000}  # a leader that has not heard of the topic assigns nothing of it until then
    pair = [consumer(topic, group_id=group, **soon), consumer(topic, group_id=group, **soon)]
    values: list[bytes] = []

    def poll(*members: KafkaConsumer) -> None:
        for one in members:
            values.extend(record.value for records in one.poll(50).values() for record in records)

    deadline = time.monotonic() + 120
    while sorted(len(one.assignment()) for one in pair) != [2, 2]:
        assert time.monotonic() < deadline
        poll(*pair)
    for n in range(1_000):
        producer.send(topic, b"%d" % n, partition=n % 4)
    producer.flush(30)
    while len(values) < 1_000:
        assert time.monotonic() < deadline
        poll(*pair)
    assert sorted(map(int, values)) == list(range(1_000))
    for one in pair:
        one.commit()
    pair[0].close(autocommit=False)
    while len(pair[1].assignment()) < 4:
        assert time.monotonic() < deadline
        poll(pair[1])
    assert [pair[1].committed(TopicPartition(topic, number)) for number in range(4)] == [250] * 4


def test_topics_are_created_described_and_changed(any_kafka: Kafka, admin: KafkaAdminClient) -> None:
    name = any_kafka.new_name()
    admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "600000"})], wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, 2, 1)])
    [described] = admin.describe_topics([name])
    assert [(p["leader_id"], p["replica_nodes"], p["isr_nodes"]) for p in described["partitions"]] == [
        (1, [1], [1])
    ] * 2
    assert "READ" in described["authorized_operations"]

    topic = ConfigResource(ConfigResourceType.TOPIC, name)
    settings = admin.describe_configs([topic], include_synonyms=True, config_filter=ConfigFilterType.ALL)["topic"][name]
    assert settings["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert settings["retention.ms"]["synonyms"][0] == {
        "name": "retention.ms",
        "value": "600000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert settings["segment.bytes"] == {
        "value": str(1 << 30),
        "read_only": False,
        "config_source": "DEFAULT_CONFIG",
        "is_sensitive": False,
        "synonyms": [{"name": "log.segment.bytes", "value": str(1 << 30), "source": "DEFAULT_CONFIG"}],
        "config_type": "INT",
        "documentation": None,
    }
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "5000"})])

    def changed() -> dict[str, str]:
        return {key: entry["value"] for key, entry in admin.describe_configs([topic])["topic"][name].items()}

    wait_until(lambda: changed() == {"retention.ms": "600000", "max.message.bytes": "5000"}, "the setting to be seen")
    admin.create_partitions({name: NewPartitions(5)})
    wait_until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5, "five partitions")
    admin.delete_topics([name])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_the_cluster_and_its_log_directories_are_described(
    any_kafka: Kafka, admin: KafkaAdminClient, producer: KafkaProducer
) -> None:
    topic = any_kafka.new_topic()
    producer.send(topic, b"x" * 1_000).get(30)
    host, port = any_kafka.bootstrap_servers.split(":")
    cluster = admin.describe_cluster()
    assert [(b["broker_id"], b["host"], b["port"]) for b in cluster["brokers"]] == [(1, host, int(port))]
    assert cluster["controller_id"] == 1
    [broker] = admin.describe_log_dirs()
    [folder] = broker["log_dirs"]
    sizes = {t["name"]: sum(p["partition_size"] for p in t["partitions"]) for t in folder["topics"]}
    assert 1_000 < sizes[topic] < 1_200
    assert 0 < folder["usable_bytes"] < folder["total_bytes"]


def test_offsets_are_listed_and_records_deleted(
    any_kafka: Kafka, admin: KafkaAdminClient, producer: KafkaProducer
) -> None:
    tp = TopicPartition(any_kafka.new_topic(retention_ms=-1), 0)
    for stamp in (NOON, NOON + 9_000, NOON + 5_000):
        producer.send(tp.topic, b"x", timestamp_ms=stamp).get(30)

    def offset(spec: Any) -> tuple[int, int]:
        found = admin.list_partition_offsets({tp: spec})[tp]
        return found.offset, found.timestamp

    assert offset(OffsetSpec.EARLIEST) == (0, -1)
    assert offset(OffsetSpec.LATEST) == (3, -1)
    assert offset(OffsetSpec.MAX_TIMESTAMP) == (1, NOON + 9_000)
    assert admin.delete_records({tp: 2})[tp]["low_watermark"] == 2
    assert offset(OffsetSpec.EARLIEST) == (2, -1)
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({tp: 9})


def test_groups_and_offsets_are_changed(
    any_kafka: Kafka, admin: KafkaAdminClient, producer: KafkaProducer, consumer: Make
) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    tp = TopicPartition(topic, 0)
    for n in range(10):
        producer.send(topic, b"%d" % n)
    producer.flush(30)
    reader = consumer(topic, group_id=group, group_instance_id="one", client_id="me")
    read(reader, 10)
    reader.commit({tp: OffsetAndMetadata(7, "so far", 0)})

    [listed] = [one for one in admin.list_groups() if one["group_id"] == group]
    assert (listed["protocol_type"], listed["group_state"], listed["group_type"]) == ("consumer", "Stable", "classic")
    assert group not in {one["group_id"] for one in admin.list_groups(states_filter=["Empty"])}
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    [member] = described["members"]
    assert (member["group_instance_id"], member["client_id"]) == ("one", "me")
    assert member["client_host"] == "/127.0.0.1"
    assert member["member_metadata"]["topics"] == [topic]
    assert member["member_assignment"]["assigned_partitions"] == [{"topic": topic, "partitions": [0]}]

    def committed() -> dict[TopicPartition, tuple[int, str]]:
        return {found: (at.offset, at.metadata) for found, at in admin.list_group_offsets({group: None})[group].items()}

    assert committed() == {tp: (7, "so far")}
    assert admin.delete_groups([group])[group] == NonEmptyGroupError.__name__
    admin.remove_group_members(group, [MemberToRemove(group_instance_id="one")])
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    admin.alter_group_offsets(group, {tp: OffsetAndMetadata(3, "moved", None)})
    assert committed() == {tp: (3, "moved")}
    admin.delete_group_offsets(group, [tp])
    assert committed() == {}
    assert admin.delete_groups([group])[group] == "OK"
    assert admin.delete_groups([group])[group] == GroupIdNotFoundError.__name__

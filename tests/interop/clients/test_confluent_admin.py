"""confluent-kafka's admin client (librdkafka 2.16): topics, settings, groups, offsets."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka


@pytest.fixture
def admin(any_kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})


def done(futures: dict[Any, Any]) -> Any:
    """Return the result of the only future."""
    [future] = futures.values()
    return future.result(30)


def refusal(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as refused:
        done(futures)
    return int(refused.value.args[0].code())


def fill(kafka: Kafka, topic: str, count: int = 10) -> None:
    producer = kafka.ordered_producer()
    for n in range(count):
        producer.produce(topic, b"%d" % n, partition=0)
    assert producer.flush(30) == 0


def test_a_topic_is_created_described_changed_and_deleted(any_kafka: Kafka, admin: AdminClient) -> None:
    name = any_kafka.new_name()
    done(admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "600000"})]))
    assert refusal(admin.create_topics([NewTopic(name, 2, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    wait_until(lambda: name in admin.list_topics(timeout=30).topics, "the topic to be listed")
    done(admin.create_partitions([NewPartitions(name, 5)]))
    wait_until(lambda: len(admin.list_topics(name, timeout=30).topics[name].partitions) == 5, "five partitions")
    assert refusal(admin.create_partitions([NewPartitions(name, 3)])) == KafkaError.INVALID_PARTITIONS
    done(admin.delete_topics([name]))
    wait_until(lambda: name not in admin.list_topics(timeout=30).topics, "the topic to be gone")
    assert refusal(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "code"),
    [
        ("", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("a/b", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("fresh", 1, 3, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("fresh", 1, 1, {"no.such.setting": "1"}, KafkaError.INVALID_CONFIG),
        ("fresh", 1, 1, {"retention.ms": "many"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_invalid_topics_are_refused(
    name: str, partitions: int, replicas: int, config: dict[str, str], code: int, admin: AdminClient
) -> None:
    if name:
        assert refusal(admin.create_topics([NewTopic(name, partitions, replicas, config=config)])) == code
    assert "fresh" not in admin.list_topics(timeout=30).topics


def test_validate_only_creates_nothing(any_kafka: Kafka, admin: AdminClient) -> None:
    name = any_kafka.new_name()
    done(admin.create_topics([NewTopic(name, 2, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=30).topics


def test_settings_of_a_topic_change_one_by_one(any_kafka: Kafka, admin: AdminClient) -> None:
    name = any_kafka.new_topic(cleanup_policy="delete", retention_ms=600_000)

    def settings() -> dict[str, ConfigEntry]:
        found: dict[str, ConfigEntry] = done(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]))
        return found

    before = settings()
    assert (before["retention.ms"].value, before["retention.ms"].is_default) == ("600000", False)
    assert (before["max.message.bytes"].value, before["max.message.bytes"].is_default) == ("1048588", True)
    changes = [
        ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
    done(admin.incremental_alter_configs([resource]))
    wait_until(lambda: settings()["max.message.bytes"].value == "2000", "the setting to be seen")
    after = settings()
    assert (after["retention.ms"].value, after["retention.ms"].is_default) == ("604800000", True)
    assert after["cleanup.policy"].value == "delete,compact"
    wrong = [ConfigEntry("max.message.bytes", "many", incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=wrong)
    assert refusal(admin.incremental_alter_configs([resource])) == KafkaError.INVALID_CONFIG


def test_settings_of_the_broker_are_described(admin: AdminClient) -> None:
    found = done(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]))
    assert found["num.partitions"].value == "4"
    assert found["num.partitions"].is_read_only
    assert found["log.segment.bytes"].value == str(1 << 30)


def test_the_cluster_and_its_topics_are_described(any_kafka: Kafka, admin: AdminClient) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(30)
    host, port = any_kafka.bootstrap_servers.split(":")
    [node] = cluster.nodes
    assert (node.id, node.host, node.port, cluster.controller.id) == (1, host, int(port), 1)
    assert cluster.cluster_id == admin.list_topics(timeout=30).cluster_id
    assert cluster.authorized_operations
    name = any_kafka.new_topic(partitions=2)
    described = done(admin.describe_topics(TopicCollection([name]), include_authorized_operations=True))
    assert (described.name, described.is_internal) == (name, False)
    assert [(p.id, p.leader.id, [n.id for n in p.replicas], [n.id for n in p.isr]) for p in described.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert described.authorized_operations
    missing = TopicCollection([any_kafka.new_name()])
    assert refusal(admin.describe_topics(missing)) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_offsets_are_listed_and_records_deleted(any_kafka: Kafka, admin: AdminClient) -> None:
    name = any_kafka.new_topic()
    producer = any_kafka.ordered_producer()
    times = [1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000]
    for stamp in times:
        producer.produce(name, b"x", timestamp=stamp)
        producer.flush(30)
    tp = TopicPartition(name, 0)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = done(admin.list_offsets({tp: spec}))
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (3, -1)
    assert offset(OffsetSpec.max_timestamp()) == (1, times[1])
    assert offset(OffsetSpec.for_timestamp(times[0] + 1)) == (1, times[1])
    assert done(admin.delete_records([TopicPartition(name, 0, 2)])).low_watermark == 2
    assert offset(OffsetSpec.earliest())[0] == 2
    assert refusal(admin.delete_records([TopicPartition(name, 0, 50)])) == KafkaError.OFFSET_OUT_OF_RANGE


def consume_as(kafka: Kafka, group: str, topic: str, count: int) -> Consumer:
    """Return a member that has read and committed `count` records and is still in the group."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "client.id": "me"})
    consumer.subscribe([topic])
    for _ in range(count):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    return consumer


def test_groups_are_listed_described_and_deleted(any_kafka: Kafka, admin: AdminClient) -> None:
    topic, group = any_kafka.new_topic(partitions=2), any_kafka.new_name("group")
    fill(any_kafka, topic)
    consumer = consume_as(any_kafka, group, topic, 10)

    listed = {one.group_id: one for one in admin.list_consumer_groups().result(30).valid}
    assert (listed[group].state, listed[group].type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC)
    stable = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(30).valid
    assert group not in {one.group_id for one in stable}

    described = done(admin.describe_consumer_groups([group], include_authorized_operations=True))
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert described.coordinator.id == 1
    [member] = described.members
    assert member.client_id == "me"
    assert member.host.lstrip("/") == "127.0.0.1"
    assert sorted(tp.partition for tp in member.assignment.topic_partitions) == [0, 1]

    assert refusal(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    assert done(admin.describe_consumer_groups([group])).state == ConsumerGroupState.EMPTY
    done(admin.delete_consumer_groups([group]))
    assert group not in {one.group_id for one in admin.list_consumer_groups().result(30).valid}
    assert refusal(admin.delete_consumer_groups([group])) == KafkaError.GROUP_ID_NOT_FOUND


def test_committed_offsets_are_listed_and_changed(any_kafka: Kafka, admin: AdminClient) -> None:
    topic, group = any_kafka.new_topic(partitions=2), any_kafka.new_name("group")
    fill(any_kafka, topic)
    consumer = consume_as(any_kafka, group, topic, 10)

    def committed(*partitions: int) -> dict[int, int]:
        asked = [TopicPartition(topic, number) for number in partitions] or None
        found = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, asked)]))
        return {tp.partition: tp.offset for tp in found.topic_partitions}

    assert committed()[0] == 10
    assert committed(0)[0] == 10
    moved = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 0)])]

    def move() -> list[int | None]:
        results = done(admin.alter_consumer_group_offsets(moved)).topic_partitions
        return [tp.error and tp.error.code() for tp in results]

    assert move() == [KafkaError.UNKNOWN_MEMBER_ID] * 2  # it has a member, and that is not us
    consumer.close()
    assert move() == [None, None]
    assert committed(0, 1) == {0: 3, 1: 0}


def test_an_unknown_group_is_an_error(any_kafka: Kafka, admin: AdminClient) -> None:
    group = any_kafka.new_name("group")
    assert done(admin.describe_consumer_groups([group])).state == ConsumerGroupState.DEAD

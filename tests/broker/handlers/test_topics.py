"""CreateTopics, DeleteTopics and CreatePartitions, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import errno
from typing import Any
from uuid import UUID, uuid4

import pytest

from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.testing.memory_files import Fault
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kcli.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.single_broker import Node
from tests.broker.wire import Wire
from tests.real_kafka import Kafka

OK, UNKNOWN, INVALID_TOPIC, EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION = 0, 3, 17, 36, 37, 38
INVALID_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY, DISABLED, UNKNOWN_ID = 39, 40, 42, 44, 73, 100
STORAGE = 56
NOWHERE = UUID(int=0)


def topic(name: str, partitions: int = 1, replicas: int = 1, **rest: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **rest)


def placed(*brokers: list[int], first: int = 0) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=first + n, broker_ids=ids) for n, ids in enumerate(brokers)]


def create(wire: Wire, *topics: CreatableTopic, version: int = 7, **options: Any) -> dict[str, Any]:
    response = wire.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, **options), version)
    return {result.name: result for result in response.topics}


def delete(wire: Wire, *topics: DeleteTopicState) -> set[tuple[str | None, UUID, int]]:
    response = wire.ask(DeleteTopicsRequest(topics=list(topics), timeout_ms=10_000), 6)
    return {(result.name, result.topic_id, result.error_code) for result in response.responses}


def grow(wire: Wire, name: str, count: int, placed: list[list[int]] | None = None, **options: Any) -> int:
    by_hand = None if placed is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in placed]
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=by_hand)]
    [result] = wire.ask(CreatePartitionsRequest(topics=topics, timeout_ms=10_000, **options), 3).results
    assert (result.error_message is None) == (result.error_code == OK) or result.error_code == UNKNOWN
    return int(result.error_code)


# ---- CreateTopics ----


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "a b", "ä", "a:b"])
def test_invalid_topic_name_is_refused(name: str, wire: Wire) -> None:
    result = create(wire, topic(name))[name]
    assert (result.error_code, result.num_partitions, result.configs) == (INVALID_TOPIC, -1, [])
    assert result.error_message


def test_result_has_counts_id_and_settings(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    configs = [CreatableTopicConfig(name="retention.ms", value="77")]

    result = create(wire, topic(name, 2, configs=configs))[name]

    assert (result.error_code, result.error_message) == (OK, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    assert result.topic_id != NOWHERE
    sources = {config.name: (config.value, config.config_source) for config in result.configs}
    assert len(sources) == 33
    assert sources["retention.ms"] == ("77", 1)
    assert sources["cleanup.policy"] == ("delete", 5)
    assert sources["min.insync.replicas"] == ("1", 3)


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_a_topic(version: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    assert create(wire, topic(name, 2), version=version)[name].error_code == OK
    assert create(wire, topic(name, 2), version=version)[name].error_code == EXISTS


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, INVALID_PARTITIONS),
        (-2, 1, INVALID_PARTITIONS),
        (1, 0, INVALID_REPLICATION),
        (1, -2, INVALID_REPLICATION),
        (1, 2, INVALID_REPLICATION),
        (0, 0, INVALID_REPLICATION),
        (10_001, 1, POLICY),
        (-1, -1, OK),
        (3, -1, OK),
    ],
)
def test_invalid_counts_are_refused(partitions: int, replicas: int, code: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    assert create(wire, topic(name, partitions, replicas))[name].error_code == code


def test_names_that_differ_only_in_dots_and_underscores_collide(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name("dotted.name")
    assert create(wire, topic(name))[name].error_code == OK
    other = name.replace(".", "_")
    assert create(wire, topic(other))[other].error_code == INVALID_TOPIC


def test_duplicate_name_is_refused_and_others_are_created(wire: Wire, any_kafka: Kafka) -> None:
    twice, once = any_kafka.new_name(), any_kafka.new_name()
    results = create(wire, topic(twice), topic(once), topic(twice))
    assert {name: result.error_code for name, result in results.items()} == {twice: INVALID_REQUEST, once: OK}


def test_metadata_log_cannot_be_created(wire: Wire) -> None:
    assert create(wire, topic("__cluster_metadata"))["__cluster_metadata"].error_code == INVALID_REQUEST


def test_validate_only_returns_the_same_result(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    result = create(wire, topic(name, 3), validate_only=True)[name]
    assert (result.error_code, result.num_partitions, len(result.configs)) == (OK, 3, 33)
    assert create(wire, topic(name, 3, 4), validate_only=True)[name].error_code == INVALID_REPLICATION
    assert create(wire, topic(name, 3))[name].error_code == OK
    assert create(wire, topic(name, 3), validate_only=True)[name].error_code == EXISTS


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        (placed([1], [1]), OK),
        (placed([1], first=1), INVALID_ASSIGNMENT),
        (placed([1]) + placed([1], first=2), INVALID_ASSIGNMENT),
        (placed([1]) + placed([1]), INVALID_ASSIGNMENT),
        (placed([2]), INVALID_ASSIGNMENT),
        (placed([-1]), INVALID_ASSIGNMENT),
        (placed([1, 1]), INVALID_ASSIGNMENT),
        (placed([]), INVALID_ASSIGNMENT),
        (placed([1], []), INVALID_ASSIGNMENT),
    ],
)
def test_manual_replica_assignments(
    assignments: list[CreatableReplicaAssignment], code: int, wire: Wire, any_kafka: Kafka
) -> None:
    name = any_kafka.new_name()
    result = create(wire, topic(name, -1, -1, assignments=assignments))[name]
    assert result.error_code == code
    if code == OK:
        assert (result.num_partitions, result.replication_factor) == (len(assignments), 1)


def test_assignment_and_counts_cannot_be_combined(wire: Wire, any_kafka: Kafka) -> None:
    for counts in ((1, 1), (1, -1), (-1, 1)):
        name = any_kafka.new_name()
        assert create(wire, topic(name, *counts, assignments=placed([1])))[name].error_code == INVALID_REQUEST


SETTINGS: list[tuple[str, str | None, int]] = [
    ("nope", "1", INVALID_CONFIG),
    ("", "", INVALID_CONFIG),
    ("message.format.version", "3.0", INVALID_CONFIG),
    ("retention.ms", None, INVALID_CONFIG),
    ("retention.ms", "x", INVALID_CONFIG),
    ("retention.ms", "", INVALID_CONFIG),
    ("retention.ms", "1_000", INVALID_CONFIG),
    ("retention.ms", "-5", INVALID_CONFIG),
    ("retention.ms", "-1", OK),
    ("retention.ms", " 12 ", OK),
    ("retention.ms", "99999999999999999999", INVALID_CONFIG),
    ("retention.bytes", "-2", OK),
    ("segment.bytes", "1048575", INVALID_CONFIG),
    ("segment.bytes", "2147483648", INVALID_CONFIG),
    ("segment.ms", "0", INVALID_CONFIG),
    ("internal.segment.bytes", "100", OK),
    ("cleanup.policy", "compact,delete", OK),
    ("cleanup.policy", "compact, delete", OK),
    ("cleanup.policy", "compact,compact", OK),
    ("cleanup.policy", "", OK),
    ("cleanup.policy", "shred", INVALID_CONFIG),
    ("compression.type", "brotli", INVALID_CONFIG),
    ("compression.type", "zstd", OK),
    ("compression.gzip.level", "0", INVALID_CONFIG),
    ("compression.gzip.level", "-1", OK),
    ("compression.lz4.level", "18", INVALID_CONFIG),
    ("message.timestamp.type", "createtime", INVALID_CONFIG),
    ("min.cleanable.dirty.ratio", "1.01", INVALID_CONFIG),
    ("min.cleanable.dirty.ratio", "1e-1", OK),
    ("min.insync.replicas", "0", INVALID_CONFIG),
    ("min.insync.replicas", "5", OK),
    ("preallocate", "yes", INVALID_CONFIG),
    ("preallocate", "TRUE", OK),
    ("remote.storage.enable", "true", INVALID_CONFIG),
    ("leader.replication.throttled.replicas", "*", OK),
    ("leader.replication.throttled.replicas", "0:1,1:1", OK),
    ("leader.replication.throttled.replicas", "x", INVALID_CONFIG),
]


@pytest.mark.parametrize(("setting", "value", "code"), SETTINGS)
def test_invalid_settings_are_refused(setting: str, value: str | None, code: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    result = create(wire, topic(name, configs=[CreatableTopicConfig(name=setting, value=value)]))[name]
    assert result.error_code == code
    assert (result.error_message is None) == (code == OK)


def test_inconsistent_settings_are_refused(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    lags = [("max.compaction.lag.ms", "5"), ("min.compaction.lag.ms", "6")]
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in lags]
    assert create(wire, topic(name, configs=configs))[name].error_code == INVALID_CONFIG


def test_name_error_precedes_other_errors(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    bad = [CreatableTopicConfig(name="nope", value="1")]
    assert create(wire, topic(name, 0, 9, configs=bad))[name].error_code == EXISTS
    assert create(wire, topic(name, 1, 1, assignments=placed([7])))[name].error_code == EXISTS
    assert create(wire, topic("a/b", 0, 9, configs=bad))["a/b"].error_code == INVALID_TOPIC


# ---- DeleteTopics ----


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(topic_id: UUID) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id)


def made(wire: Wire, any_kafka: Kafka) -> tuple[str, UUID]:
    """Create a topic; return its name and id."""
    name = any_kafka.new_name()
    return name, create(wire, topic(name))[name].topic_id


def test_topics_are_deleted_by_name_and_by_id(wire: Wire, any_kafka: Kafka) -> None:
    named, identified = made(wire, any_kafka), made(wire, any_kafka)
    stranger = uuid4()

    results = delete(wire, by_name(named[0]), by_id(identified[1]), by_name("nope"), by_id(stranger))

    assert results == {
        (*named, OK), (*identified, OK), ("nope", NOWHERE, UNKNOWN), (None, stranger, UNKNOWN_ID),
    }  # fmt: skip
    assert delete(wire, by_name(named[0]), by_id(identified[1])) == {
        (named[0], NOWHERE, UNKNOWN), (None, identified[1], UNKNOWN_ID),
    }  # fmt: skip


@pytest.mark.parametrize("version", range(1, 6))
def test_older_versions_delete_by_name(version: int, wire: Wire, any_kafka: Kafka) -> None:
    name, _ = made(wire, any_kafka)
    names = [name, "nope", "", "a/b"]
    response = wire.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), version)
    codes = {result.name: result.error_code for result in response.responses}
    assert codes == {name: OK, "nope": UNKNOWN, "": UNKNOWN, "a/b": UNKNOWN}


def test_topic_requested_by_name_and_id_is_not_deleted(wire: Wire, any_kafka: Kafka) -> None:
    name, topic_id = made(wire, any_kafka)
    both = DeleteTopicState(name=name, topic_id=topic_id)

    assert delete(wire, by_name(name), by_name(name)) == {(name, NOWHERE, INVALID_REQUEST)}
    assert delete(wire, by_id(topic_id), by_id(topic_id)) == {(None, topic_id, INVALID_REQUEST)}
    assert delete(wire, by_name(name), by_id(topic_id)) == {(name, topic_id, INVALID_REQUEST)}
    assert delete(wire, by_id(topic_id), by_name(name)) == {(name, topic_id, INVALID_REQUEST)}
    assert delete(wire, both) == {(name, topic_id, INVALID_REQUEST)}
    assert delete(wire, DeleteTopicState()) == {(None, NOWHERE, INVALID_REQUEST)}
    assert delete(wire) == set()

    assert delete(wire, by_name(name)) == {(name, topic_id, OK)}


@pytest.mark.parametrize(("version", "code"), [(2, INVALID_REQUEST), (3, DISABLED), (5, DISABLED)])
def test_deletion_can_be_disabled(version: int, code: int) -> None:
    node = Node(delete_topic_enable=False)
    node.cluster.create_topic("orders")
    [result] = node.ask(DeleteTopicsRequest(topic_names=["orders"]), version).responses
    assert result.error_code == code
    assert "orders" in node.cluster.topics


# ---- CreatePartitions ----


def test_partition_count_only_increases(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    assert grow(wire, name, 3, validate_only=True) == OK
    assert grow(wire, name, 3) == OK
    for count in (3, 2, 0, -1):
        assert grow(wire, name, count) == INVALID_PARTITIONS
    assert grow(wire, "nope", 3) == UNKNOWN
    assert grow(wire, "", 3) == UNKNOWN


def test_manual_assignment_of_new_partitions(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    for wrong in ([], [[1]], [[1], [1], [1]], [[1], [2]], [[1], [1, 1]], [[1], []]):
        assert grow(wire, name, 3, wrong) == INVALID_ASSIGNMENT
    assert grow(wire, name, 3, [[1], [1]]) == OK


@pytest.mark.parametrize("version", range(4))
def test_duplicate_name_adds_no_partitions(version: int, wire: Wire, any_kafka: Kafka) -> None:
    twice, once = any_kafka.new_topic(), any_kafka.new_topic()
    topics = [
        CreatePartitionsTopic(name=name, count=n, assignments=None) for name, n in ((twice, 2), (once, 2), (twice, 3))
    ]
    response = wire.ask(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), version)
    assert {result.name: result.error_code for result in response.results} == {twice: INVALID_REQUEST, once: OK}


def test_partition_count_is_limited() -> None:
    """Apache Kafka answers a request for 10,000 more partitions with -1, and creates them."""
    node = Node()
    node.cluster.create_topic("orders", 2)
    topics = [CreatePartitionsTopic(name="orders", count=10_001, assignments=None)]
    [result] = node.ask(CreatePartitionsRequest(topics=topics), 3).results
    assert result.error_code == POLICY
    assert len(node.cluster.topics["orders"].partitions) == 2


def test_topic_that_cannot_be_stored_is_refused_and_the_others_of_its_request_are_created() -> None:
    node = Node()
    node.files.faults.append(Fault("make_dir", "refunds-0", errno.ENOSPC))
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("orders", "refunds")]

    response = node.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)

    assert [(one.name, one.error_code) for one in response.topics] == [("orders", OK), ("refunds", STORAGE)]
    assert list(node.cluster.topics) == ["orders"]


def test_all_versions_of_kafka_are_served() -> None:
    for request in (CreateTopicsRequest, DeleteTopicsRequest, CreatePartitionsRequest):
        served = HANDLERS[request.API_KEY]
        assert (served.first_version, served.last_version) == request.VERSIONS

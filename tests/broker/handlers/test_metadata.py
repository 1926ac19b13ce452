"""Metadata, DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, ListPartitionReassignments, ListConfigResources.

On the embedded broker and on Apache Kafka.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from kcli.broker.handlers.api_table import HANDLERS
from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kcli.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.single_broker import DATA, Node
from tests.broker.wire import Wire
from tests.real_kafka import Kafka, OwnBroker

OK, UNKNOWN, INVALID_TOPIC, INVALID_REPLICATION, UNSUPPORTED, INVALID_REQUEST, UNKNOWN_ID = 0, 3, 17, 38, 35, 42, 100
NOWHERE = UUID(int=0)
NOT_TOLD = -(2**31)
PATIENCE_S = 20
INTERNAL_CONFIGS = {
    "__consumer_offsets": {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
    "__transaction_state": {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
    "__share_group_state": {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    },
}


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def codes(response: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def eventually(ask: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
    """Repeat a request until its response is as expected; Apache Kafka's brokers apply changes asynchronously."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_right(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


# ---- Metadata ----


@pytest.mark.parametrize("version", range(14))
def test_every_version_describes_the_broker_and_a_topic(version: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(2)

    response = wire.ask(MetadataRequest(topics=named(name)), version)

    [broker], [topic] = response.brokers, response.topics
    assert (broker.node_id, f"{broker.host}:{broker.port}", broker.rack) == (1, any_kafka.bootstrap_servers, None)
    assert (topic.name, topic.error_code, topic.is_internal) == (name, OK, False)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert (response.cluster_id is not None) == (version >= 2)
    assert (topic.topic_id != NOWHERE) == (version >= 10)
    for number, partition in enumerate(topic.partitions):
        assert (partition.error_code, partition.partition_index, partition.leader_id) == (OK, number, 1)
        assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert len(topic.partitions) == 2
    assert response.error_code == OK


def test_null_requests_all_topics_and_an_empty_list_none(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    for version, topics in ((0, []), (1, None), (12, None)):
        assert name in codes(wire.ask(MetadataRequest(topics=topics), version))
    for version in (1, 9, 13):
        response = wire.ask(MetadataRequest(topics=[]), version)
        assert response.topics == []
        assert len(response.brokers) == 1


def test_unknown_and_invalid_names_have_errors(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    request = MetadataRequest(topics=named(name, "nope", "a/b", "", name), allow_auto_topic_creation=False)
    response = wire.ask(request, 12)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        (name, OK), ("nope", UNKNOWN), ("a/b", INVALID_TOPIC), ("", INVALID_TOPIC),
    ]  # fmt: skip


def test_topics_are_requested_by_id(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    [topic] = wire.ask(MetadataRequest(topics=named(name)), 12).topics
    stranger = uuid4()
    by_id = [MetadataRequestTopic(name=None, topic_id=id) for id in (topic.topic_id, stranger)]

    response = wire.ask(MetadataRequest(topics=by_id), 12)

    assert {(t.name, t.topic_id, t.error_code) for t in response.topics} == {
        (name, topic.topic_id, OK), (None, stranger, UNKNOWN_ID),
    }  # fmt: skip


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_are_refused_before_v12(version: int, wire: Wire) -> None:
    stranger = uuid4()
    for name in ("orders", None):
        topics = [MetadataRequestTopic(name=name, topic_id=stranger)]
        response = wire.ask(MetadataRequest(topics=topics), version)
        [topic] = response.topics
        assert (topic.name, topic.topic_id, topic.error_code) == (name or "", stranger, INVALID_REQUEST)
        assert response.brokers == []


@pytest.mark.parametrize("version", [10, 11])
def test_topic_without_name_and_id_is_refused(version: int, wire: Wire) -> None:
    topics = [MetadataRequestTopic(name=None), *named("nope")]
    response = wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("", INVALID_REQUEST), ("nope", INVALID_REQUEST),
    ]  # fmt: skip


def test_topic_without_name_and_id_is_refused_in_newer_versions() -> None:
    """Apache Kafka returns error -1."""
    [topic] = Node().ask(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 13).topics
    assert (topic.name, topic.error_code) == (None, INVALID_REQUEST)


def test_leader_epoch_increases_at_a_restart_after_writes(any_own_kafka: Callable[..., OwnBroker]) -> None:
    kafka = any_own_kafka()
    name = kafka.new_topic()
    producer = kafka.ordered_producer()
    producer.produce(name, b"v")
    assert producer.flush(20) == 0

    kafka.restart()

    with Wire(kafka.bootstrap_servers) as wire:
        [topic] = eventually(
            lambda: wire.ask(MetadataRequest(topics=named(name)), 12).topics,
            lambda topics: topics[0].partitions and topics[0].partitions[0].leader_id == 1,
        )
        epoch = topic.partitions[0].leader_epoch
        assert epoch >= 1
        [paged] = wire.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]), 0).topics
        assert paged.partitions[0].leader_epoch == epoch


def test_auto_created_topic_is_there_soon(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()

    assert codes(wire.ask(MetadataRequest(topics=named(name), allow_auto_topic_creation=False), 4)) == {name: UNKNOWN}
    # As a client does: Apache Kafka forgets an attempt that its controller has not answered in time.
    eventually(
        lambda: codes(wire.ask(MetadataRequest(topics=named(name)), 4)),
        lambda response: response == {name: OK},
    )


def test_a_single_broker_returns_the_topic_that_it_creates() -> None:
    """A group leader that does not ask again would assign nothing of a topic that is unknown in the first answer."""
    node = Node(num_partitions=3)
    request = MetadataRequest(topics=named("orders"))
    first, second = (node.ask(request, 12).topics for _ in range(2))
    assert first == second
    assert (first[0].error_code, first[0].topic_id) == (OK, node.cluster.topics["orders"].topic_id)
    assert [(one.partition_index, one.leader_id) for one in first[0].partitions] == [(0, 1), (1, 1), (2, 1)]


def test_colliding_name_is_not_auto_created(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(prefix="dotted.name")
    other = name.replace(".", "_")
    for _ in range(2):
        assert codes(wire.ask(MetadataRequest(topics=named(other)), 12)) == {other: UNKNOWN}


def test_auto_creation_can_be_disabled() -> None:
    node = Node(auto_create_topics_enable=False)
    assert codes(node.ask(MetadataRequest(topics=named("orders")), 12)) == {"orders": UNKNOWN}
    assert node.cluster.topics == {}


def test_default_replication_factor_above_one_is_an_error() -> None:
    node = Node(default_replication_factor=3)
    assert codes(node.ask(MetadataRequest(topics=named("orders")), 12)) == {"orders": INVALID_REPLICATION}


def test_offsets_topic_is_internal_before_it_exists() -> None:
    node = Node()
    request = MetadataRequest(topics=named("__consumer_offsets"), allow_auto_topic_creation=False)
    [topic] = node.ask(request, 12).topics
    assert (topic.error_code, topic.is_internal, topic.partitions) == (UNKNOWN, True, [])
    [topic] = node.ask(MetadataRequest(topics=named("__consumer_offsets")), 12).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (OK, True, 50)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_auto_created_internal_topic_has_its_settings_and_refuses_clients(any_kafka: Kafka, topic: str) -> None:
    with Wire(any_kafka.bootstrap_servers) as wire:
        created = eventually(
            lambda: wire.ask(MetadataRequest(topics=named(topic)), 12).topics[0], lambda row: row.error_code == OK
        )
        assert (created.is_internal, len(created.partitions)) == (True, 4)
        resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
        [described] = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
        given = {config.name: config.value for config in described.configs if config.config_source == 1}
        assert given == INTERNAL_CONFIGS[topic]
        eventually(lambda: wire.produce(topic, b"x"), lambda code: code == INVALID_TOPIC)
        partition = DeleteRecordsPartition(partition_index=0, offset=0)
        asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000)
        assert wire.ask(asked, 2).topics[0].partitions[0].error_code == INVALID_TOPIC


def test_authorized_operations_are_returned_on_request(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    plain = wire.ask(MetadataRequest(topics=named(name)), 10)
    assert (plain.cluster_authorized_operations, plain.topics[0].topic_authorized_operations) == (NOT_TOLD, NOT_TOLD)
    request = MetadataRequest(
        topics=named(name), include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    response = wire.ask(request, 10)
    assert (response.cluster_authorized_operations, response.topics[0].topic_authorized_operations) == (8096, 3576)


def test_advertised_address_and_rack_are_returned() -> None:
    node = Node(advertised_listeners="PLAINTEXT://broker.example:19092", broker_rack="r1")
    [broker] = node.ask(MetadataRequest(topics=[]), 12).brokers
    assert (broker.host, broker.port, broker.rack) == ("broker.example", 19092, "r1")


# ---- DescribeCluster ----


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_returns_the_broker(version: int, wire: Wire, any_kafka: Kafka) -> None:
    response = wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=version == 2), version)

    [broker] = response.brokers
    assert (broker.broker_id, f"{broker.host}:{broker.port}", broker.rack) == (1, any_kafka.bootstrap_servers, None)
    assert (response.error_code, response.error_message, response.controller_id) == (OK, None, 1)
    assert response.cluster_id == wire.ask(MetadataRequest(topics=[]), 12).cluster_id
    assert response.cluster_authorized_operations == (8096 if version == 2 else NOT_TOLD)


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (3, 115)])
def test_other_endpoint_types_are_refused(endpoint_type: int, code: int, wire: Wire) -> None:
    response = wire.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (response.error_code, response.brokers, response.cluster_id) == (code, [], "")
    assert response.error_message


# ---- DescribeTopicPartitions ----


def page(wire: Wire, *names: str, cursor: tuple[str, int] | None = None, limit: int = 2000) -> Any:
    """Return the rows (name, error, partitions) and the next cursor."""
    start = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, cursor=start, response_partition_limit=limit)
    response = wire.ask(request, 0)
    rows = [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in response.topics]
    after = response.next_cursor
    return rows, None if after is None else (after.topic_name, after.partition_index)


@pytest.fixture
def pair(any_kafka: Kafka) -> tuple[str, str]:
    """Create two topics with two and three partitions; return their names, sorted."""
    return any_kafka.new_topic(2, prefix="pair-a"), any_kafka.new_topic(3, prefix="pair-b")


def test_describe_topic_partitions_sorts_by_name_without_null_lists(wire: Wire, pair: tuple[str, str]) -> None:
    a, b = pair
    assert page(wire, b, "nope", a, a, "a/b") == (
        [("a/b", INVALID_TOPIC, []), ("nope", UNKNOWN, []), (a, OK, [0, 1]), (b, OK, [0, 1, 2])],
        None,
    )
    response = wire.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=a)]), 0)
    [topic] = response.topics
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)
    assert topic.topic_id == wire.ask(MetadataRequest(topics=named(a)), 12).topics[0].topic_id
    for partition in topic.partitions:
        assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 0, OK)
        assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_pages_end_within_and_between_topics(wire: Wire, pair: tuple[str, str]) -> None:
    a, b = pair
    assert page(wire, a, b, limit=1) == ([(a, OK, [0])], (a, 1))
    assert page(wire, a, b, limit=2) == ([(a, OK, [0, 1])], (b, 0))
    assert page(wire, a, b, limit=4) == ([(a, OK, [0, 1]), (b, OK, [0, 1])], (b, 2))
    assert page(wire, a, b, limit=5) == ([(a, OK, [0, 1]), (b, OK, [0, 1, 2])], None)
    assert page(wire, a, limit=2) == ([(a, OK, [0, 1])], None)
    assert page(wire, a, b, cursor=(a, 1), limit=3) == ([(a, OK, [1]), (b, OK, [0, 1])], (b, 2))
    assert page(wire, a, b, cursor=(b, 2), limit=3) == ([(b, OK, [2])], None)
    for limit in (0, -1):
        assert page(wire, a, limit=limit) == ([(a, OK, [0])], (a, 1))
    assert page(wire, a, cursor=(a, 7)) == ([(a, OK, [])], None)


def test_invalid_cursor_is_refused(wire: Wire, pair: tuple[str, str]) -> None:
    a, b = pair
    for cursor in (("", 0), (a, -1), ("nope", 0), ("zzz", 0)):
        assert page(wire, b, a, cursor=cursor) == ([(b, INVALID_REQUEST, []), (a, INVALID_REQUEST, [])], None)


def test_all_topics_in_pages(wire: Wire, pair: tuple[str, str]) -> None:
    found: list[str] = []
    cursor = None
    while True:
        rows, cursor = page(wire, cursor=cursor, limit=3)
        found += [name for name, _, _ in rows if name not in found[-1:]]
        if cursor is None:
            break
    assert found == sorted(found)
    assert set(pair) <= set(found)


def test_page_continues_after_a_deleted_topic() -> None:
    node = Node()
    node.cluster.create_topic("a")
    node.cluster.create_topic("c", 2)
    request = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="b", partition_index=1))
    [topic] = node.ask(request, 0).topics
    assert (topic.name, len(topic.partitions)) == ("c", 2)


def test_broker_limits_the_page_size() -> None:
    node = Node(max_request_partition_size_limit=2)
    node.cluster.create_topic("a", 5)
    response = node.ask(DescribeTopicPartitionsRequest(), 0)
    assert len(response.topics[0].partitions) == 2
    assert response.next_cursor == Cursor(topic_name="a", partition_index=2)


# ---- DescribeLogDirs ----


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs_returns_directory_and_sizes(version: int, wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(2)
    producer = any_kafka.ordered_producer()
    producer.produce(name, b"v" * 1000, partition=1)
    assert producer.flush(20) == 0
    partitions = [
        DescribableLogDirTopic(topic=name, partitions=[0, 1, 7]),
        DescribableLogDirTopic(topic="nope", partitions=[0]),
    ]

    response = eventually(
        lambda: wire.ask(DescribeLogDirsRequest(topics=partitions), version),
        lambda answer: [len(topic.partitions) for topic in answer.results[0].topics] == [2],
    )

    [directory] = response.results
    assert (response.error_code, directory.error_code) == (OK, OK)
    assert Path(directory.log_dir).is_dir()
    [topic] = directory.topics
    sizes = {partition.partition_index: partition.partition_size for partition in topic.partitions}
    assert topic.name == name
    assert sizes.keys() == {0, 1}
    assert sizes[0] == 0
    assert 1000 < sizes[1] < 1200
    assert all((p.offset_lag, p.is_future_key) == (0, False) for p in topic.partitions)
    total = shutil.disk_usage(directory.log_dir).total if version >= 4 else -1
    assert directory.total_bytes == total
    assert (directory.usable_bytes > 0) == (version >= 4)


def test_null_requests_all_partitions_and_an_empty_list_none(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()
    eventually(
        lambda: {topic.name for topic in wire.ask(DescribeLogDirsRequest(topics=None), 5).results[0].topics},
        lambda names: name in names,
    )
    [directory] = wire.ask(DescribeLogDirsRequest(topics=[]), 5).results
    assert directory.topics == []


def test_failed_directory_has_a_storage_error() -> None:
    node = Node()
    node.cluster.create_topic("orders")
    node.log_manager.fail("no space left")
    [directory] = node.ask(DescribeLogDirsRequest(topics=None), 5).results
    assert (directory.error_code, directory.log_dir, directory.topics) == (56, DATA, [])


# ---- ListPartitionReassignments and ListConfigResources ----


def test_there_are_no_reassignments(wire: Wire) -> None:
    response = wire.ask(ListPartitionReassignmentsRequest(), 0)
    assert (response.error_code, response.error_message, response.topics) == (OK, None, [])


def test_list_config_resources(wire: Wire, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic()

    def listed(version: int, *kinds: int) -> set[tuple[int, str]]:
        response = wire.ask(ListConfigResourcesRequest(resource_types=list(kinds)), version)
        assert response.error_code == OK
        return {(one.resource_type, one.resource_name) for one in response.config_resources}

    assert {kind for kind, _ in listed(0)} <= {16}, "other tests may have set those of client metrics"
    assert listed(1, 4, 8) == {(4, "1"), (8, "1")}
    assert {kind for kind, _ in listed(1, 16, 32)} <= {16, 32}, "other tests may have set these"
    assert {(2, name), (4, "1"), (8, "1")} <= listed(1)
    assert wire.ask(ListConfigResourcesRequest(resource_types=[2, 99]), 1).error_code == UNSUPPORTED


def test_all_versions_of_kafka_are_served() -> None:
    for request in (
        MetadataRequest,
        DescribeClusterRequest,
        DescribeTopicPartitionsRequest,
        DescribeLogDirsRequest,
        ListConfigResourcesRequest,
        ListPartitionReassignmentsRequest,
    ):
        served = HANDLERS[request.API_KEY]
        assert (served.first_version, served.last_version) == request.VERSIONS

"""Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator, ListPartitionReassignments on a node.

The cluster is an image of metadata records. Errors and fields are those of KRaftMetadataCache in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kcli.broker.cluster.decide import list_partition_reassignments
from kcli.broker.cluster.view import ClusterView
from kcli.broker.config import BrokerConfig
from kcli.broker.coordinator_log import key_hash
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.serving.request_context import RequestContext
from kcli.clock import ManualClock
from kcli.protocol.codec import decode, encode
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord, TopicRecord
from kcli.protocol.wire import Request
from kcli.structs import OFFSETS_TOPIC
from tests.broker.node.images import apply, broker_record, image_of, partition_record, topic_id, topic_records

ORDERS, OFFSETS = topic_id(1), topic_id(2)
UNKNOWN, LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE, LISTENER_NOT_FOUND = 3, 5, 9, 15, 72


class NodeParts:
    """The parts of a node that handlers of metadata use."""

    def __init__(self, *records: Any, **properties: Any) -> None:
        self.image = image_of(*records)
        texts = {name.replace("_", "."): str(value) for name, value in properties.items()}
        self.config = BrokerConfig.from_properties({"node.id": "1", **texts})
        self.authorizer = AllowAll()
        self.created: list[str] = []
        self.cluster = ClusterView(self.image, self.config, "c1", ManualClock(), self._create)

    def _create(self, request: Any, done: Any) -> None:
        self.created += [topic.name for topic in request.topics]

    def apply(self, *records: Any) -> None:
        self.cluster.apply(self.image, apply(self.image, *records))

    def ask(self, request: Request[Any], version: int, listener: str = "PLAINTEXT") -> Any:
        """Return the response; request and response are encoded and decoded."""
        key = request.API_KEY
        context = RequestContext(key, version, 1, "test", "c1", "127.0.0.1", 0, 0, listener=listener)
        module = HANDLERS[key].module
        handler = import_module(f"kcli.broker.handlers.{module}") if module else list_partition_reassignments
        response = handler.handle(self, decode(type(request), encode(request, version), version), context)
        return decode(type(response), encode(response, version), version)

    def partitions(self, version: int = 12, **context: Any) -> list[Any]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        (topic,) = self.ask(request, version, **context).topics
        return list(topic.partitions)


def three_brokers() -> list[Any]:
    return [broker_record(1, rack="a"), broker_record(2, rack="b"), broker_record(3, fenced=True)]


def test_metadata_has_the_live_brokers_and_a_broker_that_forwards_as_controller() -> None:
    node = NodeParts(*three_brokers())
    response = node.ask(MetadataRequest(topics=[]), 12)
    assert [(one.node_id, one.host, one.port, one.rack) for one in response.brokers] == [
        (1, "127.0.0.1", 9091, "a"),
        (2, "127.0.0.1", 9092, "b"),
    ]
    assert (response.cluster_id, response.controller_id) == ("c1", 1)
    response = node.ask(MetadataRequest(topics=[]), 12, listener="INTERNAL")
    assert response.brokers == []


def test_metadata_has_replicas_isr_leader_epoch_and_offline_replicas() -> None:
    row = partition_record(ORDERS, 0, [2, 3, 1], isr=[2, 1], leader_epoch=7)
    node = NodeParts(*three_brokers(), TopicRecord(name="orders", topic_id=ORDERS), row)
    (partition,) = node.partitions()
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 2, 7)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([2, 3, 1], [2, 1], [3])


def test_metadata_v0_has_only_live_replicas_and_an_error_if_some_are_missing() -> None:
    row = partition_record(ORDERS, 0, [2, 3, 1], isr=[2, 3])
    node = NodeParts(*three_brokers(), TopicRecord(name="orders", topic_id=ORDERS), row)
    (partition,) = node.partitions(version=0)
    assert (partition.error_code, partition.leader_id) == (REPLICA_NOT_AVAILABLE, 2)
    assert (partition.replica_nodes, partition.isr_nodes) == ([2, 1], [2])


def test_metadata_of_a_partition_without_a_leader_is_error_5() -> None:
    node = NodeParts(*three_brokers(), *topic_records("orders", ORDERS, [3, 1], [1]))
    node.apply(PartitionChangeRecord(topic_id=ORDERS, partition_id=0, leader=-1, isr=[3]))
    leaderless, led = node.partitions()
    assert (leaderless.error_code, leaderless.leader_id, leaderless.leader_epoch) == (LEADER_NOT_AVAILABLE, -1, 1)
    assert (leaderless.isr_nodes, leaderless.offline_replicas) == ([3], [3])
    assert (led.error_code, led.leader_id) == (0, 1)


def test_metadata_on_a_listener_that_the_leader_lacks_is_error_72_and_before_v6_error_5() -> None:
    node = NodeParts(*three_brokers(), *topic_records("orders", ORDERS, [1]))
    assert node.partitions(12, listener="OTHER")[0].error_code == LISTENER_NOT_FOUND
    assert node.partitions(5, listener="OTHER")[0].error_code == LEADER_NOT_AVAILABLE


def test_an_unknown_topic_is_requested_from_the_controller_and_unknown_until_it_is_there() -> None:
    node = NodeParts(*three_brokers())
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
    assert node.ask(request, 12).topics[0].error_code == UNKNOWN
    assert node.created == ["orders"]
    node.apply(*topic_records("orders", ORDERS, [1, 2]))
    assert node.ask(request, 12).topics[0].partitions[0].replica_nodes == [1, 2]


def test_describe_cluster_has_fenced_brokers_only_on_request() -> None:
    node = NodeParts(*three_brokers())
    response = node.ask(DescribeClusterRequest(), 2)
    assert [(one.broker_id, one.is_fenced) for one in response.brokers] == [(1, False), (2, False)]
    assert response.controller_id == 1
    response = node.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [(one.broker_id, one.is_fenced) for one in response.brokers] == [(1, False), (2, False), (3, True)]
    assert node.ask(DescribeClusterRequest(), 2, listener="OTHER").controller_id == -1


def test_describe_topic_partitions_has_eligible_leaders_and_offline_replicas() -> None:
    row = partition_record(
        ORDERS, 0, [3, 1], isr=[1], leader=-1, leader_epoch=4, eligible_leader_replicas=[3], last_known_elr=[1]
    )
    node = NodeParts(*three_brokers(), TopicRecord(name="orders", topic_id=ORDERS), row)
    (topic,) = node.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")]), 0).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, -1, 4)
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([3], [1])
    assert (partition.replica_nodes, partition.offline_replicas) == ([3, 1], [3])


def test_describe_topic_partitions_in_pages() -> None:
    node = NodeParts(*three_brokers(), *topic_records("orders", ORDERS, [1], [2], [1]))
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], response_partition_limit=2)
    first = node.ask(request, 0)
    assert [one.partition_index for one in first.topics[0].partitions] == [0, 1]
    assert first.next_cursor == Cursor(topic_name="orders", partition_index=2)
    request.cursor = first.next_cursor
    last = node.ask(request, 0)
    assert [one.partition_index for one in last.topics[0].partitions] == [2]
    assert last.next_cursor is None


def test_the_coordinator_of_a_group_is_the_live_leader_of_its_partition() -> None:
    node = NodeParts(*three_brokers())
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"])
    (row,) = node.ask(request, 4).coordinators
    assert (row.error_code, row.node_id) == (COORDINATOR_NOT_AVAILABLE, -1)
    assert node.created == [OFFSETS_TOPIC]
    node.apply(*topic_records(OFFSETS_TOPIC, OFFSETS, [1, 2], [2, 1], [3, 1]))
    for group in ("readers", "writers", "others", "more", "a", "b"):
        leader = key_hash(group) % 3 + 1
        (row,) = node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
        if leader == 3:  # which is fenced
            assert (row.error_code, row.node_id) == (COORDINATOR_NOT_AVAILABLE, -1)
        else:
            assert (row.error_code, row.node_id, row.port) == (0, leader, 9090 + leader)
    node.apply(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=103, fenced=-1))
    group = next(name for name in ("readers", "writers", "others", "more", "a", "b", "c") if key_hash(name) % 3 == 2)
    (row,) = node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
    assert (row.error_code, row.node_id, row.port) == (0, 3, 9093)


def test_reassignments_have_the_replicas_that_come_and_go() -> None:
    node = NodeParts(*three_brokers(), *topic_records("orders", ORDERS, [1], [2]))
    assert node.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics == []
    change = PartitionChangeRecord(
        topic_id=ORDERS, partition_id=1, replicas=[3, 2], adding_replicas=[3], removing_replicas=[2]
    )
    node.apply(change)
    named = [
        ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 1, 9]),
        ListPartitionReassignmentsTopics(name="unknown", partition_indexes=[0]),
    ]
    for topics in (None, named):
        response = node.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        (topic,) = response.topics
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index, partition.replicas) == ("orders", 1, [3, 2])
        assert (partition.adding_replicas, partition.removing_replicas) == ([3], [2])

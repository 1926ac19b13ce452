"""Requests of administrators, on a single broker and on a single node of Apache Kafka: all fields are compared."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

from kcli.broker.group.group_coordinator import GroupCoordinator
from kcli.broker.group.offset_store import OffsetStore
from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from kcli.broker.testing.memory_files import Fault
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from tests.broker.handlers.admin_story import SAFE, UPGRADE, shown, told
from tests.broker.single_broker import Node
from tests.broker.wire import Wire
from tests.limits import Limit
from tests.real_kafka import Kafka

PATIENCE_S = 20.0
NOT_SUPPORTED = ErrorCode.UNSUPPORTED_VERSION
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def answers(address: str, topic: str, expected: dict[str, Any] | None = None) -> dict[str, Any]:
    """Create the topic, make all requests of the story, and return the answers by the name of the step.

    A node follows its controller a moment later, so that it is asked again for what it describes.
    """
    created = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)])
    with Wire(address) as wire:
        assert wire.ask(created, 7).topics[0].error_code == 0
        limit = Limit("metadata of the new topic")
        while wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0].error_code:
            limit.check()
        (directory,) = (one.log_dir for one in wire.ask(DescribeLogDirsRequest(topics=None), 4).results)
        found = {}
        for number, (name, request, version) in enumerate(told(topic, directory)):
            step, deadline = f"{number} {name}", time.monotonic() + PATIENCE_S
            found[step] = shown(wire.ask(request, version))
            while isinstance(request, DescribeClientQuotasRequest) and found[step] != (expected or found)[step]:
                assert time.monotonic() < deadline, found[step]
                found[step] = shown(wire.ask(request, version))
        return found


def test_story_has_the_answers_of_apache_kafka(our_kafka: Kafka, real_kafka: Kafka) -> None:
    topic = f"story-{uuid4().hex[:8]}"
    ours = answers(our_kafka.bootstrap_servers, topic)
    apaches = answers(real_kafka.bootstrap_servers, topic, ours)
    assert len(ours) > 190
    assert {step: answer for step, answer in ours.items() if answer != apaches[step]} == {}
    assert ours.keys() == apaches.keys()


def test_node_with_our_controller_has_the_answers_of_a_single_broker(our_kafka: Kafka) -> None:
    topic = f"story-{uuid4().hex[:8]}"
    ours = answers(our_kafka.bootstrap_servers, topic)
    with EmbeddedCluster(1) as cluster:
        of_node = answers(cluster.bootstrap_servers, topic, ours)
    of_node = {step: answer for step, answer in of_node.items() if "quorum" not in step}  # its leader is the controller
    assert {step: answer for step, answer in of_node.items() if answer != ours[step]} == {}


def test_client_over_its_quota_is_throttled(any_kafka: Kafka) -> None:
    topic, client = any_kafka.new_topic(), f"c-{uuid4().hex[:8]}"
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client)],
        ops=[OpData(key="producer_byte_rate", value=100.0)],
    )
    data = PartitionProduceData(records=build_batch([NewRecord(None, bytes(1500), 1_500_000_000_000)]))
    request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    with Wire(any_kafka.bootstrap_servers) as wire, Wire(any_kafka.bootstrap_servers) as other:
        assert wire.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0
        deadline = time.monotonic() + PATIENCE_S
        while not wire.ask(request, 9, client).throttle_time_ms:  # Apache Kafka applies the quota a moment later
            assert time.monotonic() < deadline
        assert other.ask(request, 9, "another").throttle_time_ms == 0
        entry.ops[0].remove = True
        assert other.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0


# ---- state of a single broker ----


def update(node: Node, feature: str, level: int, kind: int, *, validate_only: bool = False) -> Any:
    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    return node.ask(UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only), 2)


def set_quota(node: Node, rate: float | None) -> Any:
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name=None), EntityData(entity_type="client-id", entity_name="c")],
        ops=[OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)],
    )
    return node.ask(AlterClientQuotasRequest(entries=[entry]), 1)


def test_level_of_a_feature_survives_a_restart() -> None:
    node = Node()
    epoch = node.cluster.features_epoch
    assert update(node, "transaction.version", 0, SAFE, validate_only=True).error_code == 0
    assert (node.cluster.features["transaction.version"], node.cluster.features_epoch) == (2, epoch)
    assert update(node, "transaction.version", 0, SAFE).error_code == 0
    node.restart()
    assert "transaction.version" not in node.cluster.features
    assert node.cluster.features["group.version"] == 1
    assert node.cluster.features_epoch > epoch
    assert update(node, "transaction.version", 1, UPGRADE).error_code == 0
    assert node.cluster.features["transaction.version"] == 1


def test_consumer_groups_need_their_feature() -> None:
    node: Any = Node()
    store = OffsetStore(node.config, node.replica_manager, node.cluster, node.clock)
    node.groups = GroupCoordinator(node.config, node.timer, node.clock, store, node.cluster)
    assert update(node, "group.version", 0, SAFE).error_code == 0
    assert node.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), 1).error_code == NOT_SUPPORTED
    described = node.ask(ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 1).groups
    assert [(one.group_id, one.error_code) for one in described] == [("g", NOT_SUPPORTED), ("h", NOT_SUPPORTED)]


def test_feature_that_the_broker_does_not_serve_is_refused() -> None:
    assert update(Node(), "share.version", 1, UPGRADE).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_quota_is_in_effect_and_survives_a_restart() -> None:
    node = Node()
    assert node.replica_manager.client_quotas is None
    assert set_quota(node, 1000.0).entries[0].error_code == 0
    node.restart()
    assert node.cluster.image.quotas == {(("client-id", "c"), ("user", None)): {"producer_byte_rate": 1000.0}}
    quotas = node.replica_manager.client_quotas
    assert quotas is not None
    assert quotas.limit("producer_byte_rate", "User:anyone", "c") == 1000.0
    assert set_quota(node, 2000.0).entries[0].error_code == 0
    assert quotas.limit("producer_byte_rate", "User:anyone", "c") == 2000.0
    assert set_quota(node, None).entries[0].error_code == 0
    assert (node.cluster.image.quotas, node.replica_manager.client_quotas) == ({}, None)


def test_decision_that_cannot_be_stored_is_taken_back() -> None:
    node = Node()
    node.files.faults.append(Fault("append"))
    assert update(node, "group.version", 0, SAFE).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.cluster.features["group.version"] == 1


def test_telemetry_has_no_metrics_and_a_client_keeps_its_id() -> None:
    node, zero = Node(), UUID(int=0)
    first = node.ask(GetTelemetrySubscriptionsRequest(client_instance_id=zero), 0)
    assert (first.error_code, first.requested_metrics) == (0, [])
    assert first.client_instance_id != zero
    again = node.ask(GetTelemetrySubscriptionsRequest(client_instance_id=first.client_instance_id), 0)
    assert again.client_instance_id == first.client_instance_id


# ---- rights ----


class Nobody:
    """An authorizer that denies everything."""

    is_open = False

    def allows_cluster(self, *_: Any) -> bool:
        return False

    allows = allows_cluster


def test_clients_without_the_right_get_the_error_where_apache_kafka_has_it() -> None:
    node = Node()
    node.authorizer = Nobody()
    assert update(node, "group.version", 0, SAFE).error_code == DENIED
    assert set_quota(node, 1.0).entries[0].error_code == DENIED
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    elected = node.ask(request, 0).replica_election_results
    assert [row.error_code for row in elected[0].partition_result] == [DENIED]
    moved = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
    reassigned = node.ask(AlterPartitionReassignmentsRequest(topics=[moved]), 1)
    assert (reassigned.error_code, reassigned.responses[0].partitions[0].error_code) == (DENIED, DENIED)
    directory = AlterReplicaLogDir(path="/d", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
    (row,) = node.ask(AlterReplicaLogDirsRequest(dirs=[directory]), 2).results
    assert [one.error_code for one in row.partitions] == [DENIED]
    assert node.ask(DescribeQuorumRequest(), 2).error_code == DENIED
    assert (node.cluster.features["group.version"], node.cluster.image.quotas) == (1, {})

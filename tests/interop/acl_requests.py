"""Requests of every API with access rules, and what their responses show: for the stories of `test_acl_stories`.

A request names the resource that the ACLs are for ("mine"), another one that exists ("other"), and one that does not
("missing").
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, AclPermissionType, ResourceType
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kcli.protocol.messages.alter_configs import AlterableConfig as NewConfig
from kcli.protocol.messages.alter_configs import AlterConfigsRequest
from kcli.protocol.messages.alter_configs import AlterConfigsResource as ChangedResource
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
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest
from kcli.protocol.messages.describe_quorum import PartitionRequest as QuorumPartition
from kcli.protocol.messages.describe_quorum import TopicRequest as QuorumTopic
from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kcli.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from tests.interop.acl_scene import PATIENCE_S, Scene, User

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, CREATE, DELETE, ALTER = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)
DESCRIBE, CLUSTER_ACTION, IDEMPOTENT_WRITE = (
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
)
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
ALIASES = ("mine", "other", "missing")
ANY = 1


class Stage:
    """The names of one user's requests: topics "mine" and "other" exist, "missing" does not; a group of each name."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.mine, self.other, self.missing = (scene.name(prefix) for prefix in ("mine", "other", "missing"))
        self.names = [self.mine, self.other, self.missing]
        self.ids: dict[str, UUID] = {}
        self.user: User

    def alias(self, key: str | UUID | None) -> str:
        """Return mine, other or missing for a name or id."""
        for name in self.names:
            if key == name or (key == self.ids.get(name) and key is not None):
                return name.partition("-")[0]
        return "?" if key else "-"

    def ask(self, request: Any, version: int) -> Any:
        return self.user.ask(request, version)

    def codes(self, rows: Any, key: str = "name") -> str:
        """Return the error codes of rows, for mine, other and missing."""
        return in_order({self.alias(getattr(row, key)): row.error_code for row in rows})

    def partition_codes(self, topics: Any, partitions: str, key: str = "name") -> str:
        """Return the error codes of the only partition of each topic, for mine, other and missing."""
        found = {}
        for one in topics:
            [row] = getattr(one, partitions)
            found[self.alias(getattr(one, key))] = row.error_code
        return in_order(found)

    def commit(self, *groups: str) -> None:
        """Let the super user commit an offset of both topics for each group."""
        for name in groups:
            response = self.scene.admin.ask(
                OffsetCommitRequest(group_id=name, topics=commit_topics([self.mine, self.other])), 8
            )
            assert all(row.error_code == 0 for one in response.topics for row in one.partitions), response


def in_order(found: dict[str, Any]) -> str:
    """Return values by alias as text, for mine, other and missing; without those that are absent."""
    assert set(found) <= set(ALIASES), found
    return " ".join(str(found[alias]) for alias in ALIASES if alias in found)


def commit_topics(names: list[str]) -> list[OffsetCommitRequestTopic]:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    return [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in names]


# ---- records ----


def batch() -> bytes:
    return build_batch([NewRecord(b"k", b"v", 1_500_000_000_000)])


def produce(stage: Stage) -> Any:
    data = [PartitionProduceData(index=0, records=batch())]
    topics = [TopicProduceData(name=name, partition_data=data) for name in stage.names]
    response = stage.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9)
    return stage.partition_codes(response.responses, "partition_responses")


def produce_by_id(stage: Stage) -> Any:
    data = [PartitionProduceData(index=0, records=batch())]
    topics = [TopicProduceData(topic_id=stage.ids[name], partition_data=data) for name in stage.names]
    response = stage.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 13)
    return stage.partition_codes(response.responses, "partition_responses", "topic_id")


def produce_without_answer(stage: Stage) -> Any:
    """An error with acks=0 closes the connection."""
    data = [PartitionProduceData(index=0, records=batch())]
    topics = [TopicProduceData(name=stage.mine, partition_data=data)]
    stage.user.wire.request(ProduceRequest(acks=0, timeout_ms=5000, topic_data=topics), 9)
    try:
        stage.ask(MetadataRequest(topics=[]), 12)
    except (AssertionError, OSError):
        return "closed"
    return "open"


def fetch(stage: Stage, version: int = 12, **more: Any) -> Any:
    by_id = version >= 13
    topics = [
        FetchTopic(
            topic="" if by_id else name,
            topic_id=stage.ids[name] if by_id else UUID(int=0),
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
        )
        for name in stage.names
    ]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10_000, topics=topics, **more)
    response = stage.ask(request, version)
    assert response.error_code == 0
    for one in response.responses:
        [row] = one.partitions
        assert (row.high_watermark == -1) == (row.error_code != 0), row
    return stage.partition_codes(response.responses, "partitions", "topic_id" if by_id else "topic")


def list_offsets(stage: Stage) -> Any:
    topics = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for name in stage.names
    ]
    response = stage.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    return stage.partition_codes(response.topics, "partitions")


def epoch_ends(stage: Stage) -> Any:
    topics = [
        OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
        for name in stage.names
    ]
    response = stage.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
    return stage.partition_codes(response.topics, "partitions", "topic")


def delete_records(stage: Stage) -> Any:
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
        for name in stage.names
    ]
    response = stage.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
    return stage.partition_codes(response.topics, "partitions")


# ---- topics ----


def operations(bits: int) -> str:
    """Return the names of a bit field, "-" for its default."""
    if bits == -(2**31):
        return "-"
    return " ".join(one.name.lower() for one in AclOperation if bits >> one & 1)


def metadata(stage: Stage) -> Any:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in stage.names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    return described(stage, stage.ask(request, 12).topics)


def described(stage: Stage, topics: Any) -> Any:
    """Return the error codes, and for the first topic its partitions, the presence of its id, and its operations."""
    rows = {stage.alias(one.name): one for one in topics}
    for row in rows.values():
        if row.error_code:
            assert (row.partitions, row.topic_id) == ([], UUID(int=0)), row
    mine = rows["mine"]
    return stage.codes(topics), len(mine.partitions), operations(mine.topic_authorized_operations)


def metadata_by_id(stage: Stage) -> Any:
    topics = [MetadataRequestTopic(name=None, topic_id=stage.ids[name]) for name in stage.names]
    response = stage.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    return in_order({stage.alias(one.topic_id): f"{one.error_code}:{stage.alias(one.name)}" for one in response.topics})


def metadata_of_all(stage: Stage) -> Any:
    response = stage.ask(MetadataRequest(topics=None), 12)
    return " ".join(sorted(stage.alias(one.name) for one in response.topics))


def auto_create(stage: Stage) -> Any:
    """Name two topics that do not exist; one that is created is unknown (3), or in the response of our broker."""
    names = [f"{stage.mine}-new", f"{stage.other}-new"]
    response = stage.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12)
    codes = {one.name: one.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for one in response.topics}
    return " ".join(str(int(codes[name])) for name in names)


def describe_topic_partitions(stage: Stage) -> Any:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in stage.names])
    return described(stage, stage.ask(request, 0).topics)


def describe_all_topic_partitions(stage: Stage) -> Any:
    response = stage.ask(DescribeTopicPartitionsRequest(), 0)
    return " ".join(sorted(stage.alias(one.name) for one in response.topics))


def create_topics(stage: Stage) -> Any:
    names = [f"{stage.mine}-new", stage.mine, f"{stage.other}-new", stage.other]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    response = stage.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    found = {
        one.name: f"{one.error_code}/{one.topic_config_error_code}" if not one.error_code else f"{one.error_code}"
        for one in response.topics
    }
    assert all((one.num_partitions == 1) == bool(one.configs) for one in response.topics)
    return " ".join(found[name] for name in names)


def delete_topics(stage: Stage) -> Any:
    return stage.codes(stage.ask(DeleteTopicsRequest(topic_names=stage.names, timeout_ms=5000), 5).responses)


def delete_topics_by_id(stage: Stage) -> Any:
    topics = [DeleteTopicState(name=None, topic_id=stage.ids[name]) for name in stage.names]
    response = stage.ask(DeleteTopicsRequest(topics=topics, timeout_ms=5000), 6)
    rows = {stage.alias(one.topic_id): f"{one.error_code}:{stage.alias(one.name)}" for one in response.responses}
    return in_order(rows)


def create_partitions(stage: Stage) -> Any:
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in stage.names]
    return stage.codes(stage.ask(CreatePartitionsRequest(topics=topics, timeout_ms=5000), 3).results)


def describe_configs(stage: Stage) -> Any:
    resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in stage.names]
    response = stage.ask(DescribeConfigsRequest(resources=resources), 4)
    assert all(bool(one.configs) == (one.error_code == 0) for one in response.results)
    return stage.codes(response.results, "resource_name")


def incremental_alter_configs(stage: Stage) -> Any:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="60000")
    resources = [AlterConfigsResource(resource_type=2, resource_name=name, configs=[change]) for name in stage.names]
    response = stage.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
    return stage.codes(response.responses, "resource_name")


def alter_configs(stage: Stage) -> Any:
    change = NewConfig(name="retention.ms", value="60000")
    resources = [ChangedResource(resource_type=2, resource_name=name, configs=[change]) for name in stage.names]
    response = stage.ask(AlterConfigsRequest(resources=resources), 2)
    return stage.codes(response.responses, "resource_name")


# ---- groups and offsets ----


def find_coordinator(stage: Stage) -> Any:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=stage.names)
    return stage.codes(stage.ask(request, 4).coordinators, "key")


def find_coordinator_of_one(stage: Stage) -> Any:
    response = stage.ask(FindCoordinatorRequest(key_type=0, key=stage.mine), 3)
    return response.error_code, response.node_id == -1


def join_group(stage: Stage, version: int = 7) -> Any:
    request = JoinGroupRequest(
        group_id=stage.mine,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    response = stage.ask(request, version)
    return response.error_code, response.generation_id, response.protocol_name


def sync_group(stage: Stage) -> Any:
    request = SyncGroupRequest(group_id=stage.mine, generation_id=1, member_id="m")
    return stage.ask(request, 4).error_code


def heartbeat(stage: Stage) -> Any:
    return stage.ask(HeartbeatRequest(group_id=stage.mine, generation_id=1, member_id="m"), 4).error_code


def leave_group(stage: Stage) -> Any:
    response = stage.ask(LeaveGroupRequest(group_id=stage.mine, members=[MemberIdentity(member_id="m")]), 4)
    return response.error_code, [one.error_code for one in response.members]


def leave_group_alone(stage: Stage) -> Any:
    return stage.ask(LeaveGroupRequest(group_id=stage.mine, member_id="m"), 2).error_code


def offset_commit(stage: Stage) -> Any:
    response = stage.ask(OffsetCommitRequest(group_id=stage.mine, topics=commit_topics(stage.names)), 8)
    return stage.partition_codes(response.topics, "partitions")


def offset_commit_by_id(stage: Stage) -> Any:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topics = [OffsetCommitRequestTopic(topic_id=stage.ids[name], partitions=[partition]) for name in stage.names]
    response = stage.ask(OffsetCommitRequest(group_id=stage.mine, topics=topics), 10)
    return stage.partition_codes(response.topics, "partitions", "topic_id")


def offset_fetch(stage: Stage) -> Any:
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in stage.names]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in (stage.mine, stage.other)]
    response = stage.ask(OffsetFetchRequest(groups=groups), 8)
    assert [one.error_code for one in response.groups if one.group_id == stage.other] == [30]
    return {stage.alias(one.group_id): fetched(stage, one) for one in response.groups}["mine"]


def fetched(stage: Stage, one: Any, key: str = "name") -> Any:
    """Return the error of a group, or error and offset of each topic."""
    if one.error_code:
        assert not one.topics
        return one.error_code
    return in_order(
        {
            stage.alias(getattr(row, key)): f"{row.partitions[0].error_code}@{row.partitions[0].committed_offset}"
            for row in one.topics
        }
    )


def offset_fetch_by_id(stage: Stage) -> Any:
    topics = [OffsetFetchRequestTopics(topic_id=stage.ids[name], partition_indexes=[0]) for name in stage.names]
    response = stage.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=stage.mine, topics=topics)]), 10)
    return fetched(stage, response.groups[0], "topic_id")


def offset_fetch_all(stage: Stage) -> Any:
    response = stage.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=stage.mine, topics=None)]), 8)
    return fetched(stage, response.groups[0])


def offset_fetch_old(stage: Stage, version: int = 5) -> Any:
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in stage.names]
    response = stage.ask(OffsetFetchRequest(group_id=stage.mine, topics=topics), version)
    return response.error_code, stage.partition_codes(response.topics, "partitions")


def offset_delete(stage: Stage) -> Any:
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in stage.names
    ]
    response = stage.ask(OffsetDeleteRequest(group_id=stage.mine, topics=topics), 0)
    return response.error_code, stage.partition_codes(response.topics, "partitions")


def describe_groups(stage: Stage) -> Any:
    request = DescribeGroupsRequest(groups=stage.names, include_authorized_operations=True)
    response = stage.ask(request, 5)
    [mine] = [one for one in response.groups if one.group_id == stage.mine]
    return stage.codes(response.groups, "group_id"), mine.group_state, operations(mine.authorized_operations)


def consumer_group_heartbeat(stage: Stage, topics: Sequence[str] = ()) -> Any:
    """Join, with these topics: a member may name only those that it may describe."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=stage.mine,
        member_id="m",
        rebalance_timeout_ms=10_000,
        topic_partitions=[],
        subscribed_topic_names=[*topics],
    )
    return stage.ask(request, 1).error_code


def consumer_group_describe(stage: Stage) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=stage.names, include_authorized_operations=True)
    response = stage.ask(request, 1)
    [mine] = [one for one in response.groups if one.group_id == stage.mine]
    return stage.codes(response.groups, "group_id"), mine.group_state, operations(mine.authorized_operations)


def list_groups(stage: Stage) -> Any:
    return " ".join(sorted(stage.alias(one.group_id) for one in stage.ask(ListGroupsRequest(), 4).groups))


def lists_my_groups(stage: Stage) -> Any:
    """Return which of the groups of this test are listed."""
    return " ".join(sorted({stage.alias(one.group_id) for one in stage.ask(ListGroupsRequest(), 4).groups} - {"?"}))


def delete_groups(stage: Stage) -> Any:
    return stage.codes(stage.ask(DeleteGroupsRequest(groups_names=stage.names), 2).results, "group_id")


# ---- the cluster ----


def describe_cluster(stage: Stage) -> Any:
    response = stage.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    return response.error_code, len(response.brokers), operations(response.cluster_authorized_operations)


def metadata_of_cluster(stage: Stage) -> Any:
    response = stage.ask(MetadataRequest(topics=[], include_cluster_authorized_operations=True), 9)
    return operations(response.cluster_authorized_operations)


def init_producer_id(stage: Stage) -> Any:
    """Ask until the broker has got its first block of producer ids from the controller."""
    deadline = time.monotonic() + PATIENCE_S
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    while (response := stage.ask(request, 4)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert time.monotonic() < deadline, "the broker has no producer ids"
        time.sleep(0.02)
    return response.error_code, response.producer_epoch


def init_transaction(stage: Stage) -> Any:
    request = InitProducerIdRequest(transactional_id=stage.mine, transaction_timeout_ms=1000)
    response = stage.ask(request, 4)
    return response.error_code, response.producer_epoch


def quorum(stage: Stage) -> Any:
    """Return the error, and whether there is a message."""
    partitions = [QuorumPartition(partition_index=0)]
    topic = QuorumTopic(topic_name="__cluster_metadata", partitions=partitions)
    response = stage.ask(DescribeQuorumRequest(topics=[topic]), 2)
    return response.error_code, bool(response.error_message)


def features(stage: Stage) -> Any:
    update = FeatureUpdateKey(feature="no.such", max_version_level=1)
    response = stage.ask(UpdateFeaturesRequest(feature_updates=[update]), 2)
    return response.error_code, bool(response.error_message)


def elections(stage: Stage, version: int = 2) -> Any:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=stage.mine, partitions=[0])])
    response = stage.ask(request, version)
    [topic] = response.replica_election_results
    return response.error_code, topic.partition_result[0].error_code


def reassign(stage: Stage) -> Any:
    topic = ReassignableTopic(name=stage.mine, partitions=[ReassignablePartition(partition_index=0, replicas=None)])
    response = stage.ask(AlterPartitionReassignmentsRequest(topics=[topic]), 1)
    return response.error_code, response.responses[0].partitions[0].error_code


def move_replicas(stage: Stage) -> Any:
    directory = AlterReplicaLogDir(path="/no/such", topics=[AlterReplicaLogDirTopic(name=stage.mine, partitions=[0])])
    response = stage.ask(AlterReplicaLogDirsRequest(dirs=[directory]), 2)
    return [one.error_code for topic in response.results for one in topic.partitions]


def describe_quotas(stage: Stage) -> Any:
    component = ComponentData(entity_type="user", match_type=0, match=stage.mine)
    return stage.ask(DescribeClientQuotasRequest(components=[component]), 1).error_code


def alter_quotas(stage: Stage) -> Any:
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name=stage.mine)], ops=[OpData(key="no_such_rate", value=1.0)]
    )
    return [one.error_code for one in stage.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries]


def reassignments(stage: Stage) -> Any:
    return stage.ask(ListPartitionReassignmentsRequest(timeout_ms=5000), 0).error_code


def log_dirs(stage: Stage, version: int = 4) -> Any:
    response = stage.ask(DescribeLogDirsRequest(topics=[]), version)
    return response.error_code, len(response.results)


def config_resources(stage: Stage) -> Any:
    response = stage.ask(ListConfigResourcesRequest(resource_types=[4]), 1)
    return response.error_code, len(response.config_resources)


def describe_broker_configs(stage: Stage) -> Any:
    resources = [DescribeConfigsResource(resource_type=kind, resource_name="1") for kind in (4, 8)]
    return [one.error_code for one in stage.ask(DescribeConfigsRequest(resources=resources), 4).results]


def alter_broker_configs(stage: Stage) -> Any:
    change = AlterableConfig(name="log.retention.ms", config_operation=0, value="60000000")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    response = stage.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1)
    return [one.error_code for one in response.responses]


def describe_acls(stage: Stage) -> Any:
    request = DescribeAclsRequest(
        resource_type_filter=TOPIC, resource_name_filter=stage.missing, pattern_type_filter=ANY,
        principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    response = stage.ask(request, 3)
    return response.error_code, len(response.resources)


def create_acls(stage: Stage) -> Any:
    creations = [
        AclCreation(
            resource_type=TOPIC, resource_name=name, principal=f"User:{stage.user.name}", host="*", operation=READ,
            permission_type=AclPermissionType.ALLOW,
        )
        for name in (stage.missing, "")
    ]  # fmt: skip
    return [one.error_code for one in stage.ask(CreateAclsRequest(creations=creations), 3).results]


def delete_acls(stage: Stage) -> Any:
    one = DeleteAclsFilter(
        resource_type_filter=TOPIC, resource_name_filter=stage.missing, pattern_type_filter=ANY,
        principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    response = stage.ask(DeleteAclsRequest(filters=[one]), 3)
    return [(one.error_code, len(one.matching_acls)) for one in response.filter_results]


def describe_scram(stage: Stage) -> Any:
    response = stage.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=stage.missing)]), 0)
    return response.error_code, [one.error_code for one in response.results]


def alter_scram(stage: Stage) -> Any:
    """Remove the credentials of a user who has none."""
    deletions = [ScramCredentialDeletion(name=stage.missing, mechanism=1)]
    response = stage.ask(AlterUserScramCredentialsRequest(deletions=deletions), 0)
    return [one.error_code for one in response.results]


def create_token(stage: Stage) -> Any:
    """Create a delegation token for another owner."""
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=stage.mine, max_lifetime_ms=-1
    )
    response = stage.ask(request, 3)
    return response.error_code, response.principal_name == stage.mine, bool(response.hmac)


def create_own_token(stage: Stage) -> Any:
    response = stage.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 2)
    return response.error_code, response.principal_name == stage.user.name


def describe_tokens(stage: Stage) -> Any:
    owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=stage.mine)]
    stage.ask(DescribeDelegationTokenRequest(owners=owners), 2)
    response = stage.ask(DescribeDelegationTokenRequest(owners=owners), 3)
    return response.error_code, [one.principal_name == stage.mine for one in response.tokens]


def replica_fetch(stage: Stage) -> Any:
    """A fetch as a replica, which needs CLUSTER_ACTION."""
    return fetch(stage, 16, replica_state=ReplicaState(replica_id=7, replica_epoch=1)).startswith("29")

"""Requests without and with rights, answered alike by Apache's broker and ours (KIP-11, KIP-290, KIP-430, KIP-679).

A story sends one request of an API for five users: without any right, with DESCRIBE, with the right that the API needs,
with ALL but with that right denied, and with the right on a prefix of the name (of the cluster: with ALL). Expected
values are error codes for the resources "mine", "other" and "missing" (see `acl_requests`), and other facts of the
responses. They were read from Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kcli.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tests.interop import acl_requests as ask
from tests.interop import acl_transaction_requests as txn
from tests.interop.acl_requests import Stage
from tests.interop.acl_scene import Acl, Scene, cluster

TOPIC, GROUP, CLUSTER, USER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.USER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
ALLOW = AclPermissionType.ALLOW
CREATE_TOKENS, DESCRIBE_TOKENS = AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS
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
SITUATIONS = ("none", "describe", "right", "denied", "wide")


class Story(NamedTuple):
    """A request and what it shows. `expected`: for each of SITUATIONS."""

    title: str
    kind: ResourceType
    right: AclOperation
    ask: Callable[[Stage], Any]
    expected: tuple[Any, Any, Any, Any, Any]
    also: Callable[[Stage], list[Acl]] = lambda stage: []
    resource: Callable[[Stage], str] = lambda stage: stage.mine
    before: Callable[[Stage], None] = lambda stage: None


def acls_of(situation: str, kind: ResourceType, right: AclOperation, name: str) -> list[Acl]:
    if situation == "none":
        return []
    if situation == "describe":
        return [Acl(DESCRIBE, kind, name)]
    if situation == "right":
        return [Acl(right, kind, name)]
    if situation == "denied":
        return [Acl(AclOperation.ALL, kind, name), Acl(right, kind, name, AclPermissionType.DENY)]
    if kind is CLUSTER:
        return [Acl(AclOperation.ALL, kind, name)]
    return [Acl(right, kind, name[:-1], pattern=PatternType.PREFIXED)]


STORIES: list[Story] = []


def story(
    title: str, kind: ResourceType, right: AclOperation, ask: Callable[[Stage], Any], *expected: Any, **more: Any
) -> None:
    STORIES.append(Story(title, kind, right, ask, expected, **more))  # type: ignore[arg-type]


def with_my_group(stage: Stage) -> list[Acl]:
    return [Acl(AclOperation.ALL, GROUP, stage.mine)]


def with_my_topic(stage: Stage) -> list[Acl]:
    return [Acl(AclOperation.ALL, TOPIC, stage.mine)]


def with_my_transaction(stage: Stage) -> list[Acl]:
    return [Acl(AclOperation.ALL, TRANSACTIONAL_ID, stage.mine)]


def describe_mine(stage: Stage) -> list[Acl]:
    return [Acl(DESCRIBE, TOPIC, stage.mine, pattern=PatternType.PREFIXED)]


def new_topic(stage: Stage) -> str:
    return f"{stage.mine}-new"


def user_mine(stage: Stage) -> str:
    return f"User:{stage.mine}"


def with_token(stage: Stage) -> None:
    """Let another user create a delegation token that "mine" owns."""
    acl = Acl(AclOperation.CREATE_TOKENS, ResourceType.USER, f"User:{stage.mine}")
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=stage.mine, max_lifetime_ms=-1
    )
    assert stage.scene.user([acl]).ask(request, 3).error_code == 0


def committed(stage: Stage) -> None:
    stage.commit(stage.mine, stage.other)


story("Produce", TOPIC, WRITE, ask.produce, "29 29 29", "29 29 29", "0 29 29", "29 29 29", "0 29 29")
story("Produce by id", TOPIC, WRITE, ask.produce_by_id, "29 29 100", "29 29 100", "0 29 100", "29 29 100", "0 29 100")
story("Produce without answer", TOPIC, WRITE, ask.produce_without_answer, "closed", "closed", "open", "closed", "open")
story("Fetch", TOPIC, READ, ask.fetch, "29 29 29", "29 29 29", "0 29 29", "29 29 29", "0 29 29")
story(
    "Fetch by id",
    TOPIC,
    READ,
    lambda stage: ask.fetch(stage, 16),
    "29 29 100",
    "29 29 100",
    "0 29 100",
    "29 29 100",
    "0 29 100",
)
story("ListOffsets", TOPIC, DESCRIBE, ask.list_offsets, "29 29 29", "0 29 29", "0 29 29", "29 29 29", "0 29 29")
story("OffsetForLeaderEpoch", TOPIC, DESCRIBE, ask.epoch_ends, "29 29 29", "0 29 29", "0 29 29", "29 29 29", "0 29 29")
story("DeleteRecords", TOPIC, DELETE, ask.delete_records, "29 29 29", "29 29 29", "0 29 29", "29 29 29", "0 29 29")
story(
    "Metadata",
    TOPIC,
    READ,
    ask.metadata,
    ("29 29 29", 0, "-"),
    ("0 29 29", 1, "describe"),
    ("0 29 29", 1, "read describe"),
    ("0 29 29", 1, "write create delete alter describe describe_configs alter_configs"),
    ("0 29 29", 1, "read describe"),
)
story(
    "Metadata by id",
    TOPIC,
    WRITE,
    ask.metadata_by_id,
    "29:- 29:- 100:-",
    "0:mine 29:- 100:-",
    "0:mine 29:- 100:-",
    "0:mine 29:- 100:-",
    "0:mine 29:- 100:-",
)
story("Metadata of all topics", TOPIC, ALTER, ask.metadata_of_all, "", "mine", "mine", "mine", "mine")
story(
    "Metadata that creates a topic",
    TOPIC,
    CREATE,
    ask.auto_create,
    "29 29",
    "29 29",
    "3 29",
    "29 29",
    "3 29",
    also=describe_mine,
    resource=new_topic,
)
story(
    "DescribeTopicPartitions",
    TOPIC,
    ALTER_CONFIGS,
    ask.describe_topic_partitions,
    ("29 29 29", 0, "-"),
    ("0 29 29", 1, "describe"),
    ("29 29 29", 0, "-"),
    ("0 29 29", 1, "read write create delete alter describe describe_configs"),
    ("29 29 29", 0, "-"),
)
story(
    "DescribeTopicPartitions of all topics",
    TOPIC,
    DELETE,
    ask.describe_all_topic_partitions,
    "",
    "mine",
    "mine",
    "mine",
    "mine",
)
story(
    "CreateTopics",
    TOPIC,
    CREATE,
    ask.create_topics,
    "29 29 29 29",
    "29 29 29 29",
    "0/29 29 29 29",
    "29 29 29 29",
    "0/29 29 29 29",
    resource=new_topic,
)
story(
    "CreateTopics with DescribeConfigs",
    TOPIC,
    DESCRIBE_CONFIGS,
    ask.create_topics,
    "0/29 36 0/29 36",
    "0/29 36 0/29 36",
    "0/0 36 0/29 36",
    "0/29 36 0/29 36",
    "0/0 36 0/29 36",
    also=lambda stage: [cluster(CREATE)],
    resource=new_topic,
)
story("DeleteTopics", TOPIC, DELETE, ask.delete_topics, "29 29 29", "29 29 29", "0 29 29", "29 29 29", "0 29 29")
story(
    "DeleteTopics by id",
    TOPIC,
    DELETE,
    ask.delete_topics_by_id,
    "29:- 29:- 100:-",
    "29:mine 29:- 100:-",
    "0:mine 29:- 100:-",
    "29:mine 29:- 100:-",
    "0:mine 29:- 100:-",
)
story("CreatePartitions", TOPIC, ALTER, ask.create_partitions, "29 29 29", "29 29 29", "0 29 29", "29 29 29", "0 29 29")
story(
    "DescribeConfigs",
    TOPIC,
    DESCRIBE_CONFIGS,
    ask.describe_configs,
    "29 29 29",
    "29 29 29",
    "0 29 29",
    "29 29 29",
    "0 29 29",
)
story(
    "DescribeConfigs by AlterConfigs",
    TOPIC,
    ALTER_CONFIGS,
    ask.describe_configs,
    "29 29 29",
    "29 29 29",
    "0 29 29",
    "0 29 29",
    "0 29 29",
)
story(
    "IncrementalAlterConfigs",
    TOPIC,
    ALTER_CONFIGS,
    ask.incremental_alter_configs,
    "29 29 29",
    "29 29 29",
    "0 29 29",
    "29 29 29",
    "0 29 29",
)
story("AlterConfigs", TOPIC, ALTER_CONFIGS, ask.alter_configs, "29 29 29", "29 29 29", "0 29 29", "29 29 29", "0 29 29")
story("FindCoordinator", GROUP, READ, ask.find_coordinator, "30 30 30", "0 30 30", "0 30 30", "0 30 30", "0 30 30")
story(
    "FindCoordinator v3",
    GROUP,
    READ,
    ask.find_coordinator_of_one,
    (30, True),
    (0, False),
    (0, False),
    (0, False),
    (0, False),
)
story(
    "JoinGroup",
    GROUP,
    READ,
    ask.join_group,
    (30, -1, None),
    (30, -1, None),
    (79, -1, None),
    (30, -1, None),
    (79, -1, None),
)
story(
    "JoinGroup v5",
    GROUP,
    READ,
    lambda stage: ask.join_group(stage, 5),
    (30, -1, ""),
    (30, -1, ""),
    (79, -1, ""),
    (30, -1, ""),
    (79, -1, ""),
)
story("SyncGroup", GROUP, READ, ask.sync_group, 30, 30, 25, 30, 25)
story("Heartbeat", GROUP, READ, ask.heartbeat, 30, 30, 25, 30, 25)
story("LeaveGroup", GROUP, READ, ask.leave_group, (30, []), (30, []), (0, [25]), (30, []), (0, [25]))
story("LeaveGroup v2", GROUP, READ, ask.leave_group_alone, 30, 30, 25, 30, 25)
story(
    "OffsetCommit by group",
    GROUP,
    READ,
    ask.offset_commit,
    "30 30 30",
    "30 30 30",
    "0 29 29",
    "30 30 30",
    "0 29 29",
    also=with_my_topic,
)
story(
    "OffsetCommit by topic",
    TOPIC,
    READ,
    ask.offset_commit,
    "29 29 29",
    "29 29 29",
    "0 29 29",
    "29 29 29",
    "0 29 29",
    also=with_my_group,
)
story(
    "OffsetCommit by id",
    TOPIC,
    READ,
    ask.offset_commit_by_id,
    "29 29 100",
    "29 29 100",
    "0 29 100",
    "29 29 100",
    "0 29 100",
    also=with_my_group,
)
story(
    "OffsetFetch by group",
    GROUP,
    READ,
    ask.offset_fetch,
    30,
    "0@0 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    also=with_my_topic,
    before=committed,
)
story(
    "OffsetFetch by topic",
    TOPIC,
    READ,
    ask.offset_fetch,
    "29@-1 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    "0@0 29@-1 29@-1",
    also=with_my_group,
    before=committed,
)
story(
    "OffsetFetch by id",
    TOPIC,
    READ,
    ask.offset_fetch_by_id,
    "29@-1 29@-1 100@-1",
    "0@0 29@-1 100@-1",
    "0@0 29@-1 100@-1",
    "0@0 29@-1 100@-1",
    "0@0 29@-1 100@-1",
    also=with_my_group,
    before=committed,
)
story(
    "OffsetFetch of all topics",
    TOPIC,
    DESCRIBE,
    ask.offset_fetch_all,
    "",
    "0@0",
    "0@0",
    "",
    "0@0",
    also=with_my_group,
    before=committed,
)
story(
    "OffsetFetch v5",
    GROUP,
    DESCRIBE,
    ask.offset_fetch_old,
    (30, ""),
    (0, "0 29 29"),
    (0, "0 29 29"),
    (30, ""),
    (0, "0 29 29"),
    also=with_my_topic,
    before=committed,
)
story(
    "OffsetFetch v1",
    GROUP,
    DESCRIBE,
    lambda stage: ask.offset_fetch_old(stage, 1),
    (0, "30 30 30"),
    (0, "0 29 29"),
    (0, "0 29 29"),
    (0, "30 30 30"),
    (0, "0 29 29"),
    also=with_my_topic,
    before=committed,
)
story(
    "OffsetDelete by group",
    GROUP,
    DELETE,
    ask.offset_delete,
    (30, ""),
    (30, ""),
    (0, "0 29 29"),
    (30, ""),
    (0, "0 29 29"),
    also=with_my_topic,
    before=committed,
)
story(
    "OffsetDelete by topic",
    TOPIC,
    READ,
    ask.offset_delete,
    (0, "29 29 29"),
    (0, "29 29 29"),
    (0, "0 29 29"),
    (0, "29 29 29"),
    (0, "0 29 29"),
    also=with_my_group,
    before=committed,
)
story(
    "DescribeGroups",
    GROUP,
    DELETE,
    ask.describe_groups,
    ("30 30 30", "", "-"),
    ("0 30 30", "Empty", "describe"),
    ("0 30 30", "Empty", "delete describe"),
    ("0 30 30", "Empty", "read describe describe_configs alter_configs"),
    ("0 30 30", "Empty", "delete describe"),
    before=committed,
)
story("ConsumerGroupHeartbeat", GROUP, READ, ask.consumer_group_heartbeat, 30, 30, 0, 30, 0)
story(
    "ConsumerGroupHeartbeat with a topic",
    TOPIC,
    DESCRIBE,
    lambda stage: ask.consumer_group_heartbeat(stage, [stage.mine]),
    29,
    0,
    0,
    29,
    0,
    also=lambda stage: [Acl(READ, GROUP, stage.mine)],
)
story(
    "ConsumerGroupDescribe",
    GROUP,
    READ,
    ask.consumer_group_describe,
    ("30 30 30", "", "-"),
    ("69 30 30", "", "-"),
    ("69 30 30", "", "-"),
    ("69 30 30", "", "-"),
    ("69 30 30", "", "-"),
    before=committed,
)
story("ListGroups", GROUP, READ, ask.list_groups, "", "mine", "mine", "mine", "mine", before=committed)
story(
    "DeleteGroups",
    GROUP,
    DELETE,
    ask.delete_groups,
    "30 30 30",
    "30 30 30",
    "0 30 30",
    "30 30 30",
    "0 30 30",
    before=committed,
)
story(
    "DescribeCluster",
    CLUSTER,
    ALTER,
    ask.describe_cluster,
    (0, 1, ""),
    (0, 1, "describe"),
    (0, 1, "alter describe"),
    (0, 1, "create describe cluster_action describe_configs alter_configs idempotent_write"),
    (0, 1, "create alter describe cluster_action describe_configs alter_configs idempotent_write"),
)
story(
    "Metadata with operations on the cluster",
    CLUSTER,
    ALTER_CONFIGS,
    ask.metadata_of_cluster,
    "",
    "describe",
    "",
    "create alter describe cluster_action describe_configs idempotent_write",
    "create alter describe cluster_action describe_configs alter_configs idempotent_write",
)
story(
    "CreateTopics by the cluster",
    CLUSTER,
    CREATE,
    ask.create_topics,
    "29 29 29 29",
    "29 29 29 29",
    "0/29 36 0/29 36",
    "29 29 29 29",
    "0/29 36 0/29 36",
)
story(
    "Metadata that creates a topic by the cluster",
    CLUSTER,
    CREATE,
    ask.auto_create,
    "29 29",
    "29 29",
    "3 29",
    "29 29",
    "3 29",
    also=describe_mine,
)
story(
    "DeleteTopics by the cluster",
    CLUSTER,
    DELETE,
    ask.delete_topics,
    "29 29 29",
    "29 29 29",
    "0 0 3",
    "29 29 29",
    "0 0 3",
)
story(
    "DeleteTopics by id by the cluster",
    CLUSTER,
    DELETE,
    ask.delete_topics_by_id,
    "29:- 29:- 100:-",
    "29:- 29:- 100:-",
    "0:mine 0:other 100:-",
    "29:- 29:- 100:-",
    "0:mine 0:other 100:-",
)
story("InitProducerId", CLUSTER, IDEMPOTENT_WRITE, ask.init_producer_id, (31, -1), (31, -1), (0, 0), (31, -1), (0, 0))
story("InitProducerId by a topic", TOPIC, WRITE, ask.init_producer_id, (31, -1), (31, -1), (0, 0), (31, -1), (0, 0))
story(
    "InitProducerId of a transaction without right",
    CLUSTER,
    IDEMPOTENT_WRITE,
    ask.init_transaction,
    (53, -1),
    (53, -1),
    (53, -1),
    (53, -1),
    (53, -1),
)
story(
    "FindCoordinator of a transaction",
    TRANSACTIONAL_ID,
    DESCRIBE,
    txn.find,
    53,
    0,
    0,
    53,
    0,
    before=txn.with_transaction,
)
story(
    "InitProducerId of a transaction",
    TRANSACTIONAL_ID,
    WRITE,
    txn.init,
    (53, -1),
    (53, -1),
    (50, -1),
    (53, -1),
    (50, -1),
)
story(
    "AddPartitionsToTxn",
    TRANSACTIONAL_ID,
    WRITE,
    txn.add_partitions,
    "53 53 53",
    "53 53 53",
    "29 29 29",
    "53 53 53",
    "29 29 29",
    before=txn.with_transaction,
)
story(
    "AddPartitionsToTxn with one topic",
    TRANSACTIONAL_ID,
    WRITE,
    txn.add_partitions,
    "53 53 53",
    "53 53 53",
    "55 29 29",
    "53 53 53",
    "55 29 29",
    also=with_my_topic,
    before=txn.with_transaction,
)
story(
    "AddPartitionsToTxn by topics",
    TOPIC,
    WRITE,
    txn.add_partitions,
    "29 29 29",
    "29 29 29",
    "55 29 29",
    "29 29 29",
    "55 29 29",
    also=with_my_transaction,
    before=txn.with_transaction,
)
story(
    "AddPartitionsToTxn of a broker",
    CLUSTER,
    CLUSTER_ACTION,
    txn.add_partitions_of_broker,
    (31, []),
    (31, []),
    (0, ["49 49"]),
    (31, []),
    (0, ["49 49"]),
    before=txn.with_transaction,
)
story(
    "AddOffsetsToTxn",
    TRANSACTIONAL_ID,
    WRITE,
    txn.add_offsets,
    53,
    53,
    49,
    53,
    49,
    also=with_my_group,
    before=txn.with_transaction,
)
story(
    "AddOffsetsToTxn by the group",
    GROUP,
    READ,
    txn.add_offsets,
    30,
    30,
    49,
    30,
    49,
    also=with_my_transaction,
    before=txn.with_transaction,
)
story(
    "EndTxn",
    TRANSACTIONAL_ID,
    WRITE,
    txn.end,
    (53, -1, -1),
    (53, -1, -1),
    (49, -1, -1),
    (53, -1, -1),
    (49, -1, -1),
    before=txn.with_transaction,
)
story(
    "ListTransactions",
    TRANSACTIONAL_ID,
    DESCRIBE,
    txn.listed,
    (0, []),
    (0, ["mine"]),
    (0, ["mine"]),
    (0, []),
    (0, ["mine"]),
    before=txn.with_transaction,
)
story(
    "DescribeTransactions",
    TRANSACTIONAL_ID,
    DESCRIBE,
    txn.describe,
    (53, "", ""),
    (0, "Ongoing", "mine"),
    (0, "Ongoing", "mine"),
    (53, "", ""),
    (0, "Ongoing", "mine"),
    also=with_my_topic,
    before=txn.with_transaction,
)
story(
    "DescribeTransactions by topics",
    TOPIC,
    DESCRIBE,
    txn.describe,
    (0, "Ongoing", ""),
    (0, "Ongoing", "mine"),
    (0, "Ongoing", "mine"),
    (0, "Ongoing", ""),
    (0, "Ongoing", "mine"),
    also=with_my_transaction,
    before=txn.with_transaction,
)
story("ListPartitionReassignments", CLUSTER, DESCRIBE, ask.reassignments, 31, 0, 0, 31, 0)
story("DescribeQuorum", CLUSTER, DESCRIBE, ask.quorum, (31, True), (0, False), (0, False), (31, True), (0, False))
story("UpdateFeatures", CLUSTER, ALTER, ask.features, (31, True), (31, True), (95, True), (31, True), (95, True))
story("ElectLeaders", CLUSTER, ALTER, ask.elections, (31, 31), (31, 31), (0, 84), (31, 31), (0, 84))
story(
    "ElectLeaders v0",
    CLUSTER,
    ALTER,
    lambda stage: ask.elections(stage, 0),
    (0, 31),
    (0, 31),
    (0, 84),
    (0, 31),
    (0, 84),
)
story("AlterPartitionReassignments", CLUSTER, ALTER, ask.reassign, (31, 31), (31, 31), (0, 85), (31, 31), (0, 85))
story("AlterReplicaLogDirs", CLUSTER, ALTER, ask.move_replicas, [31], [31], [57], [31], [57])
story("DescribeClientQuotas", CLUSTER, DESCRIBE_CONFIGS, ask.describe_quotas, 31, 31, 0, 31, 0)
story("AlterClientQuotas", CLUSTER, ALTER_CONFIGS, ask.alter_quotas, [31], [31], [42], [31], [42])
story("DescribeLogDirs", CLUSTER, DESCRIBE, ask.log_dirs, (31, 0), (0, 1), (0, 1), (31, 0), (0, 1))
story(
    "DescribeLogDirs v1",
    CLUSTER,
    DESCRIBE,
    lambda stage: ask.log_dirs(stage, 1),
    (0, 0),
    (0, 1),
    (0, 1),
    (0, 0),
    (0, 1),
)
story("ListConfigResources", CLUSTER, DESCRIBE_CONFIGS, ask.config_resources, (31, 0), (31, 0), (0, 1), (31, 0), (0, 1))
story(
    "DescribeConfigs of a broker",
    CLUSTER,
    DESCRIBE_CONFIGS,
    ask.describe_broker_configs,
    [31, 31],
    [31, 31],
    [0, 0],
    [31, 31],
    [0, 0],
)
story(
    "IncrementalAlterConfigs of brokers", CLUSTER, ALTER_CONFIGS, ask.alter_broker_configs, [31], [31], [0], [31], [0]
)
story(
    "ListGroups by the cluster",
    CLUSTER,
    DESCRIBE,
    ask.lists_my_groups,
    "",
    "mine other",
    "mine other",
    "",
    "mine other",
    before=committed,
)
story(
    "OffsetForLeaderEpoch by the cluster",
    CLUSTER,
    CLUSTER_ACTION,
    ask.epoch_ends,
    "29 29 29",
    "29 29 29",
    "0 0 3",
    "29 29 29",
    "0 0 3",
)
story("Fetch by a replica", CLUSTER, CLUSTER_ACTION, ask.replica_fetch, True, True, False, True, False)
story("DescribeAcls", CLUSTER, DESCRIBE, ask.describe_acls, (31, 0), (0, 0), (0, 0), (31, 0), (0, 0))
story("CreateAcls", CLUSTER, ALTER, ask.create_acls, [31, 31], [31, 31], [0, 42], [31, 31], [0, 42])
story("DeleteAcls", CLUSTER, ALTER, ask.delete_acls, [(31, 0)], [(31, 0)], [(0, 0)], [(31, 0)], [(0, 0)])

story(
    "DescribeUserScramCredentials",
    CLUSTER,
    DESCRIBE,
    ask.describe_scram,
    (31, [31]),
    (0, [91]),
    (0, [91]),
    (31, [31]),
    (0, [91]),
)
story("AlterUserScramCredentials", CLUSTER, ALTER, ask.alter_scram, [31], [31], [91], [31], [91])
story(
    "CreateDelegationToken for another",
    USER,
    CREATE_TOKENS,
    ask.create_token,
    (65, True, False),
    (65, True, False),
    (0, True, True),
    (65, True, False),
    (0, True, True),
    resource=user_mine,
)
story(
    "CreateDelegationToken for oneself",
    USER,
    CREATE_TOKENS,
    ask.create_own_token,
    (0, True),
    (0, True),
    (0, True),
    (0, True),
    (0, True),
    resource=user_mine,
)
story(
    "DescribeDelegationToken",
    USER,
    DESCRIBE_TOKENS,
    ask.describe_tokens,
    (0, []),
    (0, []),
    (0, [True]),
    (0, []),
    (0, [True]),
    resource=user_mine,
    before=with_token,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.title.replace(" ", "-"))
def test_story(acl_scene: Scene, story: Story) -> None:
    assert tell(acl_scene, story) == dict(zip(SITUATIONS, story.expected, strict=True))


def tell(scene: Scene, story: Story) -> dict[str, Any]:
    """Return the answers by situation."""
    stages = {situation: Stage(scene) for situation in SITUATIONS}
    names = [name for stage in stages.values() for name in (stage.mine, stage.other)]
    ids = dict(zip(names, scene.topics(*names), strict=True))
    if story.kind is GROUP or story.before is committed:
        scene.wait_for_coordinator()
    answers = {}
    for situation, stage in stages.items():
        stage.ids = {name: ids[name] for name in (stage.mine, stage.other)} | {stage.missing: UUID(int=7)}
        name = CLUSTER_NAME if story.kind is CLUSTER else story.resource(stage)
        story.before(stage)
        stage.user = scene.user([*acls_of(situation, story.kind, story.right, name), *story.also(stage)])
        answers[situation] = story.ask(stage)
    return answers

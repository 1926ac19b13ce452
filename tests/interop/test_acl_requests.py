"""CreateAcls, DescribeAcls and DeleteAcls, answered alike by Apache's broker and ours."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.sync_group import SyncGroupRequest
from tests.broker.wire import Wire
from tests.interop import acl_requests as ask
from tests.interop.acl_requests import Stage
from tests.interop.acl_scene import Acl, Scene, group, topic
from tests.real_kafka import Kafka

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ONLY_CLUSTER = "The only valid name for the CLUSTER resource is kafka-cluster"


VALID: dict[str, Any] = {
    "resource_type": TOPIC,
    "resource_name": "t",
    "principal": "User:nobody",
    "host": "*",
    "operation": READ,
    "permission_type": AclPermissionType.ALLOW,
}


def creation(**fields: Any) -> AclCreation:
    return AclCreation(**{**VALID, **fields})


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"resource_type": CLUSTER}, 42, ONLY_CLUSTER),
        (
            {"resource_type": CLUSTER, "resource_name": "*"},
            42,
            ONLY_CLUSTER,
        ),
        ({"resource_name": ""}, 42, "Invalid empty resource name"),
        ({"resource_type": 99}, 42, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 99}, 42, "Invalid patternType UNKNOWN"),
        ({"operation": 99}, 42, "Invalid operation UNKNOWN"),
        ({"permission_type": 99}, 42, "Invalid permissionType UNKNOWN"),
        (
            {"principal": "nobody"},
            42,
            "Could not parse principal from `nobody` (no colon is present separating the principal type from the "
            "principal name)",
        ),
    ],
    ids=str,
)
def test_an_invalid_acl_is_refused_alone(acl_scene: Scene, fields: dict[str, Any], code: int, message: str) -> None:
    name = acl_scene.name("refused")
    valid = creation(resource_name=name, principal=f"User:{acl_scene.user().name}")
    response = acl_scene.admin.ask(CreateAclsRequest(creations=[creation(**fields), valid]), 3)
    assert [(one.error_code, one.error_message) for one in response.results] == [(code, message), (0, "")]


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
    ids=str,
)
def test_an_acl_with_a_number_of_filters_fails_the_request(acl_scene: Scene, fields: dict[str, Any]) -> None:
    response = acl_scene.admin.ask(CreateAclsRequest(creations=[creation(**fields), creation(resource_name="")]), 3)
    assert [(one.error_code, one.error_message) for one in response.results] == [(-1, None), (-1, None)]


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_the_number_0_in_an_acl_closes_the_connection(acl_scene: Scene, field: str) -> None:
    with pytest.raises((AssertionError, OSError), match=r"closed|reset"):
        acl_scene.admin.ask(CreateAclsRequest(creations=[creation(**{field: 0})]), 3)
    acl_scene.reconnect()


def test_filters_find_and_remove_acls(acl_scene: Scene) -> None:
    """Wildcards, prefixes and names by MATCH; an ACL that two filters match is in both results."""
    name = acl_scene.name("topic")
    user = acl_scene.user(
        [
            topic(READ, name),
            topic(WRITE, name),
            Acl(READ, TOPIC, name[:-1], pattern=PatternType.PREFIXED),
            Acl(DESCRIBE, TOPIC, "*", AclPermissionType.DENY),
            group(READ, name),
        ]
    )
    principal = f"User:{user.name}"

    def found(resource: str | None, pattern: int, **more: Any) -> list[tuple[int, str, int, int]]:
        given = {"resource_type_filter": TOPIC, "operation": 1, "permission_type": 1, "host_filter": None, **more}
        request = DescribeAclsRequest(
            resource_name_filter=resource, pattern_type_filter=pattern, principal_filter=principal, **given
        )
        return sorted(
            (one.pattern_type, one.resource_name.replace(name[:-1], "name"), acl.operation, acl.permission_type)
            for one in acl_scene.admin.ask(request, 3).resources
            for acl in one.acls
        )

    literal = [(3, f"name{name[-1]}", 3, 3), (3, f"name{name[-1]}", 4, 3)]
    wildcard, prefixed = [(3, "*", 8, 2)], [(4, "name", 3, 3)]
    assert found(name, 3) == literal
    assert found(name, 2) == wildcard + literal + prefixed
    assert found(name, 1) == literal
    assert found(name[:-1], 1) == prefixed
    assert found("other", 2) == wildcard
    assert found(None, 4) == prefixed
    assert found(None, 1, permission_type=2) == wildcard
    assert found(name, 2, operation=4) == literal[1:]
    assert found(name, 2, operation=2) == []
    assert found(name, 2, host_filter="10.0.0.1") == []
    assert found(name, 2, resource_type_filter=99) == []

    def removal(resource: str, pattern: int, operation: int) -> DeleteAclsFilter:
        return DeleteAclsFilter(
            resource_type_filter=TOPIC, resource_name_filter=resource, pattern_type_filter=pattern,
            principal_filter=principal, host_filter=None, operation=operation, permission_type=1,
        )  # fmt: skip

    filters = [removal(name, 3, 3), removal(name, 2, 3), removal(name, 99, 3), removal(name, 3, 99)]
    results = acl_scene.admin.ask(DeleteAclsRequest(filters=filters), 3).filter_results
    assert [(one.error_code, one.error_message, len(one.matching_acls)) for one in results] == [
        (0, None, 1),
        (0, None, 2),
        (42, "Unknown patternFilter.", 0),
        (42, "Unknown entryFilter.", 0),
    ]
    acl_scene.until(lambda: found(name, 2) == wildcard + literal[1:], "the ACLs to be removed")


def test_a_changed_acl_applies_to_a_connection_that_reads(acl_scene: Scene) -> None:
    """A consumer that repeats its Fetch loses the topic when its ACL is removed, and gets it back."""
    stage = Stage(acl_scene)
    stage.names = [stage.mine]
    acl_scene.topics(stage.mine)
    stage.user = acl_scene.user([topic(READ, stage.mine)])
    assert [ask.fetch(stage) for _ in range(3)] == ["0", "0", "0"]
    acl_scene.revoke(stage.user.name)
    acl_scene.until(lambda: ask.fetch(stage) == "29", "the topic to be forbidden")
    acl_scene.grant([(stage.user.name, topic(READ, stage.mine))])
    acl_scene.until(lambda: ask.fetch(stage) == "0", "the topic to be allowed")


def test_a_fetch_session_returns_a_forbidden_partition_until_it_is_allowed(acl_scene: Scene) -> None:
    """In a session (KIP-227) unchanged partitions are left out, errors are not."""
    names = [acl_scene.name("mine"), acl_scene.name("other")]
    acl_scene.topics(*names)
    user = acl_scene.user([topic(READ, names[0])])
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic=name, partitions=[partition]) for name in names]

    def fetch(session_id: int, epoch: int, topics: list[FetchTopic]) -> tuple[int, dict[str, int]]:
        request = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics)
        response = user.ask(request, 12)
        assert response.error_code == 0
        return response.session_id, {one.topic: one.partitions[0].error_code for one in response.responses}

    session_id, codes = fetch(0, 0, topics)
    assert codes == {names[0]: 0, names[1]: 29}
    assert fetch(session_id, 1, []) == (session_id, {names[1]: 29})
    assert fetch(session_id, 2, []) == (session_id, {names[1]: 29})
    acl_scene.grant([(user.name, topic(READ, names[1]))])
    assert fetch(session_id, 3, []) == (session_id, {names[1]: 0})
    assert fetch(session_id, 4, []) == (session_id, {})


def test_a_fetch_waits_for_its_allowed_partitions_only(acl_scene: Scene) -> None:
    names = [acl_scene.name("mine"), acl_scene.name("other")]
    acl_scene.topics(*names)
    user = acl_scene.user([topic(READ, names[0])])
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)

    def fetch(*names: str) -> tuple[float, dict[str, int]]:
        started = time.monotonic()
        topics = [FetchTopic(topic=name, partitions=[partition]) for name in names]
        response = user.ask(FetchRequest(max_wait_ms=400, min_bytes=1, topics=topics), 12)
        codes = {one.topic: one.partitions[0].error_code for one in response.responses}
        return time.monotonic() - started, codes

    waited_s, codes = fetch(*names)
    assert codes == {names[0]: 0, names[1]: 29}
    assert waited_s >= 0.4
    assert fetch(names[1])[1] == {names[1]: 29}


def test_without_an_authorizer_there_are_no_acls(any_kafka: Kafka) -> None:
    disabled = 54
    with Wire(any_kafka.bootstrap_servers) as wire:
        [created] = wire.ask(CreateAclsRequest(creations=[creation()]), 3).results
        request = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        described = wire.ask(request, 3)
        everything = DeleteAclsFilter(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        [deleted] = wire.ask(DeleteAclsRequest(filters=[everything]), 3).filter_results
    assert [created.error_code, described.error_code, deleted.error_code] == [disabled] * 3


def test_the_order_of_checks(acl_scene: Scene) -> None:
    """Errors in a request that come before or after the missing right."""
    name = acl_scene.name("mine")
    user = acl_scene.user()
    twice = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    offsets = user.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=twice)]), 7)
    assert [one.error_code for one in offsets.topics[0].partitions] == [29, 29]
    assert (
        user.ask(SyncGroupRequest(group_id=name, generation_id=1, member_id="m"), 5).error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert (
        user.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1), 4).error_code
        == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=4)
    assert user.ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    coordinators = [
        user.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{'A' * 22}:0"]), version).coordinators[0]
        for version in (5, 6)
    ]
    assert [one.error_code for one in coordinators] == [42, 31]
    brokers = [AlterConfigsResource(resource_type=4, resource_name=broker, configs=[]) for broker in ("1", "7")]
    altered = user.ask(IncrementalAlterConfigsRequest(resources=brokers, validate_only=True), 1).responses
    assert {one.resource_name: one.error_code for one in altered} == {"1": 31, "7": 42}
    names = [name, "a b", "__cluster_metadata"]
    topics = [CreatableTopic(name=one, num_partitions=1, replication_factor=1) for one in names]
    created = user.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7).topics
    assert {one.name: one.error_code for one in created} == {name: 29, "a b": 29, "__cluster_metadata": 42}

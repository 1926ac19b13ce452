"""Requests for ACLs, and a waiting Fetch of forbidden partitions, without sockets."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kcli.broker.security.authorizer import AclBinding, Authorizer
from kcli.broker.testing.memory_files import Fault
from kcli.protocol.acls import AclOperation, AclPermissionType, ResourceType
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.rig import Rig
from tests.broker.single_broker import Node

READ, ALLOW, TOPIC = AclOperation.READ, AclPermissionType.ALLOW, ResourceType.TOPIC
SECURITY_DISABLED, KAFKA_STORAGE_ERROR = 54, 56
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ALICE_READS = AclCreation(
    resource_type=TOPIC, resource_name="t", principal="User:alice", host="*", operation=READ, permission_type=ALLOW
)


def node_with_acls() -> Node:
    """Return a broker whose clients are super users."""
    node = Node()
    node.authorizer = Authorizer(super_users=["User:ANONYMOUS"])
    _ = node.alone.security  # the authorizer follows the ACLs
    return node


def described(node: Node) -> list[tuple[str, str]]:
    response = node.ask(DescribeAclsRequest(**EVERYTHING), 3)
    return [(one.resource_name, acl.principal) for one in response.resources for acl in one.acls]


def test_without_an_authorizer_there_are_no_acls() -> None:
    node = Node()
    response = node.ask(DescribeAclsRequest(**EVERYTHING), 3)
    assert response.error_code == SECURITY_DISABLED
    assert "authorizer.class.name" in response.error_message
    created = node.ask(CreateAclsRequest(creations=[ALICE_READS] * 2), 3)
    assert [one.error_code for one in created.results] == [SECURITY_DISABLED] * 2
    deleted = node.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), 3)
    assert [one.error_code for one in deleted.filter_results] == [SECURITY_DISABLED]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_creates_describes_and_deletes(version: int) -> None:
    node = node_with_acls()
    assert node.ask(CreateAclsRequest(creations=[ALICE_READS]), version).results[0].error_code == 0
    assert described(node) == [("t", "User:alice")]
    [result] = node.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), version).filter_results
    assert [(one.resource_name, one.operation) for one in result.matching_acls] == [("t", READ)]
    assert described(node) == []


def test_acls_of_a_full_disk_are_refused_and_do_not_apply() -> None:
    node = node_with_acls()
    node.files.faults.append(Fault("append", code=errno.ENOSPC))
    created = node.ask(CreateAclsRequest(creations=[ALICE_READS] * 2), 3)
    assert [one.error_code for one in created.results] == [KAFKA_STORAGE_ERROR] * 2
    assert described(node) == []
    assert node.log_manager.failed is None


def test_a_fetch_waits_for_the_allowed_partitions_and_returns_the_forbidden_ones_with_them() -> None:
    rig = Rig()
    for name in ("a", "b", "c"):
        rig.topic(name)
    rig.authorizer = Authorizer([AclBinding(TOPIC, "b", 3, "User:*", "*", READ, ALLOW)])
    topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition_max_bytes=1000)]) for name in ("a", "b", "c")]
    answer = rig.send(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), 12)
    assert not answer.is_there
    rig.wait(510)
    assert [(one.topic, one.partitions[0].error_code) for one in answer.value.responses] == [
        ("a", 29),
        ("b", 0),
        ("c", 29),
    ]
    forbidden = rig.send(FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topics[0], topics[2]]), 12)
    assert forbidden.is_there, "there is nothing to wait for"

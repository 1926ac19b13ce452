"""Users without rights on a broker with an authorizer: raw connections, ACLs and topics, for Apache's broker and ours.

Users log in with OAUTHBEARER and unsecured tokens, so that each test has principals of its own without creating them.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kcli.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResource
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.wire import Wire

ANY = 1
PATIENCE_S = 20.0


class Acl(NamedTuple):
    """An ACL of a user: the operation, the resource, and how it applies."""

    operation: AclOperation
    resource_type: ResourceType
    name: str
    permission: AclPermissionType = AclPermissionType.ALLOW
    pattern: PatternType = PatternType.LITERAL

    def creation(self, user: str) -> AclCreation:
        return AclCreation(
            resource_type=self.resource_type,
            resource_name=self.name,
            resource_pattern_type=self.pattern,
            principal=f"User:{user}",
            host="*",
            operation=self.operation,
            permission_type=self.permission,
        )


def topic(operation: AclOperation, name: str) -> Acl:
    return Acl(operation, ResourceType.TOPIC, name)


def group(operation: AclOperation, name: str) -> Acl:
    return Acl(operation, ResourceType.GROUP, name)


def cluster(operation: AclOperation) -> Acl:
    return Acl(operation, ResourceType.CLUSTER, CLUSTER_NAME)


class Scene:
    """A broker, a super user's connection, and users whose names no other test has."""

    _numbers = itertools.count()

    def __init__(self, admin_address: str, sasl_address: str) -> None:
        self.sasl_address = sasl_address
        self.admin_address = admin_address
        self.admin = Wire(admin_address)
        self._open: list[Wire] = [self.admin]
        self._users: list[str] = []

    def name(self, prefix: str) -> str:
        """Return a name for a user, topic or group that nothing else has, not even as a prefix without its end."""
        return f"{prefix}-{os.getpid()}-{next(self._numbers)}-x"

    def user(self, acls: Sequence[Acl] = ()) -> User:
        """Return a new user who has these ACLs and no others."""
        name = self.name("user")
        self._users.append(name)
        self.grant([(name, acl) for acl in acls])
        wire = Wire(self.sasl_address)
        self._open.append(wire)
        _log_in(wire, name)
        return User(name, wire)

    def grant(self, acls: Sequence[tuple[str, Acl]]) -> None:
        """Create ACLs, and wait until the broker applies them."""
        if not acls:
            return
        creations = [acl.creation(user) for user, acl in acls]
        results = self.admin.ask(CreateAclsRequest(creations=creations), 3).results
        assert [result.error_code for result in results] == [0] * len(acls), results
        for user in {user for user, _ in acls}:
            self._wait_for_acls(user, {acl for owner, acl in acls if owner == user})

    def _wait_for_acls(self, user: str, acls: set[Acl]) -> None:
        request = DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        self.until(
            lambda: acls <= _acls_of(self.admin.ask(request, 3).resources),
            f"the broker to apply the ACLs of {user}",
        )

    def topics(self, *names: str) -> list[UUID]:
        """Create topics with one partition, wait until it is led, and return their ids."""
        creations = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        created = self.admin.ask(CreateTopicsRequest(topics=creations, timeout_ms=20_000), 7).topics
        assert {one.error_code for one in created} == {0}, created
        ids = {one.name: one.topic_id for one in created}
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        self.until(
            lambda: (
                not any(
                    one.error_code or any(partition.leader_id < 0 for partition in one.partitions)
                    for one in self.admin.ask(request, 12).topics
                )
            ),
            f"leaders of {names}",
        )
        return [ids[name] for name in names]

    def wait_for_coordinator(self) -> None:
        """Let the broker create the topic of the offsets, and wait until it coordinates groups."""
        request = FindCoordinatorRequest(key_type=0, key="any")
        self.until(lambda: not self.admin.ask(request, 3).error_code, "a coordinator")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
            time.sleep(0.01)

    def revoke(self, *users: str) -> None:
        """Remove all ACLs of these users."""
        filters = [
            DeleteAclsFilter(
                resource_type_filter=ANY,
                resource_name_filter=None,
                pattern_type_filter=ANY,
                principal_filter=f"User:{user}",
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            )
            for user in users
        ]
        self.admin.ask(DeleteAclsRequest(filters=filters), 3)

    def reconnect(self) -> None:
        """Replace the super user's connection, which the broker has closed."""
        self.admin = Wire(self.admin_address)
        self._open.append(self.admin)

    def close(self) -> None:
        """Remove the ACLs and close the connections."""
        self.revoke(*self._users)
        for wire in self._open:
            wire.sock.close()


class User(NamedTuple):
    """A logged-in user."""

    name: str
    wire: Wire

    def ask(self, request: Any, version: int) -> Any:
        return self.wire.ask(request, version)


def _acls_of(resources: Sequence[DescribeAclsResource]) -> set[Acl]:
    return {
        Acl(
            AclOperation(one.operation),
            ResourceType(resource.resource_type),
            resource.resource_name,
            AclPermissionType(one.permission_type),
            PatternType(resource.pattern_type),
        )
        for resource in resources
        for one in resource.acls
    }


def _log_in(wire: Wire, user: str) -> None:
    handshake = wire.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    assert handshake.error_code == 0, handshake
    token = f"n,,\x01auth=Bearer {_unsecured_token(user)}\x01\x01"
    answer = wire.ask(SaslAuthenticateRequest(auth_bytes=token.encode()), 2)
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b""), answer


def _unsecured_token(user: str) -> str:
    now_s = int(time.time())
    claims = {"sub": user, "iat": now_s, "exp": now_s + 3600}
    return ".".join(_base64url(part) for part in ({"alg": "none"}, claims)) + "."


def _base64url(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")

"""ACLs in one line each, for the argument `acls` of an embedded broker: `allow("alice", "READ", topic="orders")`."""

from __future__ import annotations

from kcli.broker.security.authorizer import AclBinding
from kcli.protocol.acls import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType


def allow(user: str, operation: str, /, *, host: str = WILDCARD, **resource: str | bool) -> AclBinding:
    """Return the ACL that allows an operation, such as READ, WRITE, DESCRIBE or ALL, on one resource.

    The resource is one of `topic=`, `group=`, `transactional_id=`, `delegation_token=`, `user=` with a name, or
    `cluster=True`. A name that ends with `*` is a prefix, and `*` means all. The user `*` means every user. ValueError
    for an unknown operation or resource.
    """
    return _acl(AclPermissionType.ALLOW, user, operation, host, resource)


def deny(user: str, operation: str, /, *, host: str = WILDCARD, **resource: str | bool) -> AclBinding:
    """Return the ACL that denies an operation; arguments as of `allow`. It is stronger than every `allow`."""
    return _acl(AclPermissionType.DENY, user, operation, host, resource)


def _acl(
    permission: AclPermissionType, user: str, operation: str, host: str, resource: dict[str, str | bool]
) -> AclBinding:
    if len(resource) != 1:
        raise ValueError("an ACL has exactly one resource, such as topic='orders'")
    [(kind, given)] = resource.items()
    try:
        resource_type, number = ResourceType[kind.upper()], AclOperation[operation.upper()]
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is not a resource type or an operation of Kafka") from None
    name = CLUSTER_NAME if given is True else str(given)
    pattern = PatternType.LITERAL
    if name.endswith(WILDCARD) and name != WILDCARD:
        name, pattern = name.removesuffix(WILDCARD), PatternType.PREFIXED
    return AclBinding(resource_type, name, pattern, f"User:{user}", host, number, permission)

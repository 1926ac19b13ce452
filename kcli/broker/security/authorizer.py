"""The decision whether a principal may do something: ACLs, super users, and Kafka's rules for them. Pure.

The rules are those of Kafka's StandardAuthorizer (KIP-11, KIP-290, KIP-801):

- A super user may do everything.
- An ACL applies if its pattern matches the name of the resource, its principal is the user's or `User:*`, its host is
  the client's address or `*`, and its operation is the requested one or ALL. Kafka compares addresses as text; here
  every notation of an address is the same host, and an address without a scope is that address in each scope.
- A DENY that applies wins. Otherwise one ALLOW that applies is needed.
- An ALLOW for READ, WRITE, DELETE or ALTER also allows DESCRIBE, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. A DENY has
  no such effect.
- A resource without any ACL is forbidden, unless allow.everyone.if.no.acl.found is true.

Handlers ask `broker.authorizer`. Without authorizer.class.name that is a `allow_all.AllowAll`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.serving.client_address import canonical_address
from kcli.protocol.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from kcli.broker.serving.request_context import RequestContext

_ALL = AclOperation.ALL
# The operations whose ALLOW allows another operation, too.
_ALLOWED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            _ALL,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, _ALL}),
}
# Clients choose the names in requests, so the number of remembered decisions has a limit.
_MOST_DECISIONS = 50_000


class AclBinding(NamedTuple):
    """One ACL; the numbers are those of `kcli.protocol.acls`."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """A condition for ACLs: None and ANY match everything; the pattern type MATCH what affects a resource."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_pattern(binding)
            and self.principal in (None, binding.principal)
            and (self.host is None or canonical_address(self.host) == canonical_address(binding.host))
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission_type in (AclPermissionType.ANY, binding.permission_type)
        )

    def _matches_pattern(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        if self.resource_name in (None, binding.resource_name):
            return True
        if self.resource_name is None or self.pattern_type != PatternType.MATCH:
            return False
        if binding.pattern_type == PatternType.LITERAL:
            return binding.resource_name == WILDCARD
        return self.resource_name.startswith(binding.resource_name)


class Authorizer:
    """ACLs and the decisions by them. `bindings` is replaced as a whole, by `replace`."""

    is_open = False

    def __init__(
        self, bindings: Iterable[AclBinding] = (), *, super_users: Iterable[str] = (), allow_without_acl: bool = False
    ) -> None:
        """`allow_without_acl` is allow.everyone.if.no.acl.found: resources without an ACL are open to everyone."""
        self.super_users = frozenset(super_users)
        self._allow_without_acl = allow_without_acl
        self._decisions: dict[tuple[str, str, int, int, str], bool] = {}
        self.replace(bindings)

    def __repr__(self) -> str:
        return f"<Authorizer {len(self.bindings)} ACLs, {len(self.super_users)} super users>"

    def replace(self, bindings: Iterable[AclBinding]) -> None:
        """Use these ACLs from now on, in this order, without duplicates."""
        self.bindings: tuple[AclBinding, ...] = tuple(dict.fromkeys(bindings))
        self._decisions.clear()
        self._literal: dict[tuple[int, str], list[AclBinding]] = {}
        self._prefixed: dict[tuple[int, str], list[AclBinding]] = {}
        for binding in self.bindings:
            index = self._literal if binding.pattern_type == PatternType.LITERAL else self._prefixed
            index.setdefault((binding.resource_type, binding.resource_name), []).append(binding)

    def allows(self, client: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may do this with the resource of that name. The answer is remembered."""
        key = (client.principal, client.client_host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _MOST_DECISIONS:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(*key)
        return decision

    def allows_cluster(self, client: RequestContext, operation: AclOperation) -> bool:
        """Return whether the client may do this with the cluster."""
        return self.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(self, client: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether there is a name for which the client may do this (KIP-679)."""
        if self.allows(client, operation, resource_type, "hardcode"):  # super users, and everyone without ACLs
            return True
        hosts = _hosts(client.client_host)
        applying = [
            binding
            for binding in self.bindings
            if binding.resource_type == resource_type
            and binding.operation in (operation, _ALL)
            and _is_for(binding, client.principal, hosts)
        ]
        denied = {(b.pattern_type, b.resource_name) for b in applying if b.permission_type == AclPermissionType.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            binding.permission_type == AclPermissionType.ALLOW and not _is_hidden(binding, denied)
            for binding in applying
        )

    def operations(self, client: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return the client's operations on the resource as a bit field (KIP-430)."""
        return operation_bits(
            operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(client, operation, resource_type, name)
        )

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        hosts = _hosts(host)
        allowing = _ALLOWED_BY.get(AclOperation(operation), (operation, _ALL))
        has_acl = is_allowed = False
        for binding in self._matching(resource_type, name):
            has_acl = True
            if not _is_for(binding, principal, hosts):
                continue
            if binding.permission_type == AclPermissionType.ALLOW:
                is_allowed = is_allowed or binding.operation in allowing
            elif binding.operation in (operation, _ALL):
                return False
        return is_allowed or (self._allow_without_acl and not has_acl)

    def _matching(self, resource_type: int, name: str) -> Iterator[AclBinding]:
        """Return the ACLs whose patterns match the resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        if self._prefixed:
            for end in range(1, len(name) + 1):
                yield from self._prefixed.get((resource_type, name[:end]), ())


def operation_bits(operations: Iterable[AclOperation]) -> int:
    """Return the bit field of operations in responses (KIP-430)."""
    return sum(1 << operation for operation in operations)


def _is_for(binding: AclBinding, principal: str, hosts: tuple[str, ...]) -> bool:
    return binding.principal in (principal, WILDCARD_PRINCIPAL) and canonical_address(binding.host) in hosts


def _is_hidden(allowed: AclBinding, denied: set[tuple[int, str]]) -> bool:
    """Return whether denials cover all names that this ACL allows."""
    name = allowed.resource_name
    is_literal = allowed.pattern_type == PatternType.LITERAL
    if is_literal and name == WILDCARD:
        return False
    if is_literal and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def _hosts(address: str) -> tuple[str, ...]:
    """Return the hosts of the ACLs for a client with this address, as `canonical_address` gives them."""
    host = canonical_address(address)
    return WILDCARD, host, host.partition("%")[0]

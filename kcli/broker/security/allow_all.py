"""The authorizer of a broker without authorizer.class.name: everyone may do everything.

It is apart from `authorizer`, because a broker without ACLs need not import that, and start-up time is a feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kcli.broker.security.authorizer import AclBinding, Authorizer
    from kcli.broker.serving.request_context import RequestContext
    from kcli.protocol.acls import AclOperation, ResourceType

    AnyAuthorizer: TypeAlias = "Authorizer | AllowAll"


class AllowAll:
    """The methods of `Authorizer`. `is_open` is True here only: handlers of records test this attribute first."""

    is_open = True
    bindings: tuple[AclBinding, ...] = ()

    def allows(self, client: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        return True

    def allows_cluster(self, client: RequestContext, operation: AclOperation) -> bool:
        return True

    def allows_any(self, client: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        return True

    def operations(self, client: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return all operations of the resource as a bit field (KIP-430)."""
        from kcli.protocol.acls import SUPPORTED_OPERATIONS

        return sum(1 << operation for operation in SUPPORTED_OPERATIONS[resource_type])

"""Rights that several handlers ask for. Not a handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.serving.request_context import RequestContext


def cluster_operations(authorizer: AnyAuthorizer, context: RequestContext) -> int:
    """Return the client's operations on the cluster as a bit field, 0 if it must not describe the cluster."""
    if not authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        return 0
    return authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def may_create_topic(authorizer: AnyAuthorizer, context: RequestContext, name: str) -> bool:
    """Return whether the client may create this topic: CREATE on the cluster or on the topic."""
    return authorizer.allows_cluster(context, AclOperation.CREATE) or authorizer.allows(
        context, AclOperation.CREATE, ResourceType.TOPIC, name
    )


def allowed_names(
    authorizer: AnyAuthorizer,
    context: RequestContext,
    operation: AclOperation,
    kind: ResourceType,
    names: Iterable[str],
) -> set[str]:
    """Return the names of the resources with which the client may do this."""
    return {name for name in names if authorizer.allows(context, operation, kind, name)}


def cluster_denied(operation: AclOperation) -> BrokerError:
    """Return the error for a client that must not do this with the cluster."""
    return BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{operation.name} on the cluster is needed")

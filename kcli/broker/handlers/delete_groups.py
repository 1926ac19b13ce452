"""DeleteGroups (42), v0-2: delete groups without members, and their offsets (KIP-229).

Deliberately missing: share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """Return a result per group; a duplicate is deleted once."""
    names = list(dict.fromkeys(request.groups_names))
    allowed = allowed_names(broker.authorizer, context, AclOperation.DELETE, ResourceType.GROUP, names)
    request.groups_names = [name for name in names if name in allowed]
    response = broker.groups.delete_groups(request, context)
    response.results += [
        DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
        if name not in allowed
    ]
    return response


def refused(request: DeleteGroupsRequest, error: ErrorCode, version: int) -> DeleteGroupsResponse:
    """Return the answer of a broker that does not coordinate the groups, or cannot answer now."""
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=error) for group_id in request.groups_names]
    )

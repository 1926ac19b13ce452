"""ListGroups (16), v0-5: all groups, filtered by state and type.

Types are classic and consumer (KIP-848). Deliberately missing: share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Return the groups that match the filters, and that the client may describe."""
    response = broker.groups.list_groups(request, context)
    authorizer = broker.authorizer
    if not authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        names = (group.group_id for group in response.groups)
        visible = allowed_names(authorizer, context, AclOperation.DESCRIBE, ResourceType.GROUP, names)
        response.groups = [group for group in response.groups if group.group_id in visible]
    return response

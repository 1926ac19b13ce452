"""DescribeGroups (15), v0-6: state and members of classic groups.

Groups of KIP-848 have an API of their own, and are answered like unknown ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Return a row per requested group, including unknown ones."""
    authorizer = broker.authorizer
    allowed = allowed_names(authorizer, context, AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)
    denied = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.groups
        if group_id not in allowed
    ]
    request.groups = [group_id for group_id in request.groups if group_id in allowed]
    response = broker.groups.describe_groups(request, context)
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = authorizer.operations(context, ResourceType.GROUP, group.group_id)
    response.groups[:0] = denied  # first, as in Apache Kafka
    return response


def refused(request: DescribeGroupsRequest, error: ErrorCode, version: int) -> DescribeGroupsResponse:
    """Return the answer of a broker that does not coordinate the groups, or cannot answer now."""
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error) for group_id in request.groups]
    )

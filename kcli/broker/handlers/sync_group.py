"""SyncGroup (14), v0-5: the assignment of a member that uses the classic protocol.

The answer waits for the leader's assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.group.responses import lacks_protocol, sync_error
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: SyncGroupRequest, context: RequestContext
) -> Pending[SyncGroupResponse] | SyncGroupResponse:
    """Return the assignment of the member."""
    if lacks_protocol(request, context.api_version):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return sync_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.groups.classic.sync(request, context)

"""LeaveGroup (13), v0-5: members of the classic protocol leave a group, one or many in a request (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Return a result per member; before v3 one for the only member."""
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.groups.classic.leave(request, context)

"""JoinGroup (11), v0-9: enter a group by the classic protocol.

The answer waits for the other members of the generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.group.responses import fit_to_version, join_error
from kcli.broker.serving.pending import Pending, completed
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
    """Return the member id and generation, and for the leader the subscriptions of all members."""
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return completed(refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, context.api_version))
    return broker.groups.classic.join(request, context)


def refused(request: JoinGroupRequest, error: ErrorCode, version: int) -> JoinGroupResponse:
    """Return the answer of a broker that does not coordinate the group, or cannot answer now."""
    return fit_to_version(join_error(error), version)

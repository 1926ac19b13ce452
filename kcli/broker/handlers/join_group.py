"""JoinGroup (11), v0-9: enter a classic group.

The answer waits for the other members of the generation. Deliberately missing: KIP-848 groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.group.responses import fit_to_version, join_error
from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
    """Return the member id and generation, and for the leader the subscriptions of all members."""
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        refused: Pending[JoinGroupResponse] = Pending()
        error = join_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
        refused.complete(fit_to_version(error, context.api_version))
        return refused
    return broker.groups.join(request, context)

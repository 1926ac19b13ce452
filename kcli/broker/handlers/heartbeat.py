"""Heartbeat (12), v0-4: keep a member of a classic group alive.

Deliberately missing: KIP-848 and share groups, which have APIs of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Return error 27 if the member must rejoin."""
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.groups.classic.heartbeat(request, context)


def refused(request: HeartbeatRequest, error: ErrorCode, version: int) -> HeartbeatResponse:
    """Return the answer of a broker that does not coordinate the group, or cannot answer now.

    While the group is loaded, the answer has no error, as in Apache Kafka: the session begins afterwards.
    """
    return HeartbeatResponse(error_code=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error)

"""ConsumerGroupHeartbeat (68), v0-1: join, stay in and leave a group whose coordinator assigns (KIP-848).

The feature group.version must be finalized, and group.coordinator.rebalance.protocols must contain consumer; otherwise
the request is refused (35).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """Return the member's epoch, and its assignment if that has changed; 35 in a cluster without the feature.

    A topic that the client must not describe refuses the whole request, because the client must not learn of it.
    """
    if not broker.groups.serves_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    authorizer = broker.authorizer
    may_describe = partial(authorizer.allows, context, AclOperation.DESCRIBE, ResourceType.TOPIC)
    if not authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for topic in request.subscribed_topic_names or ():
        if not may_describe(topic):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return broker.groups.consumers.heartbeat(request, context, may_describe)

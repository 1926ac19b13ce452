"""FindCoordinator (10), v0-6: this broker for every consumer group.

Deliberately missing: transaction and share-group coordinators. They are refused with errors that clients treat as
fatal, so that clients do not continue with requests that this broker does not serve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcli.structs import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_VERSION_WITH_BATCHES = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6


def handle(broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Return this broker's address. The offsets topic is created, because clients may expect it from now on."""
    if context.api_version >= FIRST_VERSION_WITH_BATCHES:
        return FindCoordinatorResponse(
            coordinators=[_find(broker, request, key, context) for key in request.coordinator_keys]
        )
    coordinator = _find(broker, request, request.key, context)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or "NONE",
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _offsets_topic_error(broker: Broker) -> BrokerError | None:
    """Create the offsets topic if it does not exist; return the error if that fails."""
    try:
        broker.cluster.ensure_internal(OFFSETS_TOPIC)
    except BrokerError as error:
        return error
    return None


def _find(broker: Broker, request: FindCoordinatorRequest, key: str, context: RequestContext) -> Coordinator:
    cluster = broker.cluster
    if request.key_type == GROUP:
        if not broker.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, key):
            return _refused(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, "DESCRIBE on the group is needed")
        problem = _offsets_topic_error(broker)
        if problem is not None:  # clients try again
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, problem.detail)
        host, port = cluster.address(context.listener)
        return Coordinator(key=key, node_id=cluster.node_id, host=host, port=port)
    if request.key_type == TRANSACTION:
        return _refused(
            key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker does not support transactions"
        )
    is_share = request.key_type == SHARE and context.api_version >= FIRST_VERSION_WITH_SHARE_GROUPS
    if is_share and not broker.authorizer.allows_cluster(context, AclOperation.CLUSTER_ACTION):
        denied = cluster_denied(AclOperation.CLUSTER_ACTION)
        return _refused(key, denied.code, denied.detail)
    return _refused(key, ErrorCode.INVALID_REQUEST, "this broker coordinates consumer groups only")


def _refused(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)

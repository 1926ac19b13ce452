"""FindCoordinator (10), v0-6: the broker that coordinates a consumer group or a transactional id.

It is the leader of the partition of __consumer_offsets for a group, of __transaction_state for a transactional id.
Without that topic, or while the partition has no live leader, the answer is 15 and clients retry: a single broker
creates the topic at once, a node requests it from the controller.

Deliberately missing: share-group coordinators. They are refused with an error that clients treat as fatal, so that
clients do not continue with requests that this broker does not serve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator_log import find_coordinator
from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcli.structs import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.view import LiveBroker

GROUP, TRANSACTION, SHARE = 0, 1, 2
# The resource of a kind of keys, the error without a right to it, its noun, and the topic with the coordinator's state.
_KINDS = {
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "group", OFFSETS_TOPIC),
    TRANSACTION: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "transactional id",
        TRANSACTIONS_TOPIC,
    ),
}
FIRST_VERSION_WITH_BATCHES = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6


def handle(broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Return a coordinator per key. The internal topic is created, because clients may expect it from now on."""
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


def _coordinator(broker: Broker, listener: str, name: str, key: str) -> LiveBroker:
    """Return the broker that coordinates a key of the internal topic `name`, with its address for this listener.

    BrokerError COORDINATOR_NOT_AVAILABLE if the key's partition has no live leader; UNKNOWN_TOPIC_OR_PARTITION while
    the topic is being created.
    """
    broker.cluster.ensure_internal(name)
    node_id = find_coordinator(broker.cluster, name, key)
    for node in broker.cluster.brokers(listener):
        if node.node_id == node_id:
            return node
    raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {key} in {name} has no live leader")


def _find(broker: Broker, request: FindCoordinatorRequest, key: str, context: RequestContext) -> Coordinator:
    if request.key_type in _KINDS:
        kind, error, noun, topic = _KINDS[request.key_type]
        if not broker.authorizer.allows(context, AclOperation.DESCRIBE, kind, key):
            return _refused(key, error, f"DESCRIBE on the {noun} is needed")
        try:
            found = _coordinator(broker, context.listener, topic, key)
        except BrokerError as problem:  # clients try again
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, problem.detail)
        return Coordinator(key=key, node_id=found.node_id, host=found.host, port=found.port)
    is_share = request.key_type == SHARE and context.api_version >= FIRST_VERSION_WITH_SHARE_GROUPS
    if is_share and not broker.authorizer.allows_cluster(context, AclOperation.CLUSTER_ACTION):
        denied = cluster_denied(AclOperation.CLUSTER_ACTION)
        return _refused(key, denied.code, denied.detail)
    return _refused(key, ErrorCode.INVALID_REQUEST, "this broker coordinates consumer groups and transactions only")


def _refused(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)

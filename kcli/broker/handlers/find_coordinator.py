"""FindCoordinator (10), v0-6: this broker for every consumer group.

Deliberately missing: transaction and share-group coordinators. They are refused with errors that clients treat as
fatal, so that clients do not continue with requests that this broker does not serve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcli.structs import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

GROUP, TRANSACTION = 0, 1
FIRST_VERSION_WITH_BATCHES = 4


def handle(broker: Broker, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Return this broker's address. The offsets topic is created, because clients may expect it from now on."""
    problem = _offsets_topic_error(broker) if request.key_type == GROUP else None
    if context.api_version >= FIRST_VERSION_WITH_BATCHES:
        return FindCoordinatorResponse(
            coordinators=[_find(broker, request, key, problem, context) for key in request.coordinator_keys]
        )
    coordinator = _find(broker, request, request.key, problem, context)
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


def _find(
    broker: Broker, request: FindCoordinatorRequest, key: str, problem: BrokerError | None, context: RequestContext
) -> Coordinator:
    cluster = broker.cluster
    if problem is not None:  # clients try again
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, problem.detail)
    if request.key_type == GROUP:
        host, port = cluster.address(context.listener)
        return Coordinator(key=key, node_id=cluster.node_id, host=host, port=port)
    if request.key_type == TRANSACTION:
        return _refused(
            key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker does not support transactions"
        )
    return _refused(key, ErrorCode.INVALID_REQUEST, "this broker coordinates consumer groups only")


def _refused(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)

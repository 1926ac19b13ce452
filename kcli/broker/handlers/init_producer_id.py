"""InitProducerId (22), v0-5: ids for idempotent producers.

Deliberately missing: transactions. A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53),
because every client treats that as fatal and reports it at once; after a coordinator error it would retry for a minute
or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.security.allow_all import AnyAuthorizer


def handle(broker: Broker, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Return a new unique id with epoch 0."""
    code = _denial(broker.authorizer, request, context) or _request_error(request)
    if code:
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    try:
        return InitProducerIdResponse(producer_id=broker.producer_ids.next(), producer_epoch=0)
    except OSError:  # the next block of ids could not be reserved on the disk
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_epoch=-1)


def _request_error(request: InitProducerIdRequest) -> ErrorCode:
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if request.transactional_id is None else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _denial(authorizer: AnyAuthorizer, request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    """Return the error for a client without a right.

    It needs WRITE on its transactional id, or without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic
    (KIP-679).
    """
    name = request.transactional_id
    if name is not None:
        may_write = authorizer.allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
        return ErrorCode.NONE if may_write else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if authorizer.allows_cluster(context, AclOperation.IDEMPOTENT_WRITE):
        return ErrorCode.NONE
    if authorizer.allows_any(context, AclOperation.WRITE, ResourceType.TOPIC):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED

"""InitProducerId (22), v0-5: ids for idempotent producers, and ids with an epoch for transactional ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.transaction.transaction_coordinator import ProducerIdentity

# Older clients do not know PRODUCER_FENCED.
_FIRST_WITH_FENCED = 4


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    """Return a new unique id with epoch 0, or the id and next epoch of the transactional id."""
    code = _denial(broker.authorizer, request, context)
    if not code and (request.producer_id == -1) != (request.producer_epoch == -1):
        code = ErrorCode.INVALID_REQUEST
    if code:
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    if request.transactional_id is not None:
        return _of_transactional_id(broker, request.transactional_id, request, context)
    try:
        return InitProducerIdResponse(producer_id=broker.membership.next_producer_id(), producer_epoch=0)
    except BrokerError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        # The next block of ids could not be reserved on the disk.
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_epoch=-1)


def _of_transactional_id(
    broker: Broker, transactional_id: str, request: InitProducerIdRequest, context: RequestContext
) -> Pending[InitProducerIdResponse]:
    expected = None if request.producer_id == -1 else (request.producer_id, request.producer_epoch)

    def answer(identity: ProducerIdentity) -> InitProducerIdResponse:
        error = identity.error
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FIRST_WITH_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(
            error_code=error, producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
        )

    identity = broker.transactions.init_producer_id(transactional_id, request.transaction_timeout_ms, expected)
    return identity.then(answer)


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

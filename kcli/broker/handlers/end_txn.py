"""EndTxn (26), v0-5: commit or abort the transaction of a producer. v5 has an epoch per transaction (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.transaction.transaction_coordinator import ProducerIdentity

# Older clients do not know PRODUCER_FENCED.
_FIRST_WITH_FENCED = 2
_FIRST_WITH_EPOCH_PER_TRANSACTION = 5


def handle(broker: Broker, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | Pending[EndTxnResponse]:
    """Return the outcome when the decision is stored; the markers are written afterwards."""
    name = request.transactional_id
    if not broker.authorizer.allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    from kcli.broker.transaction.transaction_state import EPOCH_PER_TRANSACTION, EndRequest

    version = EPOCH_PER_TRANSACTION if context.api_version >= _FIRST_WITH_EPOCH_PER_TRANSACTION else 0

    def answer(identity: ProducerIdentity) -> EndTxnResponse:
        error = identity.error
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FIRST_WITH_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(
            error_code=error, producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
        )

    end = EndRequest(request.producer_id, request.producer_epoch, request.committed, version)
    return broker.transactions.end(name, end).then(answer)

"""AddOffsetsToTxn (25), v0-4: add the offsets of a group to the transaction of a producer.

The offsets are in one partition of __consumer_offsets. Clients with transaction version 2 do not send it (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

# Older clients do not know PRODUCER_FENCED.
_FIRST_WITH_FENCED = 2


def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
    """Return the outcome when the partition is stored in the transaction."""
    allows = broker.authorizer.allows
    if not allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def answer(error: ErrorCode) -> AddOffsetsToTxnResponse:
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FIRST_WITH_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=error)

    partitions = [broker.offsets.partition_for(request.group_id)]
    return broker.transactions.add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, partitions
    ).then(answer)

"""DescribeTransactions (65), v0: the state of transactional ids, and the partitions of their open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """Return a row for each id, with the topics that the client may describe."""
    return DescribeTransactionsResponse(
        transaction_states=[_row(broker, name, context) for name in request.transactional_ids]
    )


def _row(broker: Broker, name: str, context: RequestContext) -> TransactionState:
    if not broker.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        return TransactionState(transactional_id=name, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    row = broker.transactions.describe(name)
    topics = (topic.topic for topic in row.topics)
    visible = allowed_names(broker.authorizer, context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics)
    row.topics = [topic for topic in row.topics if topic.topic in visible]
    return row

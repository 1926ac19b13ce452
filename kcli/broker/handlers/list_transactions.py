"""ListTransactions (66), v0-2: the transactional ids that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    """Return the ids that match the filters, and that the client may describe."""
    response = broker.transactions.list(request)
    states = response.transaction_states
    names = (state.transactional_id for state in states)
    visible = allowed_names(broker.authorizer, context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, names)
    response.transaction_states = [state for state in states if state.transactional_id in visible]
    return response

"""ListPartitionReassignments (46), v0: always empty; `kafka-topics --describe` requests it.

Deliberately missing: reassignments, because there is one broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.request_context import RequestContext
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Return an empty list."""
    if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        denied = cluster_denied(AclOperation.DESCRIBE)
        return ListPartitionReassignmentsResponse(error_code=denied.code, error_message=denied.detail)
    return ListPartitionReassignmentsResponse(error_message=None)

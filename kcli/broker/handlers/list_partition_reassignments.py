"""ListPartitionReassignments (46), v0: none ever, for there is one broker. `kafka-topics --describe` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Nothing is being moved."""
    return ListPartitionReassignmentsResponse(error_message=None)

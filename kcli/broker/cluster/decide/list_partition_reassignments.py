"""ListPartitionReassignments (46), v0: the partitions that are being moved (KIP-455).

Requested topics and partitions that are unknown, or are not being moved, are left out. `kafka-topics --describe`
requests it. On a single broker it is always empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(
    parts: Parts, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Return the partitions with replicas that are being added or removed; null requests all topics."""
    if not parts.authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        denied = cluster_denied(AclOperation.DESCRIBE)
        return ListPartitionReassignmentsResponse(error_code=denied.code, error_message=denied.detail)
    topics = parts.cluster.topics
    requested = (
        {name: sorted(topic.partitions) for name, topic in topics.items()}
        if request.topics is None
        else {topic.name: topic.partition_indexes for topic in request.topics}
    )
    rows = [
        OngoingTopicReassignment(name=name, partitions=_ongoing(parts, name, numbers))
        for name, numbers in requested.items()
    ]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[row for row in rows if row.partitions])


def _ongoing(parts: Parts, topic: str, numbers: Iterable[int]) -> list[OngoingPartitionReassignment]:
    rows = []
    for number in numbers:
        state = parts.cluster.partition_state(TopicPartition(topic, number))
        if state is not None and state.is_reassigning:
            rows.append(
                OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=list(state.replicas),
                    adding_replicas=list(state.adding),
                    removing_replicas=list(state.removing),
                )
            )
    return rows

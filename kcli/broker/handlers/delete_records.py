"""DeleteRecords (21), v0-2: advance the log start offset of partitions; -1 means the high watermark (KIP-107).

Refused: internal topics (17), topics without the cleanup policy `delete` (44), and offsets above the high watermark
(1). The answer waits until all live replicas start at the new offsets, or for the request's timeout (7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1


def handle(broker: Broker, request: DeleteRecordsRequest, context: RequestContext) -> Pending[DeleteRecordsResponse]:
    """Return the new log start offset of each partition as its low watermark."""
    names = (topic.name for topic in request.topics)
    allowed = allowed_names(broker.authorizer, context, AclOperation.DELETE, ResourceType.TOPIC, names)
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
        if topic.name in allowed
    }
    deleted = broker.replica_manager.delete_records(offsets, timeout_ms=request.timeout_ms, now_ms=context.now_ms)
    return deleted.then(lambda outcomes: _response(request, outcomes))


def _response(
    request: DeleteRecordsRequest, outcomes: dict[TopicPartition, tuple[ErrorCode, int]]
) -> DeleteRecordsResponse:
    def result(topic: str, partition: int) -> DeleteRecordsPartitionResult:
        code, low_watermark = outcomes.get(TopicPartition(topic, partition), _DENIED)
        return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=low_watermark, error_code=code)

    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[result(topic.name, partition.partition_index) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )

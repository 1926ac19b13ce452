"""DeleteRecords (21), v0-2: advance the log start offset of partitions; -1 means the high watermark (KIP-107).

Refused: internal topics (17), topics without the cleanup policy `delete` (44), and offsets above the high watermark
(1). Deliberately missing: waiting for replicas, because there is one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
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


def handle(broker: Broker, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Return the new log start offset of each partition as its low watermark."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _result(broker, context, TopicPartition(topic.name, one.partition_index), one.offset)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _result(broker: Broker, context: RequestContext, tp: TopicPartition, upto: int) -> DeleteRecordsPartitionResult:
    code = ErrorCode.NONE
    try:
        if not broker.authorizer.allows(context, AclOperation.DELETE, ResourceType.TOPIC, tp.topic):
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        start = broker.replica_manager.delete_records(tp, upto)
    except BrokerError as error:
        start, code = -1, error.code
    return DeleteRecordsPartitionResult(partition_index=tp.partition, low_watermark=start, error_code=code)

"""DeleteRecords v0-2: the start of partitions moves forward, -1 up to the high watermark (KIP-107).

Refused where it makes no sense: internal topics (17), topics without the cleanup policy `delete` (44), offsets beyond
the high watermark (1). With one node there are no replicas to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
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
    """The response, with the new start of each partition as its low watermark."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _result(broker, TopicPartition(topic.name, one.partition_index), one.offset)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _result(broker: Broker, tp: TopicPartition, upto: int) -> DeleteRecordsPartitionResult:
    code = ErrorCode.NONE
    try:
        start = broker.replica_manager.delete_records(tp, upto)
    except BrokerError as refusal:
        start, code = -1, refusal.code
    return DeleteRecordsPartitionResult(partition_index=tp.partition, low_watermark=start, error_code=code)

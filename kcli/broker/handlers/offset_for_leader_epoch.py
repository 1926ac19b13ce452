"""OffsetForLeaderEpoch (23), v2-4: the end offset of a leader epoch, for detecting divergence (KIP-101, KIP-320).

Only the leader answers. `replica_id` is ignored, because followers learn of divergence from their fetches (KIP-595).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Return a row for each partition in the order of the request, forbidden topics last."""
    authorizer = broker.authorizer
    sees_all = authorizer.allows_cluster(context, AclOperation.CLUSTER_ACTION)
    allowed = {
        topic.topic
        for topic in request.topics
        if sees_all or authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)
    }
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _row(broker, TopicPartition(topic.topic, row.partition), row)
                    if topic.topic in allowed
                    else EpochEndOffset(partition=row.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for row in topic.partitions
                ],
            )
            for topic in sorted(request.topics, key=lambda topic: topic.topic not in allowed)
        ]
    )


def _row(broker: Broker, tp: TopicPartition, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replica_manager.partition_or_error(tp)
        partition.check_epoch(requested.current_leader_epoch)
        partition.check_leader()
    except BrokerError as error:
        return EpochEndOffset(partition=tp.partition, error_code=error.code)
    epoch, end_offset = partition.end_offset_for_epoch(requested.leader_epoch)
    return EpochEndOffset(partition=tp.partition, leader_epoch=epoch, end_offset=end_offset)

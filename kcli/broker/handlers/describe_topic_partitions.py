"""DescribeTopicPartitions (75), v0: topics and their partitions in pages, ordered by name (KIP-966).

Each partition has its eligible leader replicas and those last known. These lists are never null, because the Java admin
client fails on null. A partition without a leader has the leader -1 and no error, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.broker.cluster.topic_rules import name_fault
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.cluster_values import PartitionState
    from kcli.broker.cluster.view import LiveBroker

_NO_LEADER = -1


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Return the page that starts at the cursor, and the cursor of the next page."""
    authorizer = broker.authorizer
    names, first = _names_from_cursor(broker, request)
    if first is None:
        return _invalid_cursor(request)
    limit = broker.config.max_request_partition_size_limit
    remaining = max(min(request.response_partition_limit, limit), 1)
    response = DescribeTopicPartitionsResponse()
    allowed = [name for name in names if authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name)]
    first = first if allowed[:1] == names[:1] else 0
    for name in allowed:
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        row = _topic_row(broker, context, name, first, remaining)
        response.topics.append(row)
        topic = broker.cluster.topics.get(name)
        next_index = first + len(row.partitions)
        if topic is not None and next_index < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=next_index)
            break
        remaining -= len(row.partitions)
        first = 0
    for row in response.topics:
        row.topic_authorized_operations = authorizer.operations(context, ResourceType.TOPIC, row.name or "")
    if request.topics:
        response.topics += [
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
            for name in names
            if name not in set(allowed)
        ]
    return response


def _names_from_cursor(broker: Broker, request: DescribeTopicPartitionsRequest) -> tuple[list[str], int | None]:
    """Return the names from the cursor on, and the first partition of the first name; None for an invalid cursor."""
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or broker.cluster.topics)
    if cursor is None:
        return names, 0
    if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
        return names, None
    names = [name for name in names if name >= cursor.topic_name]
    return names, cursor.partition_index if names and names[0] == cursor.topic_name else 0


def _invalid_cursor(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


def _topic_row(
    broker: Broker, context: RequestContext, name: str, first: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    topic = broker.cluster.topics.get(name)
    row = DescribeTopicPartitionsResponseTopic(name=name)
    if topic is None:
        invalid = name_fault(name) is not None
        row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row
    row.topic_id, row.is_internal = topic.topic_id, topic.is_internal
    brokers = {node.node_id: node for node in broker.cluster.brokers(context.listener, with_fenced=True)}
    for number, state in sorted(topic.partitions.items())[first : first + limit]:
        row.partitions.append(_partition(number, state, brokers))
    return row


def _partition(
    number: int, state: PartitionState, brokers: Mapping[int, LiveBroker]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=number,
        leader_id=state.leader if state.leader in brokers else _NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=[
            replica for replica in state.replicas if replica not in brokers or brokers[replica].is_fenced
        ],
    )

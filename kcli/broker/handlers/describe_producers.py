"""DescribeProducers (61), v0: the producers that a partition's replica knows, with their open transactions (KIP-664).

A follower answers, too, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.cluster.topic_rules import check_name
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    """Return the producers of each partition in the order of their ids. The right: READ on the topic."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        row = TopicResponse(name=topic.name)
        try:
            _check_topic(broker, topic.name, context)
        except BrokerError as error:
            row.partitions = [
                PartitionResponse(partition_index=number, error_code=error.code, error_message=error.detail)
                for number in topic.partition_indexes
            ]
        else:
            row.partitions = [_partition(broker, topic.name, number) for number in topic.partition_indexes]
        response.topics.append(row)
    return response


def _check_topic(broker: Broker, name: str, context: RequestContext) -> None:
    check_name(name)
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, name):
        raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    if name not in broker.cluster.topics:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _partition(broker: Broker, name: str, number: int) -> PartitionResponse:
    try:
        partition = broker.replica_manager.partition_or_error(TopicPartition(name, number))
    except BrokerError as error:
        return PartitionResponse(partition_index=number, error_code=error.code)
    producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp_ms,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction_offset,
        )
        for producer_id, state in sorted(partition.log.producers.producers.items())
    ]
    return PartitionResponse(partition_index=number, active_producers=producers)

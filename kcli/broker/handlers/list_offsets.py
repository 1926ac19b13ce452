"""ListOffsets (2), v1-11: the offset for a timestamp, of the start, of the end, or of the largest timestamp.

A duplicate partition is refused (42). A debugging consumer (replica -2) may ask a follower, and like a replica it gets
the log end. Deliberately missing: tiered storage, so the offsets of tiers (-5, -6) are unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Generator

    from kcli.broker.broker import Broker
    from kcli.broker.partition import Partition
    from kcli.broker.serving.pending import Pending

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_OF_TIERS = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
_READ_COMMITTED = 1
_CONSUMER, _DEBUGGING_CONSUMER = -1, -2
_NOT_AVAILABLE_SINCE_VERSION = 5

# Offset, timestamp and leader epoch; -1 if unknown.
_OffsetResult = tuple[int, int, int]
_UNKNOWN: _OffsetResult = (-1, -1, -1)


def handle(broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> Pending[ListOffsetsResponse]:
    """Return a row for each partition in the order of the request, forbidden topics last.

    A look-up by timestamp reads records, so that other requests are served between the partitions if it takes long.
    """
    counts = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    is_allowed = {
        topic.name: broker.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        for topic in request.topics
    }

    def row(topic: str, partition: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        if not is_allowed[topic]:
            return _error_row(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if counts[topic, partition.partition_index] > 1:
            return _error_row(partition, ErrorCode.INVALID_REQUEST)
        return _row(broker, request, context, TopicPartition(topic, partition.partition_index), partition)

    def rows() -> Generator[None, None, ListOffsetsResponse]:
        response = ListOffsetsResponse(topics=[])
        for topic in sorted(request.topics, key=lambda topic: not is_allowed[topic.name]):
            answered = ListOffsetsTopicResponse(name=topic.name, partitions=[])
            response.topics.append(answered)
            for requested in topic.partitions:
                answered.partitions.append(row(topic.name, requested))
                yield
        return response

    return broker.replica_manager.long_work.run(rows())


def _row(
    broker: Broker,
    request: ListOffsetsRequest,
    context: RequestContext,
    tp: TopicPartition,
    requested: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    try:
        if requested.timestamp < 0 and context.api_version < _SINCE_VERSION.get(requested.timestamp, 2**15):
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
        partition = broker.replica_manager.partition_or_error(tp)
        partition.check_epoch(requested.current_leader_epoch)
        if request.replica_id != _DEBUGGING_CONSUMER:
            partition.check_leader()
        is_committed_only = request.isolation_level == _READ_COMMITTED
        end = partition.readable_end(sees_all=request.replica_id != _CONSUMER, read_committed=is_committed_only)
        found = _find(partition, requested.timestamp, end)
        if requested.timestamp == LATEST or (found == _UNKNOWN and requested.timestamp not in _OF_TIERS):
            _check_caught_up(partition, request, context)
        offset, timestamp, epoch = found
    except BrokerError as error:
        return _error_row(requested, error.code)
    except OSError as error:
        return _error_row(requested, broker.replica_manager.offline(tp, error).code)
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        offset=offset,
        timestamp=timestamp,
        leader_epoch=epoch if context.api_version >= 4 else -1,
    )


def _check_caught_up(partition: Partition, request: ListOffsetsRequest, context: RequestContext) -> None:
    """Refuse the end of the log to a client while a new leader does not know how far its records are replicated.

    Its high watermark is then below the start of its leader epoch, and offsets known to consumers may lie above it. A
    timestamp after that of the high watermark is refused, too: its record may be among them.
    """
    if request.replica_id == _CONSUMER and partition.log.high_watermark < partition.epoch_start:
        is_known = context.api_version >= _NOT_AVAILABLE_SINCE_VERSION
        raise BrokerError(
            ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE, partition=partition.tp
        )


def _error_row(requested: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=code)


def _find(partition: Partition, timestamp: int, end: int) -> _OffsetResult:
    log = partition.log
    if timestamp == LATEST:
        return end, -1, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, -1, _epoch_at_start(partition)
    if timestamp in _OF_TIERS:
        return _UNKNOWN
    result = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return result if result is not None and result[0] < end else _UNKNOWN


def _epoch_at_start(partition: Partition) -> int:
    """Return the epoch of the first record; the leader epoch if the log is empty or the epoch unknown."""
    epoch = partition.log.epochs.epoch_for(partition.log.log_start_offset)
    return partition.leader_epoch if epoch < 0 else epoch

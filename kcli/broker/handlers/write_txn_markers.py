"""WriteTxnMarkers (27), v1-2: append the markers of a coordinator, or of an administrator, that end transactions.

Every marker is handled by itself. The answer comes when the replicas have all of them. Its rows are by producer, so
that several markers of a producer share one. The right: ALTER or CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.log.producer_checks import NO_EPOCH, TransactionMarker
from kcli.broker.serving.pending import Pending, gathered
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.protocol.records.builder import NO_PRODUCER
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_Errors = dict[TopicPartition, ErrorCode]


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Pending[WriteTxnMarkersResponse]:
    """Return the outcome of each partition by producer."""
    allows = broker.authorizer.allows_cluster
    has_replica = broker.replica_manager.partition
    markers = [
        (
            TransactionMarker(
                row.producer_id,
                row.producer_epoch,
                row.coordinator_epoch,
                is_commit=row.transaction_result,
                transaction_version=row.transaction_version,
            ),
            [TopicPartition(topic.name, number) for topic in row.topics for number in topic.partition_indexes],
        )
        for row in request.markers
    ]
    refusal = ErrorCode.NONE
    if not (allows(context, AclOperation.ALTER) or allows(context, AclOperation.CLUSTER_ACTION)):
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif any(_is_without_producer(marker) and any(map(has_replica, partitions)) for marker, partitions in markers):
        refusal = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka answers the whole request
    producers = [marker.producer_id for marker, _ in markers]
    if refusal:
        return _response(producers, [dict.fromkeys(partitions, refusal) for _, partitions in markers])
    written = gathered([broker.marker_writer.write(marker, partitions) for marker, partitions in markers])
    return written.then(lambda outcomes: _response(producers, outcomes))


def _is_without_producer(marker: TransactionMarker) -> bool:
    """Return whether a batch with the marker would be one without a producer, which cannot end a transaction."""
    return marker.producer_id == NO_PRODUCER or marker.producer_epoch == NO_EPOCH


def _response(producers: list[int], results_of_markers: list[_Errors]) -> WriteTxnMarkersResponse:
    """Return a row for each producer that has partitions."""
    errors: dict[int, _Errors] = {}
    for producer_id, outcomes in zip(producers, results_of_markers, strict=True):
        errors.setdefault(producer_id, {}).update(outcomes)
    results = []
    for producer_id, outcomes in errors.items():
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for tp, error in outcomes.items():
            topic = topics.setdefault(tp.topic, WritableTxnMarkerTopicResult(name=tp.topic, partitions=[]))
            topic.partitions.append(WritableTxnMarkerPartitionResult(partition_index=tp.partition, error_code=error))
        if topics:
            results.append(WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values())))
    return WriteTxnMarkersResponse(markers=results)

"""DescribeQuorum (55), v0-2: a single broker as the only voter and the leader of its metadata.

It has no metadata log: the log end offset is `features_epoch`. It has no listener of a controller, so none is returned.
A node forwards the request; kcli's controller answers with `described`, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.data_dir import parse_uuid
from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResult,
    ReplicaState,
    TopicResult,
)
from kcli.protocol.metadata_records import METADATA_TOPIC

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_FIRST_WITH_DIRECTORIES = 2
_EPOCH = 1
_NO_DIRECTORY = UUID(int=0)


def handle(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """Return this broker as leader and voter."""
    if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        denied = cluster_denied(AclOperation.DESCRIBE)
        return DescribeQuorumResponse(error_code=denied.code, error_message=denied.detail)
    return described(
        request,
        context,
        leader_id=broker.cluster.node_id,
        directory_id=parse_uuid(broker.log_manager.directory_id),
        epoch=_EPOCH,
        end_offset=broker.cluster.features_epoch,
    )


def described(
    request: DescribeQuorumRequest,
    context: RequestContext,
    *,
    leader_id: int,
    directory_id: UUID,
    epoch: int,
    end_offset: int,
    observers: Sequence[ReplicaState] = (),
    listeners: Sequence[Listener] = (),
) -> DescribeQuorumResponse:
    """Return the state of a quorum whose leader is its only voter.

    A request for another partition than that of the metadata log gets UNKNOWN_TOPIC_OR_PARTITION for all of its own.
    """
    topics = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics]
    if topics != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(topics=[_unknown(name, numbers) for name, numbers in topics])
    voter = ReplicaState(
        replica_id=leader_id,
        replica_directory_id=directory_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=context.now_wall_ms,
        last_caught_up_timestamp=context.now_wall_ms,
    )
    partition = PartitionResult(
        leader_id=leader_id,
        leader_epoch=epoch,
        high_watermark=end_offset,
        current_voters=[voter],
        observers=list(observers),
    )
    response = DescribeQuorumResponse(topics=[TopicResult(topic_name=METADATA_TOPIC, partitions=[partition])])
    if context.api_version >= _FIRST_WITH_DIRECTORIES:
        response.nodes = [Node(node_id=leader_id, listeners=list(listeners))]
    else:
        for replica in (voter, *observers):
            replica.replica_directory_id = _NO_DIRECTORY
    return response


def _unknown(topic: str, numbers: Sequence[int]) -> TopicResult:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows = [PartitionResult(partition_index=number, error_code=code, error_message=code.text) for number in numbers]
    return TopicResult(topic_name=topic, partitions=rows)

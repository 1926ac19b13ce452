"""AlterReplicaLogDirs (34), v1-2: move replicas to another log directory (KIP-113).

A broker has one directory. A replica can only be moved to that, where it is; every other path is unknown (57).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_MOST_NAME_BYTES = 255
_SUFFIX_BYTES = len(f".{'0' * 32}-future")  # of the directory of a replica that is being moved


def handle(broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    """Return a result per partition; of a partition that is in the request twice, the last directory counts."""
    paths = {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }
    is_allowed = broker.authorizer.allows_cluster(context, AclOperation.ALTER)
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for tp, path in paths.items():
        code = _outcome(broker, tp, path) if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        topic = topics.setdefault(tp.topic, AlterReplicaLogDirTopicResult(topic_name=tp.topic))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _outcome(broker: Broker, tp: TopicPartition, path: str) -> ErrorCode:
    if len(f"{tp.topic}-{tp.partition}") + _SUFFIX_BYTES > _MOST_NAME_BYTES:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != os.path.abspath(broker.log_manager.data_dir):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if broker.log_manager.failed is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if broker.replica_manager.partition(tp) is not None:
        return ErrorCode.NONE
    exists = broker.cluster.partition_state(tp) is not None
    return ErrorCode.REPLICA_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

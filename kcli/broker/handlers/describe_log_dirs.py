"""DescribeLogDirs (35), v1-5: the one data directory and the sizes of the partitions in it.

Deliberately missing: future replicas, because partitions cannot be moved between directories.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_UNKNOWN = -1


def handle(broker: Broker, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Return the directory; null requests all partitions, and unknown partitions are left out."""
    if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    directory = broker.log_manager.data_dir
    total, usable = _volume(directory)
    result = DescribeLogDirsResult(log_dir=os.path.abspath(directory), total_bytes=total, usable_bytes=usable)
    if broker.log_manager.failed is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.topics = _topics(broker, request)
    return DescribeLogDirsResponse(results=[result])


def _topics(broker: Broker, request: DescribeLogDirsRequest) -> list[DescribeLogDirsTopic]:
    partitions = broker.replica_manager.partitions
    if request.topics is None:
        selected = sorted(partitions)
    else:
        named = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
        selected = sorted(tp for tp in named if tp in partitions)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for tp in selected:
        topic = topics.setdefault(tp.topic, DescribeLogDirsTopic(name=tp.topic))
        size = partitions[tp].log.size_bytes
        topic.partitions.append(DescribeLogDirsPartition(partition_index=tp.partition, partition_size=size))
    return list(topics.values())


def _volume(directory: str) -> tuple[int, int]:
    """Return total and usable bytes of the volume of a directory."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return usage.total, usage.free
